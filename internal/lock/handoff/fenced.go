package handoff

import (
	"context"
	"fmt"

	"lastitem/internal/lock"
)

// Fenced is [Engine.Handoff] whose fences are above every one that the resource has seen, also where those of Redis are not:
// it failed over to a replica that lagged, or came back from an old backup, or lost the counter while its clock went back. seen
// returns the highest fence in the resource for a key, 0 for none; it is asked once for every hold, under the lock.
//
// A fence protects only where the resource checks it: in the statement that writes, and refuses what is lower.
func (e *Engine) Fenced(seen func(ctx context.Context, key string) (uint64, error)) lock.Locker {
	return fencedLocker{e, seen}
}

type fencedLocker struct {
	e    *Engine
	seen func(context.Context, string) (uint64, error)
}

// Acquire does what [lock.Locker] says. If the resource could not be asked, the resource's error is joined with [lock.ErrUnavailable].
func (f fencedLocker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	lease, err := f.e.acquire(ctx, key, handingOff)
	if err != nil {
		return nil, err
	}
	l, ok := lease.(*engineLease)
	if !ok || l != &l.h.first { // a re-entry: the fence is the hold's, also of one that was not Fenced
		return lease, nil
	}
	seen, err := f.seen(l.Context(), key)
	if err == nil && seen >= l.Fence() {
		err = l.h.raise(seen)
	}
	if err != nil {
		_ = lease.Release(ctx)
		return nil, fmt.Errorf("%w: engine: fence of %s: %w", lock.ErrUnavailable, key, err)
	}
	return lease, nil
}

// raise sets the counter in Redis above seen, and takes the hold's fence, and those of its followers, from there.
func (h *holding) raise(seen uint64) error {
	e, l := h.e, h.l
	fences := uint64(l.fences())
	c := e.newCall(engineRaise, l.mode, l.key, h.token).add(decimal(seen), decimal(fences), e.keep)
	e.call(c)
	last := uint64(number(c.reply))
	switch {
	case c.err != nil:
		return c.err
	case last == 0:
		return lock.ErrLost
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.hold != h || h.over() {
		return lock.ErrLost
	}
	followers := l.last + 1 - l.fence
	h.fence = last - fences + 1
	l.fence, l.last = h.fence+1, h.fence+followers
	return nil
}
