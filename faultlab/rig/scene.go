package rig

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lastitem/judge"
	"lastitem/stack/wire"
	"lastitem/target"
)

// Stock is what a schedule begins with where it does not say otherwise: enough for all who ask, so that a refusal is
// always wrong.
const Stock = 10

// Scene is one schedule on a lane, from the stock's reset to the judge. Its methods are for one goroutine.
type Scene struct {
	Lane *Lane
	ask  Ask

	diary
	since int64 // calls with a higher number belong to the scene
	keys  int

	resumed time.Duration // when the fault was over; see judge.Input
	judged  time.Time     // when the judge began to read the ledger; zero = not yet
	bound   time.Duration

	// KeptOut is for how long a rival was kept out before its victim went on, see [Pending.KeptOut]; 0 = it was served.
	KeptOut time.Duration
	// Unsettled says that units were missing which the service, at work by itself, may still bring back.
	Unsettled bool

	accused string // letters added by Accuse
	why     string

	// Reservations are the scene's requests about reservations.
	Reservations Reservations
	// Tickets are those that the scene's requests have won.
	Tickets Tickets

	buyers buyers

	ops, adjusts, endings []*Pending // guarded by mu; endings are those that cancel or ship orders of somebody's service
}

// About is what the victim asks for.
func (s *Scene) About() About { return s.ask.About }

// Over says that the fault is over: whatever a dead holder held must be free when bound has passed.
func (s *Scene) Over(bound time.Duration) { s.resumed, s.bound = s.now(), bound }

// Accuse makes Judge report a letter, and the reason, that ledger and history cannot show.
func (s *Scene) Accuse(letter, why string) { s.accused, s.why = letter, why }

// History is what the clients saw.
func (s *Scene) History() []judge.Op {
	s.mu.Lock()
	defer s.mu.Unlock()
	ops := make([]judge.Op, len(s.ops))
	for i, p := range s.ops {
		ops[i] = p.op
	}
	return ops
}

// GiveUp makes the outcome of a request unknown to its client, as if the answer had been lost on its way.
func (s *Scene) GiveUp(p *Pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answered := p.op
	p.givenUp = &answered
	p.op.Outcome, p.op.OrderID, p.op.Remaining, p.op.Code = judge.Unknown, "", nil, ""
}

// Calls returns the commands of all actors, without those that set up connections or read the ledger.
func (s *Scene) Calls() []Call {
	var all []Call
	for _, a := range s.Lane.actors() {
		for _, c := range a.Calls(s.since) {
			readByJudge := !s.judged.IsZero() && c.Sent.After(s.judged)
			if !c.Setup && !c.Poll && !c.Sent.IsZero() && !readByJudge {
				all = append(all, Call{At: c.Sent.Sub(s.began), Actor: a.Name, Server: c.Server, Text: readable(c)})
			}
		}
	}
	return all
}

// Touched says whether the actor has sent a command of a request in this schedule.
func (s *Scene) Touched(a *Actor) bool {
	return slices.ContainsFunc(a.Calls(s.since), func(c wire.Call) bool { return !c.Setup && !c.Poll })
}

// Failed says whether a command of the actor failed with that error number in this schedule.
func (s *Scene) Failed(a *Actor, number string) bool {
	for _, c := range a.Calls(s.since) {
		if c.Failed == number {
			return true
		}
	}
	return false
}

// Pending is a request in flight.
type Pending struct {
	done  chan struct{}
	ask   Ask
	since int64 // calls with a higher number came after the request
	op    judge.Op
	hold  judge.ReservationOp // of a request about a reservation
	made  Reservation         // see Made
	short int64               // the product that has refused a cart; 0 = not told
	// promised: the answer says that the order is written later.
	promised bool
	busy     bool      // see Scene.send
	stuck    bool      // nobody was served any more, and the replica was killed, see Scene.WaitOrStuck
	shown    string    // the answer as it came, of a service that is not ours
	givenUp  *judge.Op // the answer for which the client no longer waits, see Scene.GiveUp; nil = it waits
}

// said notes the request with its answer, as its client knows it.
func (p *Pending) said(ask Ask, said target.Answer, client int, call int64) {
	p.op, p.hold, p.short = ask.Op(said), ask.ReservationOp(said), said.ProductID
	p.op.Client, p.op.Call, p.hold.Call = client, call, call
	if said.Outcome == judge.OK {
		p.made = Reservation{said.ReservationID, said.ExpiresAt, said.OrderID, ask.Visit}
	}
}

// Done is closed when the answer has come.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Op returns the request as the client saw it. Call it after Done is closed.
func (p *Pending) Op() judge.Op { return p.op }

// Wait waits for the answer.
func (p *Pending) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("faultlab: waiting for an answer: %w", context.Cause(ctx))
	}
}

// answered says whether the answer has come.
func (p *Pending) answered() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Made is the reservation that the request has made; zero = none. Call it after Done is closed.
func (p *Pending) Made() Reservation { return p.made }
