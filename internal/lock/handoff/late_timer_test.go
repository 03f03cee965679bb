package handoff_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

// blockingAdder is an Adder that blocks once, after block. The engine reports its metrics under its mutex, so none of its timers can proceed
// meanwhile.
type blockingAdder struct {
	blocked          atomic.Bool
	reached, unblock chan struct{}
}

func (g *blockingAdder) Add(float64) {
	if g.blocked.CompareAndSwap(true, false) {
		close(g.reached)
		<-g.unblock
	}
}

// A process that was stopped may run its holder before its timers. Here the engine's timer cannot proceed at all. Still every context of
// the hold has ended when anybody checks it past the TTL, and so have the contexts derived from it.
func TestEngineContextEndsWithoutATimer(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	for _, name := range allLocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl = 3 * time.Second
			g := &blockingAdder{reached: make(chan struct{}), unblock: make(chan struct{})}
			e := onServer(t, s, handoff.Options{TTL: ttl, Metrics: handoff.Metrics{Acquired: g}})
			l, key := pick(e, name), s.Prefix+"{"+name+"}"
			lease := locktest.Obtain(t, l, key)
			inner, err := l.Acquire(context.WithoutCancel(lease.Context()), key)
			if err != nil {
				t.Fatal(err)
			}
			derived, cancel := context.WithCancel(lease.Context())
			defer cancel()
			g.blocked.Store(true)
			other := make(chan lock.Lease)
			go func() { other <- locktest.Obtain(t, l, key+"other") }()
			<-g.reached
			time.Sleep(ttl)
			for which, ctx := range map[string]context.Context{"lease": lease.Context(), "detached re-entry": inner.Context()} {
				if err := ctx.Err(); !errors.Is(err, context.Canceled) || !errors.Is(context.Cause(ctx), lock.ErrLost) {
					t.Errorf("%s: Err() = %v because of %v past the TTL, want ErrLost", which, err, context.Cause(ctx))
				}
				select {
				case <-ctx.Done():
				default:
					t.Errorf("%s: Done() is open past the TTL", which)
				}
			}
			if err := derived.Err(); err == nil {
				t.Error("a derived context: Err() = nil after the lease's said that it has ended")
			}
			close(g.unblock)
			for _, lease := range []lock.Lease{<-other, inner, lease} {
				_ = lease.Release(t.Context()) // any of them may have been lost by now
			}
		})
	}
}
