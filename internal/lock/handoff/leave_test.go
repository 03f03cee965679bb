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

// Forty thousand callers give up at the same moment. All return ErrBusy at that moment of the bubble's clock, the holder keeps the lock,
// and the next caller gets it.
func TestEngineThousandsGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 40000
		m, links := network(t, 1)
		l := links[0].process(t, handoff.Options{}).Handoff()
		held := locktest.Obtain(t, l, "k{1}")
		start := time.Now()
		ctx, cancel := context.WithCancel(lock.WithWait(t.Context(), time.Second))
		defer cancel()
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				if _, err := l.Acquire(ctx, "k{1}"); !errors.Is(err, lock.ErrBusy) {
					t.Errorf("Acquire = %v, want ErrBusy", err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took != time.Second {
			t.Errorf("the last one came back after %s, want %s", took, time.Second)
		}
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := locktest.Obtain(t, l, "k{1}").Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		nothingLeft(t, m, "k{1}")
	})
}
