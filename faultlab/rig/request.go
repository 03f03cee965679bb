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

// ErrNotReached means that a request ended, or got stuck, before it reached its position.
var ErrNotReached = errors.New("faultlab: the position was not reached")

// ErrUnserved goes with ErrNotReached if a server did not answer the shop in time, on a busy machine: that tells
// nothing about the mode.
var ErrUnserved = errors.New("a server did not answer in time")

// Pending is a request in flight.
type Pending struct {
	done    chan struct{}
	since   int64 // calls with a higher number came after the request
	op      judge.Op
	hold    judge.ReservationOp // of a request about a reservation
	made    Reservation         // see Made
	stuck   bool                // nobody was served any more, and the replica was killed, see Scene.WaitOrStuck
	givenUp *judge.Op           // the answer for which the client no longer waits, see Scene.GiveUp; nil = it waits
}

// NewKey returns an idempotency key that no other request of the scene has.
func (s *Scene) NewKey() string {
	s.keys++
	return fmt.Sprintf("lab-%d-%d-%d", s.Lane.number, s.began.UnixNano(), s.keys)
}

// Ask sends an actor a request that fails at once if a lock is held.
func (s *Scene) Ask(a *Actor, key string) *Pending { return s.AskWithin(a, key, 0) }

// AskWithin sends an actor a request that waits for a lock, for at most the given time.
func (s *Scene) AskWithin(a *Actor, key string, wait time.Duration) *Pending {
	return s.askAt(a.URL, a, key, wait)
}

// askAt is AskWithin with a URL that leads to the actor.
func (s *Scene) askAt(to string, a *Actor, key string, wait time.Duration) *Pending {
	ask := s.ask
	ask.Key, ask.Wait = key, wait
	return s.begin(to, a, ask)
}

// begin sends a request.
func (s *Scene) begin(to string, a *Actor, ask Ask) *Pending {
	if ask.PerBuyer > 0 {
		ask.Buyer = "ann"
		if a == s.Lane.C {
			ask.Buyer = ask.Key // the next customer, each time
		}
	}
	p := &Pending{done: make(chan struct{}), since: wire.LastID()}
	s.mu.Lock()
	p.said(ask, target.Answer{Outcome: judge.Unknown}, len(s.ops), int64(s.now()))
	s.ops = append(s.ops, p)
	s.mu.Unlock()
	s.Note(a, asks[ask.Kind], "")
	go func() {
		said := s.send(to, ask)
		s.mu.Lock()
		p.said(ask, said, p.op.Client, p.op.Call)
		p.op.Return = int64(s.now())
		p.hold.Return = p.op.Return
		answered := strings.TrimSpace(string(p.op.Outcome) + " " + string(p.op.Code))
		s.mu.Unlock()
		s.Note(a, Answered, answered)
		close(p.done)
	}()
	return p
}

// said notes the request with its answer, as its client knows it.
func (p *Pending) said(ask Ask, said target.Answer, client int, call int64) {
	p.op, p.hold = ask.Op(said), ask.ReservationOp(said)
	p.op.Client, p.op.Call, p.hold.Call = client, call, call
	if said.Outcome == judge.OK {
		p.made = Reservation{said.ReservationID, said.ExpiresAt}
	}
}

