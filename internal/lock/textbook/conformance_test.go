package textbook_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/step"
	"lastitem/internal/testenv"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]func(testing.TB) *testenv.RedisServer{
		"redis": testenv.Redis, "miniredis": testenv.Miniredis,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			for _, k := range append(kinds(s), textbookKinds(s)...) {
				locktest.Run(t, k)
			}
		})
	}
}

func kinds(s *testenv.RedisServer) []locktest.Kind {
	var n atomic.Int64
	key := func() string { return fmt.Sprintf("%slock:{%d}", s.Prefix, n.Add(1)) }
	kind := func(name string, process locktest.RedisProcess) locktest.Kind {
		return locktest.RedisKind(s, name, key, process)
	}
	setnx := kind("setnx", func(_ *testing.T, c *redis.Client, _ time.Duration, st *step.Stream) lock.Locker {
		return textbook.NewSetNX(c, st)
	})
	setnx.Late, setnx.NoLate, setnx.LeaseTime = nil, locktest.NeverEnds, false
	return []locktest.Kind{
		setnx,
		kind("lua", func(_ *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker {
			return textbook.NewLua(c, ttl, st)
		}),
		kind("watchdog", func(t *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker {
			return textbook.NewWatchdog(c, ttl, wakeups(t, c), st)
		}),
		kind("watchdog polling", func(_ *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker {
			return textbook.NewWatchdog(c, ttl, nil, st)
		}),
		kind("watchdog with lease", func(t *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker {
			return textbook.NewWatchdog(c, ttl, wakeups(t, c), st).WithLease(ttl)
		}),
	}
}

func wakeups(t *testing.T, c *redis.Client) *textbook.Wakeups {
	t.Helper()
	w := textbook.NewWakeups(c)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("Wakeups.Close: %v", err)
		}
	})
	return w
}
