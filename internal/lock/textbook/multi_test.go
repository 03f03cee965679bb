package textbook_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/lock/textbook"
)

// If any one of the keys is lost, the hold of all keys ends.
func TestMultiEndsWithAnyOfItsLeases(t *testing.T) {
	for _, lost := range []string{"a", "b", "c"} {
		t.Run(lost, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *redis.Client, server *miniredis.Miniredis) {
				multi, err := lock.AcquireAll(t.Context(), textbook.NewWatchdog(c, locktest.TTL, nil, nil), "a", "b", "c")
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * locktest.TTL)
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
				if keys := slices.DeleteFunc(server.Keys(), isLatch); len(keys) != 0 {
					t.Errorf("Release left %v behind", keys)
				}
			})
		})
	}
}

// isLatch reports whether a key only stores the answer to a release; it expires by itself.
func isLatch(key string) bool { return strings.HasPrefix(key, "redisson_unlock_latch:") }

// If a key is lost while AcquireAll waits for another one, the wait ends.
func TestAcquireAllDoesNotWaitOnALostKey(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, _ *miniredis.Miniredis) {
		locktest.Take(t, textbook.NewLua(c, 100*locktest.TTL, nil), "b")
		start := time.Now()
		_, err := lock.AcquireAll(t.Context(), textbook.NewLua(c, locktest.TTL, nil), "a", "b")
		if !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrBusy) {
			t.Errorf("AcquireAll = %v, want ErrBusy because of ErrLost", err)
		}
		if took := time.Since(start); took > locktest.TTL {
			t.Errorf("gave up after %s, the first key was lost after %s", took, locktest.TTL)
		}
	})
}

// An AcquireAll under its own context enters every one of its keys again.
func TestMultiCarriesAllItsLeases(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, _ *miniredis.Miniredis) {
		l := textbook.NewWatchdog(c, locktest.TTL, nil, nil)
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
