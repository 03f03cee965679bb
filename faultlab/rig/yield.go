package rig

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lastitem/internal/wire"
)

// HoldOrYield sends a request to an actor. It returns when the request is held at the position, has been answered, or has to wait for a
// request that is held: for a row that a transaction has locked, or inside its process. In the last case the hold stays armed, and
// [Scene.Yield] waits for it again. wait bounds how long the request waits for a lock. An error means that the actor has no such server, or
// that ctx has ended.
func (s *Scene) HoldOrYield(ctx context.Context, a *Actor, at Position, key string, wait time.Duration) (*Pending, *wire.Hold, error) {
	hold, err := a.Arm(at)
	if err != nil {
		return nil, nil, err
	}
	p := s.AskWithin(a, key, wait)
	s.Yield(ctx, a, at, p, hold, wait)
	if ctx.Err() != nil {
		hold.Cancel()
		return p, hold, fmt.Errorf("faultlab: waiting for %s to be held %s: %w", a.Name, at, context.Cause(ctx))
	}
	return p, hold, nil
}

// yieldAfter is how long the database may leave a call unanswered before the request counts as waiting for a row lock. It is longer than
// blockedAfter, because a request that counts as waiting too early is not held at its position. Other traffic of the process does not
// matter: a session with a lock service sends keep-alives all the time.
const yieldAfter = 4 * blockedAfter

// Yield returns when the request is held, has been answered, or has to wait for a request that is held. wait is how long the request may
// wait for a lock in its process without doing anything. Yield takes no longer than wait plus mostStill.
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

// waitsForRow says whether the database has left a call with a number above since unanswered for yieldAfter.
func (a *Actor) waitsForRow(since int64) bool {
	return slices.ContainsFunc(a.Unanswered(), func(c wire.Call) bool {
		return c.Server == Database && c.ID > since && !c.Sent.IsZero() && time.Since(c.Sent) > yieldAfter
	})
}
