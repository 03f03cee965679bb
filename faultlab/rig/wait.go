package rig

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/stack/wire"
)

// Settle waits until the request has its answer, or is blocked: a server that may block owes it an answer for a while,
// or nothing moves at all. This wait guarantees nothing: if the rival was only slow, the victim just goes on a little
// early.
func (s *Scene) Settle(ctx context.Context, a *Actor, p *Pending) (blocked bool) {
	last, moved := s.progress(a, p.since), time.Now()
	for {
		select {
		case <-p.done:
			return false
		case <-ctx.Done():
			return true
		case <-time.After(look(moved)):
		}
		if now := s.progress(a, p.since); now != last {
			last, moved = now, time.Now()
		} else if time.Since(moved) > blockedAfter && (a.blocked(p.since) || time.Since(moved) > s.Lane.still()) {
			s.Note(a, Blocked, "")
			return true
		}
	}
}

// look returns the time until the next poll of a request that last made progress at moved. Polls get rarer: most
// answers come at once, and a request without progress waits for a lease to expire.
func look(moved time.Time) time.Duration { return min(polling+time.Since(moved)/8, 10*polling) }

// blockedAfter is how long a server may owe an answer before a rival counts as blocked in it; stillAfter is for
// [Lane.still].
const (
	blockedAfter = 80 * time.Millisecond
	stillAfter   = 600 * time.Millisecond
)

// still returns how long a request may do nothing at all before it counts as waiting inside its process. A foreign
// service may be slow: it gets several times what its first requests took, within mostStill.
func (l *Lane) still() time.Duration {
	if !l.Service.Waits {
		return stillAfter
	}
	return min(max(stillAfter, 4*l.pace), mostStill)
}

// mostStill bounds still.
const mostStill = 3 * time.Second

// blocked says whether a call of the actor with a number above since is held by a proxy, or unanswered by the database,
// the only server whose clients wait for each other's locks. An earlier call is another request's.
func (a *Actor) blocked(since int64) bool {
	return slices.ContainsFunc(a.Unanswered(), func(c wire.Call) bool {
		return c.ID > since && (c.Sent.IsZero() || c.Server == Database)
	})
}

// progress changes whenever the actor sends a command with a number above since, or gets the answer to one. Keep-alives
// do not count: a process sends them for every session that it has, also with services that the mode does not use. Nor
// does a command that has been sent a few times (spins): a watchdog or a poll for a lock repeats it, while the request
// waits.
func (s *Scene) progress(a *Actor, since int64) [2]int {
	sent, answered := 0, 0
	seen := map[[2]string]int{}
	for _, c := range a.Calls(since) {
		kind := [2]string{c.Server, c.Pattern}
		seen[kind]++
		if c.Poll || seen[kind] > spins {
			continue
		}
		sent++
		if !c.Answered.IsZero() {
			answered++
		}
	}
	return [2]int{sent, answered}
}

// spins is how often a process may send the same command before that no longer counts as progress.
const spins = 3

// served waits as Settle does. For a service with Service.Waits it waits until end, unless the request is blocked in a
// server before.
func (s *Scene) served(ctx context.Context, a *Actor, p *Pending, end time.Time) (blocked bool) {
	if !s.Lane.Service.Waits {
		return s.Settle(ctx, a, p)
	}
	last, moved := s.progress(a, p.since), time.Now()
	for time.Now().Before(end) {
		select {
		case <-p.done:
			return false
		case <-ctx.Done():
			return true
		case <-time.After(polling):
		}
		if now := s.progress(a, p.since); now != last {
			last, moved = now, time.Now()
		} else if time.Since(moved) > s.Lane.still()/2 && a.blocked(p.since) {
			end = time.Time{}
		}
	}
	s.Note(a, Blocked, "")
	return true
}

