package rig

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/stack"
	"lastitem/stack/wire"
)

// Kind is what a request about a reservation asks for.
type Kind = judge.ReservationKind

// The kinds that the lab asks for. SweepDue is no request: A, which sweeps, is held in a sweep.
const (
	Reserve  = judge.Reserve
	Confirm  = judge.Confirm
	Cancel   = judge.Cancel
	SweepDue = Kind("sweep")
)

// About says what the victim does. The zero value is a deduction.
type About struct {
	Kind    Kind // Confirm or Cancel of a reservation, or SweepDue; "" = a deduction
	Overdue bool // it comes after the deadline
	Rehold  bool // the product lets a late payment take the units again
	Batch   bool // two reservations are overdue
}

// Units is how many are reserved.
func (a About) Units() int64 {
	if a.Batch {
		return 2
	}
	return 1
}

// asks names what a client does, in a story.
var asks = map[judge.ReservationKind]What{"": Asked, judge.Reserve: Reserves, judge.Confirm: Pays,
	judge.Cancel: Cancels}

// The lengths of a reservation. Brief ends at once; within Short a request gets to its position, unless the machine is
// very busy; Long outlasts every schedule.
const (
	Brief = 100 * time.Millisecond
	Short = 400 * time.Millisecond
	Long  = time.Hour
)

// sweepEvery is the mean time between two sweeps of an actor that sweeps, while the lab does not hold it.
const sweepEvery = 20 * time.Millisecond

// Reservation is a reservation that a scene has made.
type Reservation struct {
	ID    string
	Until time.Time // its deadline, by the store's clock, which is this machine's
}

// Reserve has an actor make a reservation of one unit, and waits for the answer.
func (s *Scene) Reserve(ctx context.Context, a *Actor, length time.Duration) (Reservation, error) {
	p := s.AskReservation(a, judge.Reserve, Reservation{}, length)
	if err := p.Wait(ctx); err != nil {
		return Reservation{}, err
	}
	if p.op.Outcome != judge.OK {
		return Reservation{}, fmt.Errorf("faultlab: a reservation by %s without any fault: %s %s", s.ask.Mode,
			p.op.Outcome, p.op.Code)
	}
	return p.made, nil
}

// AskReservation sends an actor a request about a reservation, or one that makes it, for length. The key of each is
// new.
func (s *Scene) AskReservation(a *Actor, kind judge.ReservationKind, h Reservation, length time.Duration) *Pending {
	ask := s.ask
	ask.Kind, ask.Reservation, ask.For, ask.Key, ask.Wait = kind, h.ID, length, s.NewKey(), -1
	return s.begin(a.URL, a, ask)
}

// AskReservationAgain is AskReservation for [Long] with a key that earlier requests may have.
func (s *Scene) AskReservationAgain(a *Actor, kind judge.ReservationKind, h Reservation, key string) *Pending {
	ask := s.ask
	ask.Kind, ask.Reservation, ask.For, ask.Key, ask.Wait = kind, h.ID, Long, key, -1
	return s.begin(a.URL, a, ask)
}

