package rig

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig/gear"
	"lastitem/judge"
	"lastitem/stack/wire"
)

// The lengths of a reservation. Brief ends at once; within Short a request gets to its position, unless the machine is
// very busy; Long outlasts every schedule.
const (
	Brief = 100 * time.Millisecond
	Short = 400 * time.Millisecond
	Long  = time.Hour
)

// Reservations are the requests of a scene about reservations, and its sweeps. Somebody's service has none: there they
// are the requests that cancel or ship an order, and a [Reservation] is that order with its buyer.
type Reservations struct {
	scene *Scene
	ended string // see Ended
}

// other is the second product of the lane's carts. It comes before the lane's product in each list of a cart's lines.
func other(l *Lane) int64 { return l.Product() - 1000 }

// Reserve has an actor make a reservation of one unit, and waits for the answer.
func (r *Reservations) Reserve(ctx context.Context, a *Actor, length time.Duration) (Reservation, error) {
	return r.reserve(ctx, a, length, 1)
}

func (r *Reservations) reserve(ctx context.Context, a *Actor, length time.Duration, units int64) (Reservation, error) {
	ask := r.ask(judge.Reserve, Reservation{}, length, r.scene.NewKey())
	ask.Quantity = units
	p := r.scene.begin(a.URL, a, ask)
	if err := p.Wait(ctx); err != nil {
		return Reservation{}, err
	}
	if p.op.Outcome != judge.OK {
		return Reservation{}, fmt.Errorf("faultlab: a reservation by %s without any fault: %s %s", r.scene.ask.Mode,
			p.op.Outcome, p.op.Code)
	}
	return p.made, nil
}

// Ask sends an actor a request about a reservation, or one that makes it, for length, or extends it by that. The key of
// each is new. What is cancelled or returned is what the victim cancels or returns; an order is returned to the stock.
func (r *Reservations) Ask(a *Actor, kind judge.ReservationKind, h Reservation, length time.Duration) *Pending {
	return r.scene.begin(a.URL, a, r.ask(kind, h, length, r.scene.NewKey()))
}

// AskAgain is [Reservations.Ask] for [Long] with a key that earlier requests may have.
func (r *Reservations) AskAgain(a *Actor, kind judge.ReservationKind, h Reservation, key string) *Pending {
	return r.scene.begin(a.URL, a, r.ask(kind, h, Long, key))
}

// Again sends an actor the request that another one was sent.
func (r *Reservations) Again(a *Actor, p *Pending) *Pending { return r.scene.begin(a.URL, a, p.ask) }

// Adjust has an actor add units to the stock or, below zero, take free ones.
func (r *Reservations) Adjust(a *Actor, units int64) *Pending {
	ask := r.scene.ask
	ask.Kind, ask.Quantity, ask.Key = judge.Adjust, units, r.scene.NewKey()
	if consumes(r.scene.Lane) {
		ask.Store = "" // both sides
	}
	return r.scene.begin(a.URL, a, ask)
}

func (r *Reservations) ask(kind judge.ReservationKind, h Reservation, length time.Duration, key string) Ask {
	ask := r.scene.ask
	ask.Kind, ask.Reservation, ask.For, ask.Key, ask.Wait = kind, h.ID, length, key, -1
	ask.Order, ask.Visit = h.Order, h.Visit
	switch about := ask.About; kind {
	case judge.Reserve:
		if ask.Quantity = 1; about.Cart {
			ask.Second = other(r.scene.Lane)
		}
	case judge.Cancel:
		if ask.Part = about.Part; about.Line {
			ask.Line = ask.Product
		}
	case judge.Return:
		ask.Part, ask.Restock = about.Part, true
	case judge.Adjust:
		ask.Quantity = 1
	}
	return ask
}

// PassDeadline ends a reservation as if its deadline had passed, though no clock moves: the deadline goes back, and C
// finds the reservation overdue, as a sweep does. It returns false if the reservation is not held any more, or if a
// transaction has locked its row or the product's.
func (r *Reservations) PassDeadline(ctx context.Context, h Reservation) (ended bool, err error) {
	lane := r.scene.Lane
	if passed, err := lane.SQL.PassDeadline(ctx, h.ID); !passed {
		return false, err
	}
	p := r.Ask(lane.C, judge.Cancel, h, 0)
	err = p.Wait(ctx)
	return err == nil && p.hold.Expired, err
}