// WaitOrStuck waits for p, a request sent to a after the fault was over. A service that waits for a lock that nobody
// releases never answers p: then WaitOrStuck sends more requests, and if none is answered, it kills the replica, so
// that these requests can have no late effect, and marks them as stuck, see decline. bound is how long a lock may
// outlive its holder. An error: the replica waits for a server, or ctx has ended.
func (s *Scene) WaitOrStuck(ctx context.Context, a *Actor, p *Pending, bound time.Duration) error {
	if !s.Lane.Service.Waits {
		return p.Wait(ctx)
	}
	asked := []*Pending{p}
	for range attemptsAfter {
		if answeredWithin(ctx, bound+stuckAfter, asked) {
			return nil
		}
		bound = 0
		asked = append(asked, s.Ask(a, s.NewKey()))
	}
	if answeredWithin(ctx, stuckAfter, asked) {
		return nil
	}
	if a.blocked(0) || ctx.Err() != nil {
		return fmt.Errorf("faultlab: nobody is served any more, and %s waits for a server", a.Name)
	}
	waiting := slices.DeleteFunc(asked, (*Pending).answered)
	s.Note(a, Killed, "")
	a.Kill()
	if err := a.Discard(ctx); err != nil {
		return err
	}
	for _, one := range waiting {
		if err := one.Wait(ctx); err != nil {
			return err
		}
		one.stuck = true
	}
	return nil
}

// decline makes the stuck requests that bought nothing declined, as if they had been told that the lock is busy: an
// order with their key shows that they did or, where no order shows a key, more orders than answers.
func (s *Scene) decline(history []judge.Op, orders []api.Order) {
	sold, keyed, spare := map[string]bool{}, false, len(orders)
	for _, o := range orders {
		sold[o.Key], keyed = true, keyed || o.Key != ""
	}
	for i, op := range history {
		if op.Outcome == judge.OK && !op.Replayed || op.Outcome == judge.Unknown && !s.ops[i].stuck {
			spare--
		}
	}
	for i := range history {
		switch {
		case !s.ops[i].stuck || keyed && sold[history[i].Key]:
		case !keyed && spare > 0:
			spare--
		default:
			history[i].Outcome, history[i].Code = judge.Declined, api.LockBusy
		}
	}
}

// stuckAfter is how long a client waits beyond the bound, since the machine may be busy.
const stuckAfter = 3 * time.Second

// answered says whether the answer has come.
func (p *Pending) answered() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// answeredWithin says whether all requests were answered in time.
func answeredWithin(ctx context.Context, within time.Duration, asked []*Pending) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for _, p := range asked {
		select {
		case <-p.done:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// asker returns the URL of a replica that can answer: C, else B, else A.
func (l *Lane) asker() string {
	for _, a := range []*Actor{l.C, l.B} {
		if a.alive() && !a.stopped {
			return a.URL
		}
	}
	return l.A.URL
}

// HoldOrYield sends a request to an actor. It returns when the request is held at the position, has been answered, or
// has to wait for a request that is held: for a row that a transaction has locked, or inside its process. In the last
// case the hold stays armed, and [Scene.Yield] waits for it again. wait bounds how long the request waits for a lock.
// An error means that the actor has no such server, or that ctx has ended.
func (s *Scene) HoldOrYield(ctx context.Context, a *Actor, at Position, key string, wait time.Duration) (*Pending,
	*wire.Hold, error) {
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

// yieldAfter is how long the database may leave a call unanswered before the request counts as waiting for a row lock.
// It is longer than blockedAfter, because a request that counts as waiting too early is not held at its position. Other
// traffic of the process does not matter: a session with a lock service sends keep-alives all the time.
const yieldAfter = 4 * blockedAfter

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

// waitsForRow says whether the database has left a call with a number above since unanswered for yieldAfter.
func (a *Actor) waitsForRow(since int64) bool {
	return slices.ContainsFunc(a.Unanswered(), func(c wire.Call) bool {
		return c.Server == Database && c.ID > since && !c.Sent.IsZero() && time.Since(c.Sent) > yieldAfter
	})
}
