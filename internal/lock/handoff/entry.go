package handoff

import (
	"context"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// engineLease is one entry into a hold.
type engineLease struct {
	h        *hold
	ctx      context.Context // the context of a re-entry; nil for the first entry
	stop     func()          // ends ctx, unless it is the caller's; nil for the first entry
	released bool
}

// Context ends with ErrLost if the lock was not renewed in time, or was held for too long. Its Err and Done compare the clock with that end
// and do not rely on a timer. An Acquire under [lock.WithReentry] of it re-enters.
func (l *engineLease) Context() context.Context {
	if l.ctx != nil {
		return l.ctx
	}
	return l.h.context()
}

// Fence rises with every hold; all entries of one hold have the same fence.
func (l *engineLease) Fence() uint64 { return l.h.fence }

// Release leaves the hold; the last entry to leave releases the lock. Nil may also mean that the lock was passed on within this process.
func (l *engineLease) Release(ctx context.Context) error {
	h := l.h
	h.e.mu.Lock()
	if !l.released {
		l.released = true
		h.entries--
	}
	inner, lost := h.entries > 0, h.state == holdLost
	h.e.mu.Unlock()
	if l.stop != nil {
		l.stop()
	}
	if !inner {
		return h.once.Do(func() error { return h.release(ctx) })
	}
	h.e.o.Steps.At(ctx, step.Releasing, h.c.key)
	if lost {
		return lock.ErrLost
	}
	h.e.o.Steps.At(ctx, step.Released, h.c.key)
	return nil
}

// reenter re-enters the hold: it counts the entry here and sends nothing. It returns no lease and no error if the hold was released normally.
// Then ctx was detached from the lease's context, still carries the hold, and may be used to acquire the lock again.
func (h *hold) reenter(ctx context.Context, m mode) (lock.Lease, error) {
	entered, err := h.countEntry(ctx, m)
	if err != nil || !entered {
		return nil, err
	}
	h.e.o.Steps.At(ctx, step.Locked, h.c.key)
	return h.leaseIn(ctx), nil
}

// countEntry counts a re-entry. It returns false and no error if the hold was released normally.
func (h *hold) countEntry(ctx context.Context, m mode) (bool, error) {
	ended := ctx.Err() != nil
	refused := lock.RefuseLease(ctx, "engine: a re-entry into a hold that is renewed")
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	switch {
	case h.entries == 0 && h.state != holdLost && !ended:
		return false, nil
	case h.entries == 0 || h.over():
		return false, lock.ErrLost
	case refused != nil && h.c.lease == 0:
		return false, refused
	case !h.c.mode.covers(m):
		return false, ErrUpgrade
	}
	h.entries++
	return true, nil
}

// leaseIn returns the lease of a re-entry with ctx.
func (h *hold) leaseIn(ctx context.Context) *engineLease {
	inner, stop := lock.Reentered(ctx, h.context())
	return &engineLease{h: h, ctx: inner, stop: stop}
}
