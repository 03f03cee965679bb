package textbook_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/lease"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/lock/textbook"
)

func TestLuaFencedTokensRise(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, m *miniredis.Miniredis) {
		l := textbook.NewLuaFenced(c, locktest.TTL, nil)
		first := locktest.Take(t, l, "k{1}")
		if _, err := l.Acquire(lock.WithWait(t.Context(), 0), "k{1}"); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("Acquire of a held lock = %v, want ErrBusy", err)
		}
		time.Sleep(locktest.TTL)
		second := locktest.Take(t, l, "k{1}")
		if first.Fence() != 1 || second.Fence() != 2 {
			t.Errorf("fences %d and %d, want 1 and 2: a refused try takes none", first.Fence(), second.Fence())
		}
		if err := first.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("late Release = %v, want ErrLost", err)
		}
		if err := second.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		if counter := lease.BesideKey("k{1}", "fence"); !m.Exists(counter) || m.TTL(counter) != 0 {
			t.Errorf("the counter %s expires in %s, want that it stays", counter, m.TTL(counter))
		}
	})
}

func TestLuaHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, cut := locktest.Bubble(t)
		l := textbook.NewLua(c, locktest.TTL, nil)
		lease := locktest.Take(t, l, "k")
		holds := func(want bool) {
			t.Helper()
			if got, err := l.Holds(t.Context(), lease); err != nil || got != want {
				t.Errorf("Holds() = %t, %v, want %t", got, err, want)
			}
		}
		holds(true)
		time.Sleep(locktest.TTL)
		holds(false)
		rival := locktest.Take(t, l, "k")
		holds(false)
		if got, err := l.Holds(t.Context(), rival); err != nil || !got {
			t.Errorf("Holds() of the rival = %t, %v, want true", got, err)
		}
		cut()
		if _, err := l.Holds(context.Background(), rival); !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("Holds() without the server = %v, want ErrUnavailable", err)
		}
	})
}

func TestSpinBacksOff(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, _ *miniredis.Miniredis) {
		locktest.Take(t, textbook.NewSpin(c, locktest.TTL, nil), "k")
		var tries []time.Time
		c.AddHook(locktest.SendHook{Name: "set", Send: func(_ context.Context, send func() error) error {
			tries = append(tries, time.Now())
			return send()
		}})
		const patience = 3 * time.Second
		start := time.Now()
		if _, err := textbook.NewSpin(c, locktest.TTL, nil).Acquire(lock.WithWait(t.Context(), patience), "k"); !errors.Is(err, lock.ErrBusy) {
			t.Fatalf("Acquire = %v, want ErrBusy", err)
		}
		if took := time.Since(start); took != patience {
			t.Errorf("gave up after %s, was to wait %s", took, patience)
		}
		want := time.Millisecond
		for i, try := range tries[1:] {
			if gap := try.Sub(tries[i]); gap < want/2 || gap > want {
				t.Errorf("sleep %d was %s, want %s to %s", i+1, gap, want/2, want)
			}
			want = min(2*want, 128*time.Millisecond)
		}
		if n := len(tries); n < 24 || n > 60 {
			t.Errorf("%d tries in %s", n, patience)
		}
	})
}