// First has B make the reservations that the victim's request is about, for length, and returns the last. If the
// request is a late one, their deadline has passed; if it returns an order, B has paid. Of somebody's service B buys.
func (r *Reservations) First(ctx context.Context, length time.Duration) (h Reservation, err error) {
	about := r.scene.ask.About
	if about.Overdue {
		length = Brief
	}
	if about.Kind == Reserve || about.Kind == Adjust {
		return h, nil
	}
	if r.scene.Lane.Service.Waits {
		return bought(ctx, r.scene)
	}
	each := about.Units()
	if about.Batch {
		each = 1
	}
	for range about.Units() / each {
		if h, err = r.reserve(ctx, r.scene.Lane.B, length, each); err != nil {
			return h, err
		}
	}
	switch {
	case about.Overdue:
		err = h.Overdue(ctx)
	case about.Kind == Return:
		paid := r.Ask(r.scene.Lane.B, judge.Confirm, h, 0)
		err = paid.Wait(ctx)
		h.Order = paid.made.Order
	}
	return h, err
}

// bought has B buy an order of somebody's service, and returns when the work for it is over.
func bought(ctx context.Context, s *Scene) (h Reservation, err error) {
	if err := arrange(ctx, s, s.Lane.B, s.Lane.C); err != nil { // C is the last customer
		return h, err
	}
	p := s.Ask(s.Lane.B, s.NewKey())
	if err := p.Wait(ctx); err != nil {
		return h, err
	}
	if p.op.Outcome != judge.OK {
		return h, fmt.Errorf("faultlab: a purchase without any fault: %s %s%s", p.op.Outcome, p.op.Code, p.shown)
	}
	end := time.Now().Add(workWithin)
	for {
		if err := s.Lane.quiet(ctx, max(settling, s.Lane.Service.learnt.rest()), end); err != nil {
			return h, err
		}
		ledger, err := s.Lane.Ledger(ctx)
		if err != nil || len(ledger.Orders) > 0 || time.Now().After(end) {
			return p.made, err
		}
	}
}

// Hold is [Scene.Hold] for a request about a reservation, for length, or for a sweep, for which it returns no request.
func (r *Reservations) Hold(
	ctx context.Context, a *Actor, at Position, kind judge.ReservationKind, h Reservation, length time.Duration,
) (*Pending, *wire.Hold, error) {
	if kind == SweepDue {
		hold, err := r.Sweep(ctx, a, &at)
		if err == nil && !reached(hold) {
			err = fmt.Errorf("%w: the sweep of %s is over", ErrNotReached, a.Name)
		}
		return nil, hold, err
	}
	return r.scene.holdSent(ctx, a, at, func() *Pending { return r.Ask(a, kind, h, length) })
}

// Sweep has an actor sweep once, and does what [Reservations.FollowSweep] does. The hold is nil without a position.
func (r *Reservations) Sweep(ctx context.Context, a *Actor, at *Position) (hold *wire.Hold, err error) {
	if err = a.Rest(ctx); err == nil && at != nil {
		hold, err = a.Arm(*at)
	}
	if err != nil {
		return nil, err
	}
	a.Turn(a.turns)
	return hold, r.FollowSweep(ctx, a, at, hold)
}

// overdueFor is how long reservations may stay overdue before they count as leaked.
const overdueFor = 2 * time.Second

// SweepAll has C sweep until nothing is overdue, for overdueFor at most: a sweep leaves what another transaction has
// locked, be it one of a killed process, which the database still rolls back.
func (r *Reservations) SweepAll(ctx context.Context) error {
	for end := time.Now().Add(overdueFor); ; {
		if _, err := r.Sweep(ctx, r.scene.Lane.C, nil); err != nil {
			return err
		}
		if told, err := r.read(ctx); err != nil || told.Overdue == 0 || time.Now().After(end) {
			return err
		}
	}
}

