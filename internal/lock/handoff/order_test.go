package handoff_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
)

// A waiter of another process is overtaken by no more than a cohort, in number and in time (invariant 8).
func TestEngineCohortIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    handoff.Options
		work time.Duration
		most int64 // holders of the other process after the waiter has queued
	}{
		"number":  {handoff.Options{Cohort: 5, CohortTime: time.Hour}, time.Millisecond, 5},
		"one":     {handoff.Options{Cohort: 1, CohortTime: time.Hour}, time.Millisecond, 1},
		"default": {handoff.Options{CohortTime: time.Hour}, time.Millisecond, 16},
		"time":    {handoff.Options{Cohort: 1000}, 20 * time.Millisecond, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, links := network(t, 2)
				l := links[0].process(t, c.o).Handoff()
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan struct{})
				var entered atomic.Int64
				for range 40 {
					go func() {
						defer func() { done <- struct{}{} }()
						for ctx.Err() == nil {
							lease, err := l.Acquire(ctx, "k{1}")
							if err != nil {
								return
							}
							entered.Add(1)
							time.Sleep(c.work)
							_ = lease.Release(ctx)
						}
					}()
				}
				other := links[1].process(t, c.o).Handoff()
				for range 3 {
					time.Sleep(100 * time.Millisecond)
					before := entered.Load()
					lease := locktest.Obtain(t, other, "k{1}")
					// One may be inside when it queues, and one more entered while its request was on its way.
					if got := entered.Load() - before; got > c.most+1 {
						t.Errorf("%d others entered before it, want %d at most", got, c.most)
					}
					if err := lease.Release(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				stop()
				for range 40 {
					<-done
				}
			})
		})
	}
}

// Fair serves in the order of arrival, over processes, and whatever the messages do (invariant 8).
func TestEngineFairIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 3)
		var ls []lock.Locker
		for _, w := range links {
			ls = append(ls, w.process(t, handoff.Options{}).Fair())
		}
		held := locktest.Obtain(t, ls[0], "k{1}")
		var order []chan lock.Lease
		for i := range 30 {
			got, _ := waits(t.Context(), ls[i*7%3], "k{1}")
			order = append(order, got)
		}
		links[1].dropsMessages.Store(true)
		for i, got := range order {
			if err := held.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			held = <-got
			synctest.Wait()
			for j, later := range order[i+1:] {
				if len(later) > 0 {
					t.Fatalf("waiter %d was served with %d", i+1+j, i)
				}
			}
		}
		_ = held.Release(t.Context())
	})
}

// A newcomer that finds the lock without an owner but with waiters does not overtake them: its acquire hands the lock to the first of them,
// before their next poll (invariants 6 and 8).
func TestEngineNewcomerDoesNotOvertake(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		m, links := network(t, 3)
		lost := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{1}")
		got, _ := waits(t.Context(), pick(links[1].process(t, handoff.Options{}), name), "k{1}")
		m.Del("k{1}")
		newcomer := pick(links[2].process(t, handoff.Options{}), name)
		if _, err := newcomer.Acquire(lock.WithWait(t.Context(), 0), "k{1}"); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("the newcomer's Acquire = %v, want ErrBusy", err)
		}
		synctest.Wait()
		select {
		case lease := <-got:
			_ = lease.Release(t.Context())
		default:
			t.Error("the newcomer did not let the waiter in")
		}
		if err := lost.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release of what was deleted = %v, want ErrLost", err)
		}
	})
}
