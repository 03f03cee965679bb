package handoff_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/step"
	"lastitem/internal/testenv"
)

func TestEngineConformance(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]func(testing.TB) *testenv.RedisServer{
		"redis": testenv.Redis, "miniredis": testenv.Miniredis,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			var n atomic.Int64
			key := func() string { return fmt.Sprintf("%slock:{%d}", s.Prefix, n.Add(1)) }
			for _, name := range []string{"handoff", "fair", "rw-write"} {
				locktest.Run(t, locktest.RedisKind(s, name, key, func(t *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker {
					return pick(engine(t, c, patient(handoff.Options{TTL: ttl, Steps: st})), name)
				}))
			}
		})
	}
}