// FollowSweep returns when the sweep of an actor, or its turn with tickets, is held, is over, or waits for a row that
// somebody else has locked. A turn that lasts longer than undrainedFor is left alone.
func (r *Reservations) FollowSweep(ctx context.Context, a *Actor, at *Position, hold *wire.Hold) error {
	held := func() bool { return at != nil && reached(hold) }
	nothing, began := a.foundNothing(), time.Now()
	stuck := func() bool { return nothing() || time.Since(began) > undrainedFor }
	err := gear.Until(ctx, "a turn", func() bool {
		return held() || a.Rests() || a.waitsForRow(a.Began()) || !r.scene.Lane.Sweeps() && stuck()
	})
	if held() && a.told != hold {
		a.told = hold
		r.scene.Note(a, Held, at.String())
	}
	return err
}

// trace has A sweep, and returns its commands up to the last one that writes, and how long that took.
func (r *Reservations) trace(ctx context.Context) (steps []Position, took time.Duration, err error) {
	a := r.scene.Lane.A
	if _, err = r.First(ctx, Brief); err != nil {
		return nil, 0, err
	}
	began := time.Now()
	if _, err = r.Sweep(ctx, a, nil); err != nil {
		return nil, 0, err
	}
	took = time.Since(began)
	elsewhere := func(c wire.Call) bool { return c.Server != string(r.scene.ask.Store) }
	steps = positions(slices.DeleteFunc(a.Calls(a.Began()), elsewhere))
	for n := len(steps); n > 0; n-- {
		if p := steps[n-1].Pattern; strings.HasPrefix(p, "UPDATE ") || strings.HasPrefix(p, "EVAL") {
			return steps[:n], took, nil
		}
	}
	return nil, 0, fmt.Errorf("faultlab: a sweep of %s wrote nothing", r.scene.ask.Mode)
}

// Ended is the state of the scene's first reservation when it was judged: "confirmed", "expired".
func (r *Reservations) Ended() string { return r.ended }

// read reads what a judge needs.
func (r *Reservations) read(ctx context.Context) (*api.Reservations, error) {
	return r.scene.Lane.site().shop().ReservationsNow(ctx, r.scene.Lane.Product(), r.scene.ask.Store)
}

// judge judges a scene of reservations: the lane's product, and then the other one of its carts.
func (r *Reservations) judge(ctx context.Context) (report judge.Report, err error) {
	lane := r.scene.Lane
	told, err := r.read(ctx)
	if err == nil && told.Overdue > 0 && lane.Sweeps() { // since the last sweep, on a slow machine
		if err = r.SweepAll(ctx); err == nil {
			told, err = r.read(ctx)
		}
	}
	if err != nil {
		return report, err
	}
	ops := r.ops(told.ProductID)
	for _, h := range told.Rows {
		if len(ops) > 0 && h.ReservationID == ops[0].ReservationID {
			r.ended = h.State
		}
	}
	report = judge.Reservations(told, ops, "en").Report
	if r.scene.ask.About.Cart && report.Verdict == judge.Exact {
		told, err = lane.site().shop().ReservationsNow(ctx, other(lane), r.scene.ask.Store)
		if err == nil {
			report = judge.Reservations(told, r.ops(other(lane)), "en").Report
		}
	}
	return report, err
}

// ops are the requests of the scene as they are about one product.
func (r *Reservations) ops(product int64) (ops []judge.ReservationOp) {
	r.scene.mu.Lock()
	defer r.scene.mu.Unlock()
	for _, p := range slices.Concat(r.scene.ops, r.scene.adjusts) {
		op := p.hold
		if op.Outcome == judge.Refused && p.short != 0 && p.short != product {
			op.Outcome, op.Limit = judge.Declined, false // the other product of the cart was short
		}
		if product == r.scene.Lane.Product() || !op.Line && op.Kind != Adjust {
			ops = append(ops, op)
		}
	}
	return ops
}

// adjusted are the scene's adjustments of the stock, as the clients saw them.
func adjusted(s *Scene) (ops []judge.Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.adjusts {
		ops = append(ops, p.op)
	}
	return ops
}
