// Package locktest is the conformance suite of package lock: the rules for every [lock.Locker]. A lock's own tests
// cover only its peculiarities.
package locktest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/step"
	"lastitem/testkit/testenv"
)

// Kind is one lock under test.
type Kind struct {
	Name string
	// Process returns a locker as a separate process would have it; all lockers of one test share the lock's store.
	Process func(t *testing.T, steps *step.Stream) lock.Locker
	// Key returns a key that no other test uses.
	Key func() string
	// Local says that the lock excludes only within one process.
	Local bool
	// Late makes lockers whose grants come too late. NoLate is the reason why no grant can come too late: no lease ends by
	// itself, or there is no network. One of them is set.
	Late   *Late
	NoLate string
	// LeaseTime says that the lock honours lock.WithLease; every other lock must refuse it.
	LeaseTime bool
	// Except names the subtests that this kind breaks by design; its own test shows how.
	Except []string
}

// enough is how long a test waits for a single event before it fails. A task with many steps is bounded by its progress
// instead: see testenv.Progress.
const enough = testenv.Still

// moment is the time that a contender gets to begin its wait. If it has not begun by then, the test is weaker, never
// wrong.
const moment = 100 * time.Millisecond

// Run runs the suite on one kind.
func Run(t *testing.T, k Kind) {
	t.Run(k.Name, func(t *testing.T) {
		k.run(t, "excludes", k.excludes)
		k.run(t, "busy at once", k.busyAtOnce)
		k.run(t, "waits no longer than allowed", k.boundedWait)
		k.run(t, "cancelled wait", k.cancelledWait)
		k.run(t, "cancelled before", k.cancelledBefore)
		k.run(t, "release wakes", k.releaseWakes)
		k.run(t, "release repeated", k.releaseRepeated)
		k.run(t, "release after the request died", k.releaseDetached)
		k.run(t, "keys are apart", k.keysApart)
		k.run(t, "steps", k.steps)
		k.run(t, "late grant", k.lateGrant)
		k.run(t, "lease time", k.leaseTime)
	})
}

func (k Kind) run(t *testing.T, name string, f func(*testing.T)) {
	if slices.Contains(k.Except, name) {
		return
	}
	t.Run(name, f)
}

func (k Kind) processes(t *testing.T, n int) []lock.Locker {
	if k.Local {
		n = 1
	}
	all := make([]lock.Locker, n)
	for i := range all {
		all[i] = k.Process(t, nil)
	}
	return all
}

// fighting allows one fight at a time: a fight uses all CPUs, and tests that run beside several of them would time out.
var fighting sync.Mutex

// excludes lets goroutines of several processes contend for one key, and counts how many are inside.
func (k Kind) excludes(t *testing.T) {
	t.Parallel()
	fighting.Lock()
	defer fighting.Unlock()
	k.fight(t)
}

