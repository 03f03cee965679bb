package rig

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/wire"
)

// Kind is what a request about a reservation asks for.
type Kind = audit.HoldKind

// The kinds that the lab asks for.
const (
	Reserve = audit.Reserve
	Confirm = audit.Confirm
	Cancel  = audit.Cancel
)

// About says what the victim's request asks for. The zero value is a deduction.
type About struct {
	Kind    audit.HoldKind // Confirm or Cancel of a reservation; "" = a deduction
	Overdue bool           // it comes after the deadline
	Rehold  bool           // the product lets a late payment take the units again
}

// asks names what a client does, in a story.
var asks = map[audit.HoldKind]What{"": Asked, audit.Reserve: Reserves, audit.Confirm: Pays, audit.Cancel: Cancels}

// The lengths of a reservation. Brief ends at once; within Short a request gets to its position, unless the machine is
// very busy; Long outlasts every schedule.
const (
	Brief = 100 * time.Millisecond
	Short = 400 * time.Millisecond
	Long  = time.Hour
)

// sweepEvery is the mean time between two sweeps of a lane that sweeps.
const sweepEvery = 50 * time.Millisecond

// Reservation is a reservation that a scene has made.
type Reservation struct {
	ID    string
	Until time.Time // its deadline, by the store's clock, which is this machine's
}

// Reserve has an actor make a reservation of one unit, and waits for the answer.
func (s *Scene) Reserve(ctx context.Context, a *Actor, length time.Duration) (Reservation, error) {
	p := s.AskHold(a, audit.Reserve, Reservation{}, length)
	if err := p.Wait(ctx); err != nil {
		return Reservation{}, err
	}
	if p.op.Outcome != audit.OK {
		return Reservation{}, fmt.Errorf("faultlab: a reservation by %s without any fault: %s %s", s.ask.Mode,
			p.op.Outcome, p.op.Code)
	}
	return p.made, nil
}

// AskHold sends an actor a request about a reservation, or one that makes it, for length. The key of each is new.
func (s *Scene) AskHold(a *Actor, kind audit.HoldKind, h Reservation, length time.Duration) *Pending {
	ask := s.ask
	ask.Kind, ask.Hold, ask.For, ask.Key = kind, h.ID, length, s.NewKey()
	return s.begin(a.URL, a, ask)
}

// AskHoldAgain is AskHold for [Long] with a key that earlier requests may have.
func (s *Scene) AskHoldAgain(a *Actor, kind audit.HoldKind, h Reservation, key string) *Pending {
	ask := s.ask
	ask.Kind, ask.Hold, ask.For, ask.Key = kind, h.ID, Long, key
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
	p := s.AskHold(s.Lane.C, audit.Cancel, h, 0)
	err = p.Wait(ctx)
	return err == nil && p.hold.Expired, err
}

// askAbout sends the victim's request and waits for its answer. A request about a reservation comes before any sweep.
func (s *Scene) askAbout(ctx context.Context) (p *Pending, err error) {
	about, length := s.ask.About, Long
	switch {
	case about.Kind == "":
		p = s.Ask(s.Lane.A, s.NewKey())
		err = p.Wait(ctx)
		return p, err
	case about.Overdue:
		length = Brief
	}
	if s.Lane.sweeps {
		goOn, err := s.HoldSweep(ctx)
		if err != nil {
			return nil, err
		}
		defer goOn()
	}
	h, err := s.Reserve(ctx, s.Lane.B, length)
	if err == nil && about.Overdue {
		err = h.Overdue(ctx)
	}
	if err != nil {
		return nil, err
	}
	p = s.AskHold(s.Lane.A, about.Kind, h, 0)
	err = p.Wait(ctx)
	return p, err
}

// Made is the reservation that the request has made; zero = none. Call it after Done is closed.
func (p *Pending) Made() Reservation { return p.made }

