package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig/gear"
	"lastitem/judge"
	"lastitem/stack/wire"
)

// ErrNotReached means that a request ended, or got stuck, before it reached its position.
var ErrNotReached = errors.New("faultlab: the position was not reached")

// ErrUnserved goes with ErrNotReached if a server did not answer the shop in time, on a busy machine: that tells
// nothing about the mode.
var ErrUnserved = errors.New("a server did not answer in time")

// arrange prepares the buyers of a scene at replicas, where a purchase takes several steps. What the replicas send for
// them belongs to no request.
func arrange(ctx context.Context, s *Scene, at ...*Actor) error {
	l, urls := s.Lane, make([]string, len(at))
	for i, a := range at {
		urls[i] = a.URL
	}
	did, err := s.buyers.arrange(ctx, urls...)
	if !did || err != nil {
		return err
	}
	if err := cmp.Or(l.answered(ctx), l.quiet(ctx, settling, time.Now().Add(workWithin))); err != nil {
		return err
	}
	s.since = wire.LastID()
	return nil
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
	if err := arrange(ctx, s, s.Lane.actors()...); err != nil {
		return nil, nil, err
	}
	all, err := s.Lane.arm(a, at)
	if err != nil {
		return nil, nil, err
	}
	p := send()
	x := s.Lane.first(ctx, p, all, Patience)
	hold, err := s.reached(ctx, x.actor, at.String(), p, x.hold)
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

// HoldEdge sends a request to the lane's nginx and returns when A is held at the position. ErrNotReached: it was
// answered before that.
func (s *Scene) HoldEdge(ctx context.Context, at Position, key string, wait time.Duration) (*Pending, *wire.Hold,
	error) {
	hold, err := s.Lane.A.Arm(at)
	if err != nil {
		return nil, nil, err
	}
	p, err := s.AskEdge(ctx, key, wait)
	if err != nil {
		return nil, nil, err
	}
	hold, err = s.reached(ctx, s.Lane.A, at.String(), p, hold)
	return p, hold, err
}

// HoldEdgeAnswer sends a request to the lane's nginx and returns when A has answered it and the answer is held on its
// way to nginx.
func (s *Scene) HoldEdgeAnswer(ctx context.Context, key string, wait time.Duration) (*Pending, *wire.Hold, error) {
	if _, err := s.Lane.Edge.URL(ctx, s.Lane.A.URL, s.Lane.B.URL); err != nil {
		return nil, nil, err
	}
	hold := s.Lane.Edge.HoldAnswer()
	p, err := s.AskEdge(ctx, key, wait)
	if err != nil {
		return nil, nil, err
	}
	hold, err = s.reached(ctx, s.Lane.A, "on the way of the answer", p, hold)
	return p, hold, err
}

// HoldOrYield sends a request to an actor. It returns when the request is held at the position, has been answered, or
// has to wait for a request that is held: for a row that a transaction has locked, or inside its process. In the last
// case the hold stays armed, and [Scene.Yield] waits for it again. wait bounds how long the request waits for a lock.
// An error means that the actor has no such server, or that ctx has ended.
func (s *Scene) HoldOrYield(ctx context.Context, a *Actor, at Position, key string, wait time.Duration) (*Pending,
	*wire.Hold, error) {
	if err := arrange(ctx, s, s.Lane.actors()...); err != nil {
		return nil, nil, err
	}
	all, err := s.Lane.arm(a, at)
	if err != nil {
		return nil, nil, err
	}
	p := s.AskWithin(a, key, wait)
	x := s.Lane.first(ctx, p, all, wait+s.Lane.still())
	hold := x.hold
	s.Yield(ctx, x.actor, at, p, hold, wait)
	if ctx.Err() != nil {
		hold.Cancel()
		return p, hold, fmt.Errorf("faultlab: waiting for %s to be held %s: %w", a.Name, at, context.Cause(ctx))
	}
	return p, hold, nil
}

// Yield returns when the request is held, has been answered, or has to wait for a request that is held. wait is how
// long the request may wait for a lock in its process without doing anything. Yield takes no longer than wait plus
// mostStill.
func (s *Scene) Yield(ctx context.Context, a *Actor, at Position, p *Pending, hold *wire.Hold, wait time.Duration) {
	last, began := s.progress(a, p.since), time.Now()
	moved := began
	for {
		select {
		case <-hold.Reached():
			s.Note(a, Held, at.String())
			return
		case <-p.done:
			s.afterAnswer(ctx, a, at, p, hold)
			return
		case <-ctx.Done():
			return
		case <-time.After(look(moved)):
		}
		if now := s.progress(a, p.since); now != last {
			last, moved = now, time.Now()
		}
		if a.waitsForRow(p.since) || time.Since(moved) > wait+s.Lane.still() || time.Since(began) > wait+mostStill {
			s.Note(a, Blocked, "")
			return
		}
	}
}

// afterAnswer notes a request that is held after its answer, and cancels the hold of any other.
func (s *Scene) afterAnswer(ctx context.Context, a *Actor, at Position, p *Pending, hold *wire.Hold) {
	if s.reachedAfter(ctx, a, p, hold) {
		s.Note(a, Held, at.String())
		return
	}
	hold.Cancel()
}

// ReadCopy has the reads outside transactions, of all replicas, answered by a copy of the database until end is called;
// with a position only those up to it. ErrNotReached: it was not read. [gear.ErrNothing]: no read was answered
// otherwise than the database would have answered it.
func ReadCopy(s *Scene, copied *gear.Copy, at *Position) (end func() error, err error) {
	var seen atomic.Int64
	var rules []*wire.Hold
	for _, a := range s.Lane.actors() {
		instead := func(ask func(io.ReadWriter) ([]byte, error)) ([]byte, error) {
			answer, stale, err := copied.Answer(ask)
			s.Note(a, Struck, map[bool]string{true: "the copy answers, and lacks B's commit",
				false: "the copy answers as the database would"}[stale])
			return answer, err
		}
		rule, err := a.Add(gear.Database, wire.Rule{Every: true, Instead: instead, Match: func(c wire.Call) bool {
			return at == nil || seen.Load() < int64(at.Nth) && (c.Pattern != at.Pattern || seen.Add(1) > 0)
		}})
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	return func() error {
		for _, rule := range rules {
			rule.Cancel()
		}
		switch {
		case at != nil && seen.Load() < int64(at.Nth):
			return fmt.Errorf("%w: %s", ErrNotReached, at)
		case copied.Stale() == 0:
			return gear.ErrNothing
		}
		return nil
	}, nil
}

// armed is a hold before a server of an actor.
type armed struct {
	actor *Actor
	hold  *wire.Hold
}

// arm makes the proxies stop a command when it comes: those of the actor that is asked or, where other replicas work
// for it, of every replica, A's only if it is asked. The command is counted among those of all.
func (l *Lane) arm(asked *Actor, at Position) (all []armed, err error) {
	var n atomic.Int64
	for _, a := range l.actors() {
		if a != asked && (l.Service.learnt.rest() == 0 || a == l.A) {
			continue
		}
		hold, err := a.armed(at, &n)
		if err != nil {
			return nil, err
		}
		if all = append(all, armed{a, hold}); a == asked {
			all[0], all[len(all)-1] = all[len(all)-1], all[0]
		}
	}
	return all, nil
}

// first returns the replica at which a request is held, within so long; else the one that was asked. A victim's worker
// is the victim: it becomes A until the lane is reset.
func (l *Lane) first(ctx context.Context, p *Pending, all []armed, within time.Duration) (x armed) {
	asked, end := all[0], time.Now().Add(within)
	for answered := false; len(all) > 1; {
		i := slices.IndexFunc(all, func(x armed) bool { return reached(x.hold) })
		if i >= 0 {
			x = all[i]
			break
		}
		if p.answered() && !answered {
			answered, end = true, time.Now().Add(afterAnswer+l.Service.learnt.rest())
		}
		if time.Now().After(end) || wait(ctx, time.Millisecond) != nil {
			break
		}
	}
	if x.actor == nil {
		for _, other := range all[1:] {
			other.hold.Cancel()
		}
		return asked
	}
	if asked.actor == l.A && x.actor != l.A {
		if x.actor == l.B {
			l.A, l.B = l.B, l.A
		} else {
			l.A, l.C = l.C, l.A
		}
	}
	return x
}
