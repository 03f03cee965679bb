package handoff

import (
	"context"

	"lastitem/internal/lock"
	"lastitem/internal/lock/lease"
	"lastitem/internal/step"
)

// engineLease is one entry into a hold.
type engineLease struct {
	h    *holding
	ctx  context.Context // the context of a re-entry; nil for the first entry
	end  func()          // ends ctx, if ctx is not the caller's
	left bool
}

// Context ends with ErrLost if the lock was not renewed in time, or was held for too long. Its Err and Done compare the clock with that end
// and do not rely on a timer. An Acquire with it re-enters.
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
	if !l.left {
		l.left = true
		h.entries--
	}
	inner, lost := h.entries > 0, h.lost
	h.e.mu.Unlock()
	if l.end != nil {
		l.end()
	}
	if !inner {
		return h.once.Do(func() error { return h.free(ctx) })
	}
	h.e.o.Steps.At(ctx, step.Releasing, h.l.key)
	if lost {
		return lock.ErrLost
	}
	h.e.o.Steps.At(ctx, step.Released, h.l.key)
	return nil
}

// enter re-enters the hold: it counts the entry here and sends nothing. It returns no lease and no error if the hold was released normally.
// Then ctx was detached from the lease's context, still carries the hold, and may be used to acquire the lock again.
func (h *holding) enter(ctx context.Context, m mode) (lock.Lease, error) {
	h.e.mu.Lock()
	released := h.entries == 0 && !h.lost
	lost := !released && (h.entries == 0 || h.over())
	enters := !released && !lost && h.l.mode.covers(m)
	if enters {
		h.entries++
	}
	h.e.mu.Unlock()
	switch {
	case released && ctx.Err() == nil:
		return nil, nil
	case released || lost:
		return nil, lock.ErrLost
	case !enters:
		return nil, ErrUpgrade
	}
	h.e.o.Steps.At(ctx, step.Locked, h.l.key)
	outer := h.context()
	if ctx.Done() == outer.Done() {
		return &engineLease{h: h, ctx: ctx}, nil
	}
	// ctx may carry the hold and yet be detached from its context, so the end of the hold is forwarded to it.
	inner, cancel := context.WithCancelCause(ctx)
	bring := func() { cancel(context.Cause(outer)) }
	stop := context.AfterFunc(outer, bring)
	looked := lease.Clocked(inner, func() {
		if outer.Err() != nil {
			bring()
		}
	})
	return &engineLease{h: h, ctx: looked, end: func() { stop(); cancel(context.Canceled) }}, nil
}
