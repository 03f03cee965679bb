package handoff_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
)

// A lease's context is made at the first call of Context: it is the same as one that was made at the beginning.
func TestEngineContextMadeLate(t *testing.T) {
	gone := errors.New("gone home")
	for name, c := range map[string]struct {
		end  func(lease lock.Lease, cancel context.CancelCauseFunc)
		want error
	}{
		"lost":     {func(lock.Lease, context.CancelCauseFunc) { time.Sleep(2 * time.Minute) }, lock.ErrLost},
		"released": {func(lease lock.Lease, _ context.CancelCauseFunc) { _ = lease.Release(context.Background()) }, context.Canceled},
		"caller":   {func(_ lock.Lease, cancel context.CancelCauseFunc) { cancel(gone) }, gone},
		"lost, then the caller": {func(_ lock.Lease, cancel context.CancelCauseFunc) {
			time.Sleep(2 * time.Minute)
			cancel(gone)
		}, lock.ErrLost},
		"released, then the caller": {func(lease lock.Lease, cancel context.CancelCauseFunc) {
			_ = lease.Release(context.Background())
			cancel(gone)
		}, context.Canceled},
		"the caller, then released": {func(lease lock.Lease, cancel context.CancelCauseFunc) {
			cancel(gone)
			_ = lease.Release(context.Background())
		}, gone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, links := network(t, 1)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				lease, err := links[0].process(t, handoff.Options{MaxHold: time.Minute}).Handoff().Acquire(ctx, "k{1}")
				if err != nil {
					t.Fatal(err)
				}
				c.end(lease, cancel)
				if got := context.Cause(lease.Context()); !errors.Is(got, c.want) {
					t.Errorf("the context asked for afterwards has ended with %v, want %v", got, c.want)
				}
				_ = lease.Release(context.Background())
			})
		})
	}
}

// All callers of Context get the same context, which ends with the hold.
func TestEngineContextOfManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 1)
		lease := locktest.Obtain(t, links[0].process(t, handoff.Options{}).Handoff(), "k{1}")
		var wg sync.WaitGroup
		all := make([]context.Context, 8)
		for i := range all {
			wg.Go(func() {
				all[i] = lease.Context()
				if i%4 == 3 {
					_ = lease.Release(context.Background())
				}
			})
		}
		wg.Wait()
		for _, ctx := range all {
			if ctx != all[0] || ctx.Err() == nil {
				t.Errorf("one got %v, which has ended with %v; the first %v", ctx, ctx.Err(), all[0])
			}
		}
	})
}
