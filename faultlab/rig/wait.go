package rig

import (
	"context"
	"slices"
	"time"

	"lastitem/faultlab/rig/gear"
	"lastitem/judge"
	"lastitem/stack/wire"
	"lastitem/target"
)

// Settle waits until the request has its answer, or is blocked: a server that may block owes it an answer for a while,
// or nothing moves at all. This wait guarantees nothing: if the rival was only slow, the victim just goes on a little
// early.
func (s *Scene) Settle(ctx context.Context, a *Actor, p *Pending) (blocked bool) {
	last, moved := s.progress(a, p.since), time.Now()
	for {
		select {
		case <-p.done:
			if s.Lane.over(ctx, p) {
				s.Note(a, Blocked, "")
				return true
			}
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
func look(moved time.Time) time.Duration {
	return min(time.Millisecond+time.Since(moved)/8, 10*time.Millisecond)
}

// blockedAfter is how long a server may owe an answer before a rival counts as blocked in it; stillAfter is for
// [Lane.still].
const (
	blockedAfter = 80 * time.Millisecond
	stillAfter   = 600 * time.Millisecond
)

// still returns how long a request may do nothing at all before it counts as waiting inside its process. A foreign
// service may be slow: it gets several times what its slowest request without any fault took, on any lane, within
// mostStill.
func (l *Lane) still() time.Duration {
	if !l.Service.Waits {
		return stillAfter
	}
	return min(max(stillAfter, 4*l.Service.learnt.longest()), mostStill)
}

// blocked says whether a call of the actor with a number above since is held by a proxy, or unanswered by the database,
// the only server whose clients wait for each other's locks. An earlier call is another request's.
func (a *Actor) blocked(since int64) bool {
	return slices.ContainsFunc(a.Unanswered(), func(c wire.Call) bool {
		return c.ID > since && (c.Sent.IsZero() || c.Server == gear.Database)
	})
}

// blockedFor says whether blocked is true of one and the same call for so long.
func (a *Actor) blockedFor(since int64, long time.Duration) bool {
	return slices.ContainsFunc(a.Unanswered(), func(c wire.Call) bool {
		return c.ID > since && (c.Sent.IsZero() || c.Server == gear.Database && time.Since(c.Sent) > long)
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
// server before: one and the same call is unanswered for the still time, and the locks have had their TTL to expire. A
// lock that is polled leaves some call unanswered at any moment, but no call for long. Where replicas work for a
// request after its answer, more orders than before must come. A request that is sent at the end gets the still time.
func (s *Scene) served(ctx context.Context, a *Actor, p *Pending, orders int, end time.Time) (blocked bool) {
	if !s.Lane.Service.Waits {
		return s.Settle(ctx, a, p)
	}
	last, moved := s.progress(a, p.since), time.Now()
	began := moved
	if least := began.Add(s.Lane.still()); end.Before(least) {
		end = least
	}
	for time.Now().Before(end) {
		select {
		case <-p.done:
			if p.op.Outcome == judge.OK && !s.Lane.sold(ctx, orders, end) {
				s.Note(a, Blocked, "")
			}
			return false
		case <-ctx.Done():
			return true
		case <-time.After(time.Millisecond):
		}
		if now := s.progress(a, p.since); now != last {
			last, moved = now, time.Now()
		} else if still := s.Lane.still(); time.Since(moved) > still && time.Since(began) > s.Lane.TTL &&
			a.blockedFor(p.since, still) {
			end = time.Time{}
		}
	}
	s.Note(a, Blocked, "")
	return true
}

// yieldAfter is how long the database may leave a call unanswered before the request counts as waiting for a row lock.
// It is longer than blockedAfter, because a request that counts as waiting too early is not held at its position. Other
// traffic of the process does not matter: a session with a lock service sends keep-alives all the time.
const yieldAfter = 4 * blockedAfter

// waitsForRow says whether the database has left a call with a number above since unanswered for yieldAfter.
func (a *Actor) waitsForRow(since int64) bool {
	return slices.ContainsFunc(a.Unanswered(), func(c wire.Call) bool {
		return c.Server == gear.Database && c.ID > since && !c.Sent.IsZero() && time.Since(c.Sent) > yieldAfter
	})
}

// KeptOut says that a request of an actor has not been served though no server owes it an answer: it was turned away,
// or polls. A lease may keep it out that only ends later. The lock of a row is none: one call waits for it, or fails by
// it.
func (p *Pending) KeptOut(a *Actor) bool {
	if !a.service.Waits || p.answered() && p.op.Outcome != judge.Declined || a.waitsForRow(p.since) {
		return false
	}
	return !slices.ContainsFunc(a.Calls(p.since), func(c wire.Call) bool {
		return c.Server == gear.Database && slices.Contains(rowLocked, c.Failed)
	})
}

// rowLocked are the errors of the database for a row that somebody else has locked, or has changed meanwhile: of MySQL,
// and of PostgreSQL.
var rowLocked = []string{"1205", "3572", "55P03", "40001", "40P01"}

// AwaitFailure waits until a command of the actor fails with that error number. [gear.ErrNothing]: the request was
// answered without such an error.
func (s *Scene) AwaitFailure(ctx context.Context, a *Actor, p *Pending, number string) error {
	err := gear.Until(ctx, "error "+number, func() bool {
		select {
		case <-p.done:
			return true
		default:
			return s.Failed(a, number)
		}
	})
	if err == nil && !s.Failed(a, number) {
		return gear.ErrNothing
	}
	return err
}

// Still is how long a request that a person steps through may do nothing before it counts as waiting inside its
// process. A call that the database leaves unanswered for [BlockedAfter] counts as waiting in the database.
const (
	Still        = 5 * time.Second
	BlockedAfter = yieldAfter
)

// over waits until the work for a request that was answered is over, on whatever replica, although another request may
// be held, and says whether it is blocked in a server instead.
func (l *Lane) over(ctx context.Context, p *Pending) (blocked bool) {
	rest := l.Service.learnt.rest()
	if rest == 0 || l.quiet(ctx, rest, time.Now().Add(mostStill)) != nil {
		return false
	}
	return slices.ContainsFunc(l.actors(), func(a *Actor) bool { return a.blocked(p.since) })
}

// sold waits until there are more orders than before, and returns true, or until end. Where no replica works for a
// request after its answer, where no command is held that could keep the worker waiting, or nothing is left to sell,
// there is nothing to wait for.
func (l *Lane) sold(ctx context.Context, before int, end time.Time) bool {
	for rest := l.Service.learnt.rest(); rest > 0; {
		ledger, err := l.Ledger(ctx)
		if err == nil && (len(ledger.Orders) > before || ledger.Stock[target.ForeignStore] <= 0) {
			return true
		}
		if !slices.ContainsFunc(l.actors(), func(a *Actor) bool { return len(a.Unanswered()) > 0 }) {
			return l.quiet(ctx, rest, end) == nil
		}
		if time.Now().After(end) || wait(ctx, settling) != nil {
			return false
		}
	}
	return true
}

// orders is how many orders there are, where that tells how far the work for requests is; else 0.
func (l *Lane) orders(ctx context.Context) int {
	if l.Service.learnt.rest() == 0 {
		return 0
	}
	ledger, err := l.Ledger(ctx)
	if err != nil {
		return 0
	}
	return len(ledger.Orders)
}

// foundNothing says that a consumer has found nothing to read: it does not read again before it has seen that there is
// something.
func (a *Actor) foundNothing() func() bool {
	since := time.Now()
	return func() bool {
		if len(a.Unanswered()) > 0 || len(a.Calls(a.Began())) > 0 {
			since = time.Now()
		}
		return time.Since(since) > nothingAfter
	}
}

// nothingAfter is how long a consumer that has read something may take before its next command.
const nothingAfter = 4 * settling

// undrainedFor is how long no ticket may end before those that are left count as stuck. A consumer that has not read
// for a while looks every three seconds at most.
const undrainedFor = 5 * time.Second
