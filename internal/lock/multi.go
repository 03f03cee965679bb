package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Multi is a hold of several keys of one locker, as a cart of several products needs. Redisson calls it a MultiLock.
type Multi struct {
	keys   []string // sorted
	leases []Lease
	ctx    context.Context
	cancel context.CancelCauseFunc
	stops  []func() bool // of the watches over the leases
}

// errNoKeys: holding nothing protects nothing.
var errNoKeys = errors.New("lock: AcquireAll without keys")

// AcquireAll takes the locks of all keys on l, or none of them. Duplicates are dropped, and the keys are taken in
// sorted order, the same for everybody: in the callers' orders, {1,2} and {2,1} could wait for each other forever. One
// wait ([WithWait]) covers all keys together.
//
// What breaks it: what breaks l; and the more keys there are, the longer the first is held while the last is waited
// for. After an error nothing is held, unless the error says that the outcome of a release is unknown.
func AcquireAll(ctx context.Context, l Locker, keys ...string) (*Multi, error) {
	if len(keys) == 0 {
		return nil, errNoKeys
	}
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	m := &Multi{keys: keys, cancel: func(error) {}}
	chain := ShareWait(ctx)
	for _, key := range keys {
		m.look() // if a lease has expired by now, its context ends the wait for the next one
		lease, err := l.Acquire(chain, key)
		if err != nil {
			err = fmt.Errorf("lock: %q, as number %d of %d: %w", key, len(m.leases)+1, len(keys), err)
			return nil, errors.Join(err, m.Release(ctx))
		}
		m.leases = append(m.leases, lease)
		chain = lease.Context()
	}
	m.watch(beginWait(chain, false)) // an Acquire within has a wait of its own again
	return m, nil
}

// watch makes m's context, which derives from ctx and ends with each lease.
func (m *Multi) watch(ctx context.Context) {
	m.ctx, m.cancel = context.WithCancelCause(ctx)
	for _, lease := range m.leases {
		m.stops = append(m.stops, context.AfterFunc(lease.Context(), func() { m.cancel(context.Cause(lease.Context())) }))
	}
}

// Context ends, with cause [ErrLost], as soon as one of the leases can no longer be trusted. It carries them all.
func (m *Multi) Context() context.Context {
	return multiContext{m.ctx, m}
}

// look ends m's context if one of the leases has ended: the watch over that lease may not have run yet.
func (m *Multi) look() {
	for _, lease := range m.leases {
		if ctx := lease.Context(); ctx.Err() != nil {
			m.cancel(context.Cause(ctx))
		}
	}
}

// multiContext is the context of several leases. Like theirs, it looks at the clock before it says that it has not
// ended.
type multiContext struct {
	context.Context
	m *Multi
}

func (c multiContext) Done() <-chan struct{} {
	c.m.look()
	return c.Context.Done()
}

func (c multiContext) Err() error {
	c.m.look()
	return c.Context.Err()
}

// Fence is 0: several keys have no common fencing token. See [Multi.FenceOf].
func (m *Multi) Fence() uint64 { return 0 }

// FenceOf is the fencing token of one key; 0 where it is not one of the keys, or the lock issues none.
func (m *Multi) FenceOf(key string) uint64 {
	if i, ok := slices.BinarySearch(m.keys, key); ok {
		return m.leases[i].Fence()
	}
	return 0
}

// Release releases every lease, the last one first, even after an error, and joins the errors. The result is [ErrLost]
// if any lease was lost. If the store hangs, it takes a few seconds per key.
func (m *Multi) Release(ctx context.Context) error {
	for _, stop := range m.stops {
		stop()
	}
	m.cancel(context.Canceled)
	var errs []error
	for i := len(m.leases) - 1; i >= 0; i-- {
		if err := m.leases[i].Release(ctx); err != nil {
			errs = append(errs, fmt.Errorf("lock: release %q: %w", m.keys[i], err))
		}
	}
	return errors.Join(errs...)
}
