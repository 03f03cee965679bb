package lock_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
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
			for _, k := range kinds(s) {
				locktest.Run(t, k)
			}
		})
	}
}

func kinds(s *testenv.RedisServer) []locktest.Kind {
	var n atomic.Int64
	key := func() string { return fmt.Sprintf("%slock:{%d}", s.Prefix, n.Add(1)) }
	kind := func(name string, process redisProcess) locktest.Kind { return redisKind(s, name, key, process) }
	setnx := kind("setnx", func(_ *testing.T, c *redis.Client, _ time.Duration, st *step.Stream) lock.Locker {
		return lock.NewSetNX(c, st)
	})
	setnx.Late, setnx.NoLate = nil, neverEnds
	return []locktest.Kind{
		setnx,
		kind("lua", func(_ *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker {
			return lock.NewLua(c, ttl, st)
		}),
		kind("watchdog", func(t *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker {
			return lock.NewWatchdog(c, ttl, wakeups(t, c), st)
		}),
		kind("watchdog polling", func(_ *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker {
			return lock.NewWatchdog(c, ttl, nil, st)
		}),
		kind("watchdog with lease", func(t *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker {
			return lock.NewWatchdog(c, ttl, wakeups(t, c), st).WithLease(ttl)
		}),
	}
}

func wakeups(t *testing.T, c *redis.Client) *lock.Wakeups {
	t.Helper()
	w := lock.NewWakeups(c)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("Wakeups.Close: %v", err)
		}
	})
	return w
}
