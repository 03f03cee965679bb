package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/stack/wire"
	"lastitem/target"
)

// Tickets are what the requests of a scene have won, on a lane where A and C write the orders. They do so in turns: one
// turn is one read of what waits, its COMMIT, and the script that ends the tickets.
type Tickets struct {
	scene   *Scene
	refused map[string]bool // see Refuse
	told    []judge.TicketOp
}

// mostTries is how often a consumer tries a ticket alone.
const mostTries = 5

// Win has an actor win the tickets that the scene's turn is about. If that is a last try, the first of them has been
// tried before, and if the database refuses it, it does so from now on.
func (t *Tickets) Win(ctx context.Context, a *Actor) error {
	s := t.scene
	about := s.ask.About
	for range about.Units() {
		p := s.Ask(a, s.NewKey())
		if err := p.Wait(ctx); err != nil {
			return err
		}
		if p.op.Outcome != judge.OK {
			return fmt.Errorf("faultlab: no ticket without any fault: %s %s", p.op.Outcome, p.op.Code)
		}
		if len(t.refused) > 0 || !about.LastTry {
			continue
		}
		t.refused = map[string]bool{p.op.OrderID: true}
		if err := s.Lane.Tried(ctx, p.op.OrderID, mostTries-1); err != nil {
			return err
		}
		if s.Lane.refuses = about.Refused; about.Refused {
			if err := s.Lane.SQL.Refuse(ctx, p.op.OrderID); err != nil {
				return err
			}
		}
	}
	return nil
}

// Hold has an actor win tickets, and returns when its turn with them is held at the position. ErrNotReached: it was
// over before that.
func (t *Tickets) Hold(ctx context.Context, a *Actor, at Position) (*wire.Hold, error) {
	hold, err := a.Arm(at)
	if err == nil {
		err = t.Win(ctx, a)
	}
	if err == nil {
		err = a.Rest(ctx)
	}
	if err != nil {
		return nil, err
	}
	a.Turn(a.turns)
	if err := t.scene.Reservations.FollowSweep(ctx, a, &at, hold); err != nil {
		return nil, err
	}
	if !reached(hold) {
		return nil, fmt.Errorf("%w: the turn of %s is over", ErrNotReached, a.Name)
	}
	return hold, nil
}

// TakeOver has C take over what other consumers were given, and take turns until nothing is in flight, a turn is held
// or waits for a row that somebody else has locked, or nothing has ended for undrainedFor.
func (t *Tickets) TakeOver(ctx context.Context) (left int, err error) {
	c, fell := t.scene.Lane.C, time.Now()
	for before := -1; ; before = left {
		if left, err = t.scene.Lane.InFlight(ctx); err != nil || left == 0 || !c.Alive() {
			return left, err
		}
		if left != before {
			fell = time.Now()
		}
		if c.waitsForRow(c.Began()) || time.Since(fell) > undrainedFor {
			return left, nil
		}
		if !c.Rests() { // it looks for tickets now and then
			if err := wait(ctx, time.Millisecond); err != nil {
				return left, err
			}
			continue
		}
		if err := t.scene.Lane.TakeOver(ctx); err != nil {
			return left, err
		}
		c.Turn(c.turns)
		if err := t.scene.Reservations.FollowSweep(ctx, c, nil, nil); err != nil {
			return left, err
		}
	}
}

// Hear asks what has become of each ticket that a client was told of, without waiting.
func (t *Tickets) Hear(ctx context.Context) error {
	s := t.scene
	for _, op := range s.History() {
		if op.Outcome != judge.OK {
			continue
		}
		told := judge.TicketOp{ID: op.OrderID, Call: int64(s.now())}
		said, err := s.Lane.site().shop().Ticket(ctx, fmt.Sprintf("%d-%s", s.Lane.Product(), op.OrderID), 0)
		if err != nil {
			return err
		}
		told.State, told.Order, told.Return = said.State, said.OrderID, int64(s.now())
		t.told = append(t.told, told)
	}
	return nil
}

// Compare has C compare Redis with SQL, which must find no drift. While another consumer has locked the row, the answer
// must be that nothing can be said.
func (t *Tickets) Compare(ctx context.Context) error {
	l := t.scene.Lane
	seen, err := l.site().shop().Reconcile(ctx, l.Product(), false)
	if p, ok := errors.AsType[*target.ProblemError](err); ok && p.Problem.Code == api.Contended {
		return nil
	}
	if err == nil && seen.Drift != 0 {
		t.scene.Accuse("L", fmt.Sprintf("a reconciliation would add %d units to Redis' count, and none has leaked",
			seen.Drift))
	}
	return err
}

// trace has A win tickets and take a turn, and returns its commands, from the read to the end of the tickets.
func (t *Tickets) trace(ctx context.Context) (steps []Position, took time.Duration, err error) {
	a, since := t.scene.Lane.A, wire.LastID()
	if err = t.Win(ctx, a); err == nil {
		err = a.Rest(ctx)
	}
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	a.Turn(a.turns)
	if err := t.scene.Reservations.FollowSweep(ctx, a, nil, nil); err != nil {
		return nil, 0, err
	}
	took = time.Since(began)
	read := false
	calls := slices.DeleteFunc(a.Calls(since), func(c wire.Call) bool {
		first := a.turns[c.Server]
		begins := !read && first != nil && first(c) // it came, and was parked, while A won
		read = read || begins
		return c.ID <= a.Began() && !begins
	})
	if !read || !strings.HasPrefix(calls[len(calls)-1].Pattern, "EVAL") {
		return nil, 0, fmt.Errorf("faultlab: a turn of %s ended no ticket", t.scene.ask.Mode)
	}
	return positions(calls), took, nil
}

// drain has C write all orders before the scene is judged.
func (t *Tickets) drain(ctx context.Context) error {
	left, err := t.TakeOver(ctx)
	if err == nil && left > 0 {
		t.scene.Accuse("X", fmt.Sprintf("%d tickets wait for their orders for ever", left))
	}
	return err
}

// read reads what a judge needs.
func (t *Tickets) read(ctx context.Context) (*judge.Tickets, error) {
	l := t.scene.Lane
	book, err := l.site().shop().Tickets(ctx, l.Product())
	if err != nil {
		return nil, err
	}
	if err := t.Hear(ctx); err != nil {
		return nil, err
	}
	return &judge.Tickets{Book: *book, Told: t.told, Poisoned: t.refused}, nil
}

// Books reads stock and orders while tickets may wait for their orders.
func (t *Tickets) Books(ctx context.Context) (*api.Ledger, error) {
	l := t.scene.Lane
	return l.site().shop().LedgerNow(ctx, l.Product())
}

// restConsumers has the consumers read until there is nothing, so that no read is parked when a schedule begins: one
// that is parked for very long would be given up by its client.
func restConsumers(ctx context.Context, l *Lane) error {
	for quiet, end := time.Now(), time.Now().Add(undrainedFor); time.Since(quiet) < settling && time.Now().Before(end); {
		for _, a := range l.actors() {
			busy := len(a.Unanswered()) > 0
			if a.turns != nil && a.Rests() {
				a.Turn(a.turns)
				busy = true
			}
			if busy {
				quiet = time.Now()
			}
		}
		if err := wait(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	if !l.refuses {
		return nil
	}
	l.refuses = false
	return l.SQL.Refuse(ctx, "")
}
