package textbook_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/lock/textbook"
)

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