// PassDeadline ends a reservation as if its deadline had passed, though no clock moves: the deadline goes back, and C
// finds the reservation overdue, as a sweep does. It returns false if the reservation is not held any more, or if a
// transaction has locked its row or the product's.
func (s *Scene) PassDeadline(ctx context.Context, h Reservation) (ended bool, err error) {
	db, err := s.Lane.SQL.access()
	if err != nil {
		return false, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("faultlab: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	var id string
	err = tx.QueryRowContext(ctx, "SELECT r.id FROM reservation r JOIN product_stock p ON p.id = ? "+
		"WHERE r.id = ? AND r.state = 'held' FOR UPDATE SKIP LOCKED", s.Lane.Product(), h.ID).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE reservation SET expires_us = created_us WHERE id = ?", id)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return false, fmt.Errorf("faultlab: %w", err)
	}
	p := s.AskReservation(s.Lane.C, judge.Cancel, h, 0)
	err = p.Wait(ctx)
	return err == nil && p.hold.Expired, err
}

// ReserveFirst has B make the reservations that the victim's request is about, for length, and returns the last. If the
// request is a late one, their deadline has passed.
func (s *Scene) ReserveFirst(ctx context.Context, length time.Duration) (h Reservation, err error) {
	about := s.ask.About
	if about.Overdue {
		length = Brief
	}
	for range about.Units() {
		if h, err = s.Reserve(ctx, s.Lane.B, length); err != nil {
			return h, err
		}
	}
	if about.Overdue {
		err = h.Overdue(ctx)
	}
	return h, err
}

// askAbout sends the victim's request and waits for its answer.
func (s *Scene) askAbout(ctx context.Context) (p *Pending, err error) {
	if kind := s.ask.About.Kind; kind == "" {
		p = s.Ask(s.Lane.A, s.NewKey())
	} else {
		h, err := s.ReserveFirst(ctx, Long)
		if err != nil {
			return nil, err
		}
		p = s.AskReservation(s.Lane.A, kind, h, 0)
	}
	err = p.Wait(ctx)
	return p, err
}

// Made is the reservation that the request has made; zero = none. Call it after Done is closed.
func (p *Pending) Made() Reservation { return p.made }

// ReservationAbout is Hold for a request about a reservation, or for a sweep, for which it returns no request.
func (s *Scene) ReservationAbout(
	ctx context.Context, a *Actor, at Position, kind judge.ReservationKind, h Reservation,
) (*Pending, *wire.Hold, error) {
	if kind == SweepDue {
		hold, err := s.Sweep(ctx, a, &at)
		if err == nil && !isClosed(hold.Reached()) {
			err = fmt.Errorf("%w: the sweep of %s is over", ErrNotReached, a.Name)
		}
		return nil, hold, err
	}
	return s.holdSent(ctx, a, at, func() *Pending { return s.AskReservation(a, kind, h, 0) })
}

// Overdue returns when the deadline of a reservation has passed.
func (h Reservation) Overdue(ctx context.Context) error {
	select {
	case <-time.After(time.Until(h.Until) + time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begins says of each store whether a call is the one with which a sweep of it begins.
var begins = map[string]func(wire.Call) bool{
	Database: func(c wire.Call) bool {
		return strings.HasPrefix(c.Pattern, "SELECT id, expires_us FROM reservation ")
	},
	stack.Redis: func(c wire.Call) bool { return strings.HasPrefix(c.Pattern, "SMEMBERS ") },
}

// sweeps says whether the actor ends overdue reservations.
func (a *Actor) sweeps() bool { return a.lane.sweeps && a.Name != "B" }

// sweep lets the actor's sweeps go on, if they are parked, and parks the next ones, one of each store: they are held
// before they look for overdue reservations. So a replica that sweeps does so only when the lab says so.
func (a *Actor) sweep() {
	before := a.parked
	a.parked = nil
	for server, first := range begins {
		if p := a.proxies[server]; p != nil {
			a.parked = append(a.parked, p.Add(wire.Rule{Match: first, Every: true}))
		}
	}
	a.swept = wire.LastID()
	for _, sweep := range before {
		sweep.Pass()
	}
}

// rests says whether the actor's sweeps are over.
func (a *Actor) rests() bool {
	return !slices.ContainsFunc(a.parked, func(next *wire.Hold) bool { return !isClosed(next.Reached()) })
}

// rest returns when the actor's sweep is over.
func (a *Actor) rest(ctx context.Context) error {
	return until(ctx, "a sweep of "+a.Name, a.rests)
}

// Sweep has an actor sweep once, and does what [Scene.FollowSweep] does. The hold is nil without a position.
func (s *Scene) Sweep(ctx context.Context, a *Actor, at *Position) (hold *wire.Hold, err error) {
	if err = a.rest(ctx); err == nil && at != nil {
		hold, err = a.Arm(*at)
	}
	if err != nil {
		return nil, err
	}
	a.sweep()
	return hold, s.FollowSweep(ctx, a, at, hold)
}

// overdueFor is how long reservations may stay overdue before they count as leaked.
const overdueFor = 2 * time.Second

// SweepAll has C sweep until nothing is overdue, for overdueFor at most: a sweep leaves what another transaction has
// locked, be it one of a killed process, which the database still rolls back.
func (s *Scene) SweepAll(ctx context.Context) error {
	for end := time.Now().Add(overdueFor); ; {
		if _, err := s.Sweep(ctx, s.Lane.C, nil); err != nil {
			return err
		}
		if told, err := s.reservations(ctx); err != nil || told.Overdue == 0 || time.Now().After(end) {
			return err
		}
	}
}

// FollowSweep returns when the sweep of an actor is held, is over, or waits for a row that somebody else has locked.
func (s *Scene) FollowSweep(ctx context.Context, a *Actor, at *Position, hold *wire.Hold) error {
	held := func() bool { return at != nil && isClosed(hold.Reached()) }
	err := until(ctx, "a sweep", func() bool {
		return held() || a.rests() || a.waitsForRow(a.swept)
	})
	if held() && a.told != hold {
		a.told = hold
		s.Note(a, Held, at.String())
	}
	return err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// traceSweep has A sweep, and returns its commands up to the last one that writes, and how long that took.
func (s *Scene) traceSweep(ctx context.Context) (steps []Position, took time.Duration, err error) {
	a := s.Lane.A
	if _, err = s.ReserveFirst(ctx, Brief); err != nil {
		return nil, 0, err
	}
	began := time.Now()
	if _, err = s.Sweep(ctx, a, nil); err != nil {
		return nil, 0, err
	}
	took = time.Since(began)
	elsewhere := func(c wire.Call) bool { return c.Server != string(s.ask.Store) }
	steps = positions(slices.DeleteFunc(a.Calls(a.swept), elsewhere))
	for n := len(steps); n > 0; n-- {
		if p := steps[n-1].Pattern; strings.HasPrefix(p, "UPDATE ") || strings.HasPrefix(p, "EVAL") {
			return steps[:n], took, nil
		}
	}
	return nil, 0, fmt.Errorf("faultlab: a sweep of %s wrote nothing", s.ask.Mode)
}

// Ended is the state of the scene's first reservation when it was judged: "confirmed", "expired".
func (s *Scene) Ended() string { return s.ended }

// reservations reads what a judge needs.
func (s *Scene) reservations(ctx context.Context) (*api.Reservations, error) {
	return s.Lane.C.shop().ReservationsNow(ctx, s.Lane.Product(), s.ask.Store)
}

// judgeReservations judges a scene of reservations.
func (s *Scene) judgeReservations(ctx context.Context) (judge.Report, error) {
	told, err := s.reservations(ctx)
	if err != nil {
		return judge.Report{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var ops []judge.ReservationOp
	for _, p := range s.ops {
		ops = append(ops, p.hold)
	}
	for _, h := range told.Rows {
		if h.ReservationID == ops[0].ReservationID {
			s.ended = h.State
		}
	}
	return judge.Reservations(told, ops, "en").Report, nil
}

// reserveOnce makes a reservation and cancels it: see ReserveFirst of [Ask].
func (l *Lane) reserveOnce(ctx context.Context, ask Ask) error {
	s := l.scene(ask)
	h, err := s.Reserve(ctx, l.C, Long)
	if err != nil {
		return err
	}
	return s.AskReservation(l.C, judge.Cancel, h, 0).Wait(ctx)
}
