package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/step"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
)

func TestMain(m *testing.M) { locktest.Main(m) }

func TestMutex(t *testing.T) {
	t.Parallel()
	locktest.Run(t, locktest.Kind{
		Name: "mutex", Local: true, NoLate: "no network is in between",
		Process: func(_ *testing.T, s *step.Stream) lock.Locker { return lock.NewMutex(s) },
		Key:     locktest.KeysUnder("k"),
	})
}

// One process, one mutex per key. Another process has others.
func ExampleMutex() {
	a, b := lock.NewMutex(nil), lock.NewMutex(nil) // two processes
	lease, _ := locktest.TryOnce(a, "product 101")
	_, err := locktest.TryOnce(a, "product 101")
	fmt.Println("the same process:", err)
	_, err = locktest.TryOnce(b, "product 101")
	fmt.Println("another process:", err)
	fmt.Println("released:", lease.Release(context.Background()))
	// Output:
	// the same process: lock: busy
	// another process: <nil>
	// released: <nil>
}

// Do releases after an error and after a panic.
func TestDo(t *testing.T) {
	t.Parallel()
	l, failed := lock.NewMutex(nil), errors.New("failed")
	run := func(f func(lock.Lease) error) error { return lock.Do(lock.WithWait(t.Context(), 0), l, "k", f) }
	err := run(func(lock.Lease) error {
		testkit.IsError(t, run(func(lock.Lease) error { return nil }), lock.ErrBusy, "Do() of a lock that is held")
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("Do() = %v, want the function's error", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = run(func(lock.Lease) error { panic("oh") })
	}()
	if err := run(func(lock.Lease) error { return nil }); err != nil {
		t.Errorf("Do() = %v, want the lock to be free", err)
	}
}

// A cart of two products: both locks or none, in the same order for everybody.
func ExampleAcquireAll() {
	locker := lock.NewMutex(nil)
	ctx := context.Background()
	cart, err := lock.AcquireAll(ctx, locker, "lock:{102}", "lock:{101}", "lock:{102}")
	fmt.Println("cart:", err)
	_, err = locktest.TryOnce(locker, "lock:{101}")
	fmt.Println("one of its products:", err)
	fmt.Println("released:", cart.Release(ctx))
	// Output:
	// cart: <nil>
	// one of its products: lock: busy
	// released: <nil>
}

// locker is a Locker made of a function.
type locker func(ctx context.Context, key string) (lock.Lease, error)

func (l locker) Acquire(ctx context.Context, key string) (lock.Lease, error) { return l(ctx, key) }

// scripted is a lease with given results, which records its release.
type scripted struct {
	ctx      context.Context
	key      string
	fence    uint64
	err      error
	released *[]string
}

func (s scripted) Context() context.Context { return s.ctx }
func (s scripted) Fence() uint64            { return s.fence }
func (s scripted) Release(context.Context) error {
	*s.released = append(*s.released, s.key)
	return s.err
}

func TestAcquireAllSortsAndDropsDuplicates(t *testing.T) {
	var got, released []string
	l := locker(func(ctx context.Context, key string) (lock.Lease, error) {
		got = append(got, key)
		return scripted{ctx: ctx, key: key, fence: uint64(len(got)) * 10, released: &released}, nil
	})
	keys := []string{"b", "c", "a", "b"}
	m, err := lock.AcquireAll(t.Context(), l, keys...)
	testkit.Must(t, err)
	if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("acquired %v, want %v", got, want)
	}
	if !slices.Equal(keys, []string{"b", "c", "a", "b"}) {
		t.Errorf("the caller's keys are now %v", keys)
	}
	if a, c, z, all := m.FenceOf("a"), m.FenceOf("c"), m.FenceOf("z"), m.Fence(); a != 10 || c != 30 || z != 0 ||
		all != 0 {
		t.Errorf("fences %d, %d, %d, %d, want 10, 30, 0, 0", a, c, z, all)
	}
	locktest.Release(t, m)
	if want := []string{"c", "b", "a"}; !slices.Equal(released, want) {
		t.Errorf("released %v, want %v", released, want)
	}
	if _, err := lock.AcquireAll(t.Context(), l); err == nil {
		t.Error("AcquireAll without keys succeeded")
	}
}

func TestAcquireAllIsAllOrNothing(t *testing.T) {
	l := lock.NewMutex(nil)
	held := locktest.Take(t, l, "b")
	m, err := lock.AcquireAll(lock.WithWait(t.Context(), 0), l, "c", "b", "a")
	if !errors.Is(err, lock.ErrBusy) || m != nil {
		t.Fatalf("AcquireAll with one key held = %v, want ErrBusy", err)
	}
	for _, key := range []string{"a", "c"} {
		if !locktest.Enters(t, l, key) {
			t.Errorf("%q was left locked", key)
		}
	}
	locktest.Release(t, held)
}

func TestMultiReleaseAttemptsAll(t *testing.T) {
	unknown := errors.New("unknown")
	errs := map[string]error{"a": lock.ErrLost, "c": unknown}
	var released []string
	l := locker(func(ctx context.Context, key string) (lock.Lease, error) {
		return scripted{ctx: ctx, key: key, err: errs[key], released: &released}, nil
	})
	m, err := lock.AcquireAll(t.Context(), l, "a", "b", "c")
	testkit.Must(t, err)
	if err := m.Release(t.Context()); !errors.Is(err, lock.ErrLost) || !errors.Is(err, unknown) {
		t.Errorf("Release = %v, want both errors", err)
	}
	if len(released) != 3 {
		t.Errorf("released %v: it stopped at the first error", released)
	}
}

// late is a context that has ended, but only Err shows it.
type late struct {
	context.Context
	ended *atomic.Bool
}

func (c late) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

// One of several leases may know by the clock that it has ended before its watch runs. Then the context of all of them
// knows it too.
func TestAcquireAllLooksAtItsLeases(t *testing.T) {
	var released []string
	var ended atomic.Bool
	l := locker(func(ctx context.Context, key string) (lock.Lease, error) {
		return scripted{ctx: late{ctx, &ended}, key: key, released: &released}, nil
	})
	m, err := lock.AcquireAll(t.Context(), l, "a", "b")
	testkit.Must(t, err)
	ctx := m.Context()
	testkit.Mustf(t, ctx.Err(), "Err()")
	ended.Store(true)
	if err := ctx.Err(); err == nil {
		t.Error("Err() = nil, although a lease has ended")
	}
	select {
	case <-ctx.Done():
	default:
		t.Error("Done() is open, although a lease has ended")
	}
	locktest.Release(t, m)
}

// The time for a lookup in the context of many leases is proportional to their number.
func TestAcquireAllOfManyKeys(t *testing.T) {
	t.Parallel()
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	l, ended := lock.NewMutex(nil), make(chan struct{})
	go func() {
		defer close(ended)
		m, err := lock.AcquireAll(t.Context(), l, keys...)
		if err != nil {
			t.Error(err)
			return
		}
		ctx := m.Context()
		if v, err := ctx.Value("missing"), ctx.Err(); v != nil || err != nil {
			t.Errorf("Value = %v, Err = %v, want neither", v, err)
		}
		select {
		case <-ctx.Done():
			t.Error("the context has ended")
		default:
		}
		testkit.Check(t, m.Release(t.Context()))
	}()
	select {
	case <-ended:
	case <-time.After(locktest.Soon):
		t.Fatal("AcquireAll has not ended")
	}
}
