package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
)

// model is what a fair lock must be: one holder, a queue, and leases that remember how they ended.
type model struct {
	m       *miniredis.Miniredis
	lockers []lock.Locker // Handoff and Fair of two processes
	key     string
	holder  *modelLease
	queue   []*modelWaiter
	past    []*modelLease
	fence   uint64
}

type modelLease struct {
	lock.Lease
	lost bool
}

type modelWaiter struct {
	got    chan lock.Lease
	failed chan error
	cancel context.CancelFunc
}

// hold notes that the lease has the lock now.
func (s *model) hold(t *rapid.T, l lock.Lease) {
	if s.holder != nil {
		t.Fatalf("fence %d granted while %d holds", l.Fence(), s.holder.Fence())
	}
	if l.Fence() <= s.fence {
		t.Fatalf("fence %d after %d", l.Fence(), s.fence)
	}
	if err := l.Context().Err(); err != nil {
		t.Fatalf("a new lease has ended: %v", err)
	}
	s.fence, s.holder = l.Fence(), &modelLease{Lease: l}
}

// next checks that the head of the queue, and nobody else, has been served.
func (s *model) next(t *rapid.T) {
	for i, w := range s.queue {
		select {
		case l := <-w.got:
			if i != 0 {
				t.Fatalf("waiter %d was served before the first", i)
			}
			s.hold(t, l)
		case err := <-w.failed:
			t.Fatalf("waiter %d failed: %v", i, err)
		default:
			if i == 0 {
				t.Fatal("the lock is free and the first waiter has not got it")
			}
		}
	}
	if len(s.queue) > 0 {
		s.queue = s.queue[1:]
	}
}

func (s *model) actions() map[string]action {
	one := func(t *rapid.T) lock.Locker { return rapid.SampledFrom(s.lockers).Draw(t, "locker") }
	return map[string]action{
		"try": {nil, func(t *rapid.T) {
			l, err := one(t).Acquire(lock.WithWait(context.Background(), 0), s.key)
			if s.holder == nil && err == nil {
				s.hold(t, l)
			} else if s.holder == nil || !errors.Is(err, lock.ErrBusy) {
				t.Fatalf("Acquire = %v, held %t", err, s.holder != nil)
			}
		}},
		"wait": {func() bool { return s.holder != nil && len(s.queue) <= 5 }, func(t *rapid.T) {
			ctx, cancel := context.WithCancel(context.Background())
			l := s.lockers[rapid.SampledFrom([]int{1, 3}).Draw(t, "fair")]
			w := &modelWaiter{make(chan lock.Lease, 1), make(chan error, 1), cancel}
			w.got, w.failed = waits(ctx, l, s.key)
			s.queue = append(s.queue, w)
		}},
		"cancel": {func() bool { return len(s.queue) > 0 }, func(t *rapid.T) {
			i := rapid.IntRange(0, len(s.queue)-1).Draw(t, "waiter")
			s.queue[i].cancel()
			if err := <-s.queue[i].failed; !errors.Is(err, context.Canceled) {
				t.Fatalf("cancelled Acquire = %v", err)
			}
			synctest.Wait()
			s.queue = slices.Delete(s.queue, i, i+1)
		}},
		"release": {func() bool { return s.holder != nil }, func(t *rapid.T) {
			if err := s.holder.Release(context.Background()); err != nil {
				t.Fatalf("Release = %v", err)
			}
			s.past = append(s.past, s.holder)
			s.holder = nil
			synctest.Wait()
			s.next(t)
		}},
		"release again": {func() bool { return len(s.past) > 0 }, func(t *rapid.T) {
			l := rapid.SampledFrom(s.past).Draw(t, "lease")
			if err := l.Release(context.Background()); errors.Is(err, lock.ErrLost) != l.lost || !l.lost && err != nil {
				t.Fatalf("Release again = %v, lost %t", err, l.lost)
			}
		}},
		"re-enter": {func() bool { return s.holder != nil }, func(t *rapid.T) {
			ls := s.lockers[2*rapid.IntRange(0, 1).Draw(t, "process"):][:2]
			for _, l := range ls {
				inner, err := l.Acquire(lock.WithWait(s.holder.Context(), 0), s.key)
				if err != nil {
					continue // the holder is of the other process
				}
				if inner.Fence() != s.holder.Fence() || inner.Release(context.Background()) != nil || s.holder.Context().Err() != nil {
					t.Fatal("re-entry disturbed the hold")
				}
			}
		}},
		"time": {nil, func(t *rapid.T) {
			time.Sleep(time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
			if s.holder != nil && s.holder.Context().Err() != nil {
				t.Fatal("a hold was not renewed")
			}
		}},
		"lose": {func() bool { return s.holder != nil }, func(t *rapid.T) { // somebody deletes the key
			s.m.Del(s.key)
			time.Sleep(locktest.TTL)
			if !errors.Is(context.Cause(s.holder.Context()), lock.ErrLost) {
				t.Fatal("the holder was not told")
			}
			s.holder.lost = true
			if err := s.holder.Release(context.Background()); !errors.Is(err, lock.ErrLost) {
				t.Fatalf("Release of a lost lease = %v", err)
			}
			s.past = append(s.past, s.holder)
			s.holder = nil
			s.next(t)
		}},
	}
}

// bubbled is a test inside a bubble, where a test has no deadline to be asked for.
type bubbled struct{ *testing.T }

func TestEngineStateMachine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { stateMachine(t) })
}

// stateMachine runs in a bubble, and returns how many sequences of actions it has checked.
func stateMachine(t *testing.T) (runs int) {
	m, links := network(t, 2)
	var lockers []lock.Locker
	for _, w := range links {
		e := w.process(t, handoff.Options{})
		lockers = append(lockers, e.Handoff(), e.Fair())
	}
	rapid.Check(bubbled{t}, func(t *rapid.T) {
		runs++
		s := &model{m: m, lockers: lockers, key: fmt.Sprintf("k{%d}", runs)}
		repeat(t, s.actions())
		for _, w := range s.queue {
			w.cancel()
			<-w.failed
		}
		if s.holder != nil {
			_ = s.holder.Release(context.Background())
		}
		synctest.Wait()
		keys := handoff.KeysOf(s.key)
		for _, k := range []string{keys.Lock, keys.Queue} {
			if m.Exists(k) {
				t.Fatalf("%s is left behind", k)
			}
		}
	})
	return runs
}

// action is what a state machine may do. It is drawn only if it is possible now; nil = it always is.
type action struct {
	possible func() bool
	do       func(*rapid.T)
}

// mostActions is how many actions a sequence has at most.
const mostActions = 150

// repeat draws a sequence of actions, and does each.
func repeat(t *rapid.T, all map[string]action) {
	names := slices.Sorted(maps.Keys(all))
	for range rapid.IntRange(1, mostActions).Draw(t, "actions") {
		now := slices.DeleteFunc(slices.Clone(names), func(name string) bool { can := all[name].possible; return can != nil && !can() })
		all[rapid.SampledFrom(now).Draw(t, "action")].do(t)
	}
}