// HoldAbout is Hold for a request about a reservation.
func (s *Scene) HoldAbout(ctx context.Context, a *Actor, at Position, kind audit.HoldKind, h Reservation) (*Pending,
	*wire.Hold, error) {
	return s.holdSent(ctx, a, at, func() *Pending { return s.AskHold(a, kind, h, 0) })
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

// begins says whether a call is the statement with which a sweep of all stores begins.
func begins(c wire.Call) bool {
	return strings.HasPrefix(c.Pattern, "SELECT id, expires_us FROM reservation ")
}

// HoldSweep returns when the sweeper of the lane is held before it looks for overdue reservations. Call goOn in the
// end.
func (s *Scene) HoldSweep(ctx context.Context) (goOn func(), err error) {
	c := s.Lane.C
	hold := c.proxies[Database].Add(wire.Rule{Match: begins})
	c.holds = append(c.holds, hold)
	select {
	case <-hold.Reached():
		return hold.Cancel, nil
	case <-ctx.Done():
		hold.Cancel()
		return nil, fmt.Errorf("faultlab: waiting for a sweep: %w", context.Cause(ctx))
	}
}

// Sweep returns when a sweep that began after the call is over, or waits for a row that somebody else has locked.
func (s *Scene) Sweep(ctx context.Context) error {
	since := wire.LastID()
	return until(ctx, "a sweep", func() bool {
		begun := 0
		for _, c := range s.Lane.C.Calls(since) {
			if begins(c) {
				begun++
			}
		}
		return begun > 1 || s.Lane.C.waitsForRow(since)
	})
}

// Ended is the state of the scene's first reservation when it was judged: "confirmed", "expired".
func (s *Scene) Ended() string { return s.ended }

// judgeHolds judges a scene of reservations.
func (s *Scene) judgeHolds(ctx context.Context) (audit.Report, error) {
	body, err := get(ctx, fmt.Sprintf("%s/products/%d/reservations?store=%s", s.Lane.C.URL, s.Lane.Product(), s.ask.Store))
	if err != nil {
		return audit.Report{}, err
	}
	var told api.Reservations
	if err := json.Unmarshal(body, &told); err != nil {
		return audit.Report{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var ops []audit.HoldOp
	for _, p := range s.ops {
		ops = append(ops, p.hold)
	}
	for _, h := range told.Rows {
		if h.ReservationID == ops[0].HoldID {
			s.ended = h.State
		}
	}
	return audit.JudgeHolds(&told, ops, "en").Report, nil
}

// reserveOnce makes a reservation and cancels it: the first one of a product locks its row.
func (l *Lane) reserveOnce(ctx context.Context, ask Ask) error {
	ask.Product, ask.For = l.Product(), Long
	for _, ask.Kind = range []audit.HoldKind{audit.Reserve, audit.Cancel} {
		req, err := holdRequest(l.C.URL, ask)
		if err != nil {
			return err
		}
		body, err := send(req.WithContext(ctx))
		if err != nil {
			return err
		}
		var r api.Reservation
		if err := json.Unmarshal(body, &r); err != nil {
			return err
		}
		ask.Hold = r.ReservationID
	}
	return nil
}

// holdRequest is what a client sends about a reservation.
func holdRequest(replica string, a Ask) (*http.Request, error) {
	to, body := fmt.Sprintf("%s/reservations/%s/%s", replica, a.Hold, a.Kind), ""
	if a.Kind == audit.Reserve {
		to = replica + "/reserve_stock/" + a.Mode
		body = fmt.Sprintf(`{"product_id":%d,"hold_ms":%d}`, a.Product, a.For.Milliseconds())
	}
	req, err := http.NewRequest(http.MethodPost, to, bytes.NewBufferString(body))
	if err == nil && body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if err == nil && a.Key != "" && a.Kind != audit.Cancel {
		req.Header.Set(api.HeaderKey, a.Key)
	}
	return req, err
}

// ended are the codes of a reservation that cannot be changed any more, or of a product that has too little.
var ended = []api.Code{api.SoldOut, api.LimitReached, api.ReservationExpired, api.ReservationCancelled,
	api.ReservationConfirmed}

// holdAnswer reads an answer about a reservation by the contract.
func holdAnswer(res *http.Response, body []byte, ask Ask) (a answer) {
	a.op = audit.Op{Outcome: audit.Unknown, Replica: res.Header.Get(api.HeaderReplica)}
	a.hold = audit.HoldOp{HoldID: ask.Hold, Replayed: res.Header.Get(api.HeaderReplayed) == "true"}
	var said struct {
		api.Reservation
		Code api.Code `json:"code"`
	}
	if json.Unmarshal(body, &said) != nil {
		return a
	}
	a.op.Code, a.hold.OrderID = said.Code, said.OrderID
	a.hold.Refund, a.hold.Expired = said.Refund == api.RefundYes, said.State == "expired"
	switch facts, known := api.Codes[said.Code]; {
	case res.StatusCode/100 == 2 && said.ReservationID != "":
		a.op.Outcome, a.hold.HoldID, a.made = audit.OK, said.ReservationID, Reservation{said.ReservationID, said.ExpiresAt}
	case !known || facts.Happened == api.Unknown:
	case slices.Contains(ended, said.Code):
		a.op.Outcome = audit.Refused
	default:
		a.op.Outcome = audit.Declined
	}
	return a
}
