package handoff

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lastitem/internal/lock"
)

// Fenced is [Engine.Handoff] whose fences are above every one that the resource has seen, also where those of Redis are
// not: it failed over to a server whose clock is behind, or lost the counter while its clock went back (see [Keys]).
// seen returns the highest fence in the resource for a key, 0 for none; it is asked once for every hold, under the
// lock.
//
// A fence protects only where the resource checks it: in the statement that writes, and refuses what is lower.
func (e *Engine) Fenced(seen func(ctx context.Context, key string) (uint64, error)) lock.Locker {
	return fencedLocker{e, seen}
}

// mostSeen is the highest fence of the resource that can be topped. Lua counts in doubles, which are exact up to 2^53;
// the rest is room for the fences after it.
const mostSeen = 1<<53 - 1<<20

type fencedLocker struct {
	e    *Engine
	seen func(context.Context, string) (uint64, error)
}

// Acquire does what [lock.Locker] says. If the resource could not be asked, the resource's error is joined with
// [lock.ErrUnavailable]; a fence that cannot be topped is an error of the resource too. [lock.WithWait] also bounds
// seen, through its context. Acquire may then take [Options.AttemptLimit] longer than the wait.
func (f fencedLocker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	ctx = lock.BeginWait(ctx)
	began := time.Now()
	got, err := f.e.acquire(ctx, key, handingOff)
	if err != nil {
		return nil, err
	}
	l, ok := got.(*engineLease)
	if !ok || l != &l.h.first { // a re-entry: the fence is the hold's, also of one that was not Fenced
		return got, nil
	}
	asking, stop := l.Context(), func() {}
	if until, bounded := lock.WaitUntil(ctx); bounded {
		if until.Before(began) {
			until = began
		}
		asking, stop = context.WithDeadline(asking, until.Add(f.e.o.attemptLimit()))
	}
	defer stop()
	seen, err := f.seen(asking, key)
	if seen > mostSeen {
		err = errors.Join(err, fmt.Errorf("the resource has seen %d, and no fence above %d can be issued", seen,
			uint64(mostSeen)))
	}
	if err == nil && seen >= l.Fence() {
		err = f.e.within(asking, func() error { return l.h.raise(seen) })
	}
	if err == nil {
		return got, nil
	}
	_ = f.e.within(asking, func() error { return l.Release(ctx) }) // it continues in the background if asking has ended
	if lock.Ended(ctx) {
		return nil, lock.GaveUp(ctx)
	}
	return nil, fmt.Errorf("%w: engine: fence of %s: %w", lock.ErrUnavailable, key, err)
}

// within runs f and returns its error. If ctx ends first, it returns the cause of that, and f continues.
func (e *Engine) within(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return ErrClosed
	}
	e.spawn(func() { done <- f() })
	e.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// raise sets the counter in Redis above seen, and takes the hold's fence, and those of its followers, from there.
func (h *hold) raise(seen uint64) error {
	e, c := h.e, h.c
	fences := uint64(c.mode.fences(c.e.o.Cohort))
	r := e.server.newRequest(engineRaise, c.mode, e.server.ttl, c.key, h.token).add(decimal(seen), decimal(fences))
	e.server.do(r)
	last := uint64(number(r.reply))
	switch {
	case r.err != nil:
		return r.err
	case last == 0:
		return lock.ErrLost
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.hold != h || h.over() {
		return lock.ErrLost
	}
	followers := c.last + 1 - c.fence
	h.fence = last - fences + 1
	c.fence, c.last = h.fence+1, h.fence+followers
	return nil
}
