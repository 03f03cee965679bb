package lock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
)

// locker is a Locker made of a function.
type locker func(ctx context.Context, key string) (lock.Lease, error)

func (l locker) Acquire(ctx context.Context, key string) (lock.Lease, error) { return l(ctx, key) }

// scripted is a lease that says what it is told to say, and writes its release down.
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
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("acquired %v, want %v", got, want)
	}
	if !slices.Equal(keys, []string{"b", "c", "a", "b"}) {
		t.Errorf("the caller's keys are now %v", keys)
	}
	if a, c, z, all := m.FenceOf("a"), m.FenceOf("c"), m.FenceOf("z"), m.Fence(); a != 10 || c != 30 || z != 0 || all != 0 {
		t.Errorf("fences %d, %d, %d, %d, want 10, 30, 0, 0", a, c, z, all)
	}
	if err := m.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"c", "b", "a"}; !slices.Equal(released, want) {
		t.Errorf("released %v, want %v", released, want)
	}
	if _, err := lock.AcquireAll(t.Context(), l); err == nil {
		t.Error("AcquireAll without keys succeeded")
	}
}

func TestAcquireAllIsAllOrNothing(t *testing.T) {
	l := lock.NewMutex(nil)
	held := take(t, l, "b")
	m, err := lock.AcquireAll(lock.WithWait(t.Context(), 0), l, "c", "b", "a")
	if !errors.Is(err, lock.ErrBusy) || m != nil {
		t.Fatalf("AcquireAll with one key held = %v, want ErrBusy", err)
	}
	for _, key := range []string{"a", "c"} {
		if !enters(t, l, key) {
			t.Errorf("%q was left locked", key)
		}
	}
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestMultiReleaseAttemptsAll(t *testing.T) {
	unknown := errors.New("unknown")
	errs := map[string]error{"a": lock.ErrLost, "c": unknown}
	var released []string
	l := locker(func(ctx context.Context, key string) (lock.Lease, error) {
		return scripted{ctx: ctx, key: key, err: errs[key], released: &released}, nil
	})
	m, err := lock.AcquireAll(t.Context(), l, "a", "b", "c")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Release(t.Context()); !errors.Is(err, lock.ErrLost) || !errors.Is(err, unknown) {
		t.Errorf("Release = %v, want both errors", err)
	}
	if len(released) != 3 {
		t.Errorf("released %v: it stopped at the first error", released)
	}
}

// Whichever of the keys is lost, the hold of all ends.
func TestMultiEndsWithAnyOfItsLeases(t *testing.T) {
	for _, lost := range []string{"a", "b", "c"} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, server, _ := bubble(t)
				multi, err := lock.AcquireAll(t.Context(), lock.NewWatchdog(c, ttl, nil, nil), "a", "b", "c")
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * ttl)
				if err := multi.Context().Err(); err != nil {
					t.Fatalf("ended while all were renewed: %v", err)
				}
				server.Del(lost)
				<-multi.Context().Done()
				if cause := context.Cause(multi.Context()); !errors.Is(cause, lock.ErrLost) {
					t.Errorf("cause = %v, want ErrLost", cause)
				}
				if err := multi.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
					t.Errorf("Release = %v, want ErrLost", err)
				}
				if keys := server.Keys(); len(keys) != 0 {
					t.Errorf("Release left %v behind", keys)
				}
			})
		})
	}
}

// A key that is lost while another one is waited for ends the wait.
func TestAcquireAllDoesNotWaitOnALostKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := bubble(t)
		take(t, lock.NewLua(c, 100*ttl, nil), "b")
		start := time.Now()
		_, err := lock.AcquireAll(t.Context(), lock.NewLua(c, ttl, nil), "a", "b")
		if !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrBusy) {
			t.Errorf("AcquireAll = %v, want ErrBusy because of ErrLost", err)
		}
		if took := time.Since(start); took > ttl {
			t.Errorf("gave up after %s, the first key was lost after %s", took, ttl)
		}
	})
}

// An AcquireAll under its own context enters every one of its keys again.
func TestMultiCarriesAllItsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := bubble(t)
		l := lock.NewWatchdog(c, ttl, nil, nil)
		outer, err := lock.AcquireAll(t.Context(), l, "a", "b")
		if err != nil {
			t.Fatal(err)
		}
		inner, err := lock.AcquireAll(lock.WithWait(outer.Context(), 0), l, "b", "a")
		if err != nil {
			t.Fatalf("re-entry = %v", err)
		}
		for _, m := range []*lock.Multi{inner, outer} {
			if err := m.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
		}
	})
}