// send sends a request and returns what came of it.
func (s *Scene) send(to string, ask Ask) target.Answer {
	r, err := s.Lane.Service.Call(ask.Ask).Send(context.Background(), s.Lane.client, to)
	if err != nil {
		return target.Answer{Outcome: judge.Unknown}
	}
	return s.Lane.Service.Read(ask.Kind, r)
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

// Hold sends a request to an actor and returns when the request is held at the position. ErrNotReached: it ended before
// that.
func (s *Scene) Hold(ctx context.Context, a *Actor, at Position, key string, wait time.Duration) (*Pending, *wire.Hold,
	error) {
	return s.holdSent(ctx, a, at, func() *Pending { return s.AskWithin(a, key, wait) })
}

// holdSent is Hold for the request that send sends.
func (s *Scene) holdSent(ctx context.Context, a *Actor, at Position, send func() *Pending) (*Pending, *wire.Hold,
	error) {
	hold, err := a.Arm(at)
	if err != nil {
		return nil, nil, err
	}
	p := send()
	hold, err = s.reached(ctx, a, at.String(), p, hold)
	return p, hold, err
}

// reached waits until a request is held. ErrNotReached: the request ended before that.
func (s *Scene) reached(ctx context.Context, a *Actor, at string, p *Pending, hold *wire.Hold) (*wire.Hold, error) {
	select {
	case <-hold.Reached():
		s.Note(a, Held, at)
		return hold, nil
	case <-p.done:
		if s.reachedAfter(ctx, a, p, hold) {
			s.Note(a, Held, at)
			return hold, nil
		}
	case <-ctx.Done():
	}
	hold.Cancel()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotReached, at, context.Cause(ctx))
	}
	err := fmt.Errorf("%w: %s answered %s %s", ErrNotReached, a.Name, p.op.Outcome, p.op.Code)
	if p.op.Outcome == judge.Declined && p.op.Code == api.BackendUnavailable {
		err = fmt.Errorf("%w: %w", err, ErrUnserved)
	}
	return nil, err
}

// afterAnswer is how long after its answer a request may still be held.
const afterAnswer = time.Second

// reachedAfter says whether a request that has been answered is held all the same. Some foreign services clean up while
// they answer. Of lastitem's modes, Redlock answers when most of its servers have answered the release; a command to
// the others is then in flight.
func (s *Scene) reachedAfter(ctx context.Context, a *Actor, p *Pending, hold *wire.Hold) bool {
	inFlight := slices.ContainsFunc(a.Unanswered(), func(c wire.Call) bool { return c.ID > p.since })
	select {
	case <-hold.Reached():
		return true
	default:
	}
	if !inFlight && !s.Lane.Service.Waits {
		return false
	}
	select {
	case <-hold.Reached():
		return true
	case <-time.After(afterAnswer):
	case <-ctx.Done():
	}
	return false
}

// AskUntilServed asks an actor again and again while a lock is held, for at most that long, and then often enough for
// the judge to call the product stuck. If a request is blocked in a server, it is left in flight and returned.
func (s *Scene) AskUntilServed(ctx context.Context, a *Actor, within time.Duration) (*Pending, error) {
	end := time.Now().Add(within)
	return s.askAgain(ctx, a, within, func(p *Pending) bool { return s.served(ctx, a, p, end) })
}

// AskAlone is AskUntilServed if no other request is in flight: it waits for every answer, however slow the machine is.
func (s *Scene) AskAlone(ctx context.Context, a *Actor, within time.Duration) error {
	_, err := s.askAgain(ctx, a, within, func(p *Pending) bool { return p.Wait(ctx) != nil })
	return err
}

func (s *Scene) askAgain(ctx context.Context, a *Actor, within time.Duration, blocked func(*Pending) bool) (*Pending,
	error) {
	end, after, restarts := time.Now().Add(within), 0, 0
	for {
		p := s.Ask(a, s.NewKey())
		if blocked(p) { // by a transaction of the victim
			return p, s.unserved(ctx, a)
		}
		if p.op.Outcome != judge.Declined {
			return p, nil
		}
		if time.Now().After(end) {
			after++
			if p.op.Code == api.BackendUnavailable && s.resumed > 0 && restarts < mostRestarts {
				after, restarts = 0, restarts+1
				s.Over(0)
			}
			if after > attemptsAfter {
				return p, nil
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return p, s.unserved(ctx, a)
		}
	}
}

// unserved is the error of a request that was not served before ctx ended; nil = it has not ended.
func (s *Scene) unserved(ctx context.Context, a *Actor) error {
	if ctx.Err() == nil {
		return nil
	}
	err := fmt.Errorf("faultlab: waiting until %s is served: %w", a.Name, context.Cause(ctx))
	for _, c := range a.Unanswered() {
		err = fmt.Errorf("%w (no answer from %s: %.200s)", err, c.Server, c.Text)
	}
	return err
}

// attemptsAfter is how often a product must be found busy after its bound before the judge calls it stuck; pause is the
// time between attempts. An attempt that a server did not answer in time, on a busy machine, proves nothing: the count
// of attempts starts again after it, mostRestarts times at most.
const (
	attemptsAfter = 3
	mostRestarts  = 10
	pause         = 60 * time.Millisecond
)
