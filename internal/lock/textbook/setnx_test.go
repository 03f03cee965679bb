package textbook_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/step"
)

// at returns a stream whose reader runs f at one point.
func at(t *testing.T, p step.Point, f func()) *step.Stream {
	var s step.Stream
	t.Cleanup(s.Subscribe(func(_ context.Context, e step.Event) {
		if e.Point == p {
			f()
		}
	}))
	return &s
}

func TestSetNXExpireOfHolderThatDiesInBetweenStaysForEver(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, m *miniredis.Miniredis) {
		died := make(chan struct{})
		go func() {
			defer close(died)
			_, err := textbook.NewSetNXExpire(c, locktest.TTL, at(t, step.Acquiring, runtime.Goexit)).Acquire(t.Context(), "k")
			t.Errorf("Acquire came back from the dead: %v", err)
		}()
		<-died
		if left := m.TTL("k"); left != 0 || !m.Exists("k") {
			t.Errorf("the key expires in %s: this exhibit no longer shows its flaw", left)
		}
		rival := textbook.NewSetNXExpire(c, locktest.TTL, nil)
		if _, err := rival.Acquire(lock.WithWait(t.Context(), 20*locktest.TTL), "k"); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("Acquire after twenty TTLs = %v, want ErrBusy", err)
		}
	})
}

// The holder is told of its end before its key expires; it outlives its TTL, a rival enters, and only then the holder releases.
func TestLateRelease(t *testing.T) {
	const blind, owned = "setnx-expire setnx-ttl", "setnx-owner lua spin"
	for _, names := range []string{blind, owned} {
		each(t, names, func(t *testing.T, _ one, l lock.Locker, _ *redis.Client, m *miniredis.Miniredis) {
			start := time.Now()
			late := locktest.Take(t, l, "k")
			locktest.WantLost(t, late, locktest.TTL)
			if lived := time.Since(start); lived < locktest.TTL*98/100 || !m.Exists("k") || locktest.Enters(t, l, "k") {
				t.Errorf("the lease ended after %s, want a moment before the TTL of %s, when the key is still there", lived, locktest.TTL)
			}
			time.Sleep(locktest.TTL)
			rival := locktest.Take(t, l, "k")
			err := late.Release(t.Context())
			if got := errors.Is(err, lock.ErrLost); got == (names == blind) {
				t.Errorf("late Release = %v; blind: %t", err, names == blind)
			}
			if got := locktest.Enters(t, l, "k"); got != (names == blind) {
				t.Errorf("a third one entered beside the rival (%v): %t, want %t", rival.Context().Err(), got, names == blind)
			}
		})
	}
}

// The key expires between the comparison and the DEL.
func TestSetNXOwnerDeletesTheRivalsKeyAfterComparing(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, _ *miniredis.Miniredis) {
		others := textbook.NewSetNXOwner(c, locktest.TTL, nil)
		var rival lock.Lease
		l := textbook.NewSetNXOwner(c, locktest.TTL, at(t, step.Releasing, func() {
			time.Sleep(locktest.TTL)
			rival = locktest.Take(t, others, "k")
		}))
		if err := locktest.Take(t, l, "k").Release(t.Context()); err != nil {
			t.Errorf("Release = %v: it noticed, this exhibit no longer shows its flaw", err)
		}
		if !locktest.Enters(t, others, "k") || rival.Context().Err() != nil {
			t.Error("nobody entered beside the rival: this exhibit no longer shows its flaw")
		}
	})
}