// fight is the contention itself. Each entry costs a write or two that the server may have to sync, so the rate depends
// on the server, and fight goes on as long as entries succeed. After longFight it suffices that every goroutine has
// entered a few times.
func (k Kind) fight(t *testing.T) {
	const perProcess, rounds, least, longFight = 6, 6, 3, 15 * time.Second
	key := k.Key()
	var inside, entered atomic.Int64
	var wg sync.WaitGroup
	ctx, progress := testenv.Progress(t, enough)
	all := k.processes(t, 3)
	begin := time.Now()
	for _, l := range all {
		for range perProcess {
			wg.Go(func() {
				for round := range rounds {
					if round >= least && time.Since(begin) > longFight {
						return
					}
					var lease lock.Lease
					if err := Again(ctx, func() (err error) { lease, err = l.Acquire(ctx, key); return err }); err != nil {
						t.Errorf("Acquire: %v (%v)", err, context.Cause(ctx))
						return
					}
					progress()
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d holders at once", n)
					}
					entered.Add(1)
					time.Sleep(time.Millisecond) // without a pause inside, two holders would hardly overlap
					inside.Add(-1)
					if err := Again(ctx, func() error { return lease.Release(ctx) }); err != nil {
						t.Errorf("Release: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	if want := int64(len(all) * perProcess * least); entered.Load() < want {
		t.Errorf("entered %d times in %s, want %d at least", entered.Load(), time.Since(begin), want)
	}
}

// held acquires a key, and returns the lease and the locker of another process.
func (k Kind) held(t *testing.T) (rival lock.Locker, key string, lease lock.Lease) {
	t.Helper()
	all := k.processes(t, 2)
	key = k.Key()
	lease = Obtain(t, all[0], key)
	t.Cleanup(func() { _ = lease.Release(context.Background()) })
	return all[len(all)-1], key, lease
}

func (k Kind) busyAtOnce(t *testing.T) {
	t.Parallel()
	rival, key, lease := k.held(t)
	WantBusy(t, rival, key, "it is held")
	Release(t, lease)
	Release(t, Take(t, rival, key))
}

// answered repeats an Acquire with wait 0 until its servers have answered in time. On a busy machine some may not; that
// says nothing about the lock.
func answered(t *testing.T, l lock.Locker, key string) (lock.Lease, error) {
	t.Helper()
	const tries = 10
	for try := 1; ; try++ {
		held, err := l.Acquire(lock.WithWait(t.Context(), 0), key)
		if try == tries || !errors.Is(err, lock.ErrUnavailable) {
			return held, err
		}
		t.Logf("try %d: %v", try, err)
	}
}

func (k Kind) boundedWait(t *testing.T) {
	t.Parallel()
	rival, key, _ := k.held(t)
	const wait = 150 * time.Millisecond
	ctx := lock.WithWait(t.Context(), wait)
	for range 2 { // each Acquire has the whole wait
		start := time.Now()
		_, err := rival.Acquire(ctx, key)
		for try := 1; try < 10 && errors.Is(err, lock.ErrUnavailable); try++ {
			start = time.Now()
			_, err = rival.Acquire(ctx, key)
		}
		if !errors.Is(err, lock.ErrBusy) {
			t.Fatalf("Acquire = %v, want ErrBusy", err)
		}
		if took := time.Since(start); took < wait || took > wait+enough/2 {
			t.Errorf("gave up after %s, was allowed %s", took, wait)
		}
	}
}

func (k Kind) cancelledWait(t *testing.T) {
	t.Parallel()
	rival, key, lease := k.held(t)
	ctx, cancel := context.WithCancel(t.Context())
	failed := Attempt(ctx, rival, key)
	time.Sleep(moment)
	cancel()
	WantGaveUp(t, within(t, failed))
	Release(t, lease)
	Warm(t, rival, key)
}

func (k Kind) cancelledBefore(t *testing.T) {
	t.Parallel()
	l, key := k.processes(t, 1)[0], k.Key()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if lease, err := l.Acquire(ctx, key); err == nil { // Acquire may make one attempt before it checks ctx
		if err := lease.Release(ctx); err != nil {
			t.Fatalf("Release: %v", err)
		}
	}
	Warm(t, l, key)
}

func (k Kind) releaseWakes(t *testing.T) {
	t.Parallel()
	rival, key, lease := k.held(t)
	got := Waiter(t, rival, key)
	time.Sleep(moment)
	Release(t, lease)
	Release(t, within(t, got))
}

func (k Kind) releaseRepeated(t *testing.T) {
	t.Parallel()
	rival, key, lease := k.held(t)
	Release(t, lease)
	second := Obtain(t, rival, key)
	Release(t, lease)
	if !k.Local {
		WantBusy(t, k.processes(t, 1)[0], key, "after a repeated Release")
	}
	Release(t, second)
}

func (k Kind) releaseDetached(t *testing.T) {
	t.Parallel()
	l, key := k.processes(t, 1)[0], k.Key()
	ctx, cancel := context.WithCancel(t.Context())
	lease := Acquire(ctx, t, l, key)
	cancel()
	if err := lease.Release(ctx); err != nil {
		t.Fatalf("Release with a dead context = %v, want nil", err)
	}
	Warm(t, l, key)
}

func (k Kind) keysApart(t *testing.T) {
	t.Parallel()
	rival, _, _ := k.held(t)
	Release(t, Take(t, rival, k.Key()))
}

func (k Kind) steps(t *testing.T) {
	t.Parallel()
	var stream step.Stream
	var mu sync.Mutex
	var seen []step.Point
	defer stream.Subscribe(func(_ context.Context, e step.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Point != step.Acquiring { // only an acquire with two commands reports it
			seen = append(seen, e.Point)
		}
	})()
	lease := Obtain(t, k.Process(t, &stream), k.Key())
	Release(t, lease)
	mu.Lock()
	defer mu.Unlock()
	want := []step.Point{step.Waiting, step.Locked, step.Releasing, step.Released}
	if !slices.Equal(seen, want) {
		t.Fatalf("steps %v, want %v", seen, want)
	}
}

func within[T any](t *testing.T, c <-chan T) (came T) {
	t.Helper()
	select {
	case came = <-c:
	case <-time.After(enough):
		t.Fatalf("nothing happened within %s", enough)
	}
	return came
}
