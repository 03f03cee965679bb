package handoff_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/step"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

func TestEngineConformance(t *testing.T) {
	locktest.OnRedis(t, func(t *testing.T, s *testenv.RedisServer) {
		for _, name := range []string{"handoff", "fair", "rw-write"} {
			locktest.Run(t, locktest.RedisKind(s, name, func(t *testing.T, c *redis.Client, ttl time.Duration,
				st *step.Stream) lock.Locker {
				return pick(engine(t, c, patient(handoff.Options{TTL: ttl, Steps: st})), name)
			}))
		}
	})
}

// Nothing grows with the number of keys that were ever locked: no memory and no goroutine here, and in Redis nothing
// without an expiry (invariant 10).
func TestEngineLeavesNothingBehind(t *testing.T) {
	s := testenv.Redis(t)
	e := onServer(t, s, handoff.Options{})
	round := func(from, to int) {
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				l := pick(e, []string{"handoff", "fair"}[g%2])
				for i := from; i < to; i++ {
					key := fmt.Sprintf("%s{%d}", s.Prefix, i)
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					lease, err := l.Acquire(lock.WithWait(ctx, time.Duration(g/2)*10*time.Second), key)
					if err == nil {
						err = lease.Release(ctx)
					}
					if cancel(); err != nil && g > 1 {
						t.Errorf("Acquire and Release: %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	const keys = 1000
	round(0, keys)
	goroutines := runtime.NumGoroutine()
	// A round may open connections, whose buffers stay. What grows with the keys grows in every round.
	grown := int64(math.MaxInt64)
	for n := 1; n <= 5 && grown > keys*100; n++ {
		heap := heapInUse()
		round(n*keys, (n+1)*keys)
		grown = min(grown, int64(heapInUse())-int64(heap))
	}
	testkit.Until(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= goroutines+4 })
	if grown > keys*100 {
		t.Errorf("%d bytes more for each key that was locked once", grown/keys)
	}
	wantExpiries(t, s)
}

// wantExpiries fails if a key of the test has no expiry.
func wantExpiries(t *testing.T, s *testenv.RedisServer) {
	t.Helper()
	ctx := t.Context()
	all, keys := s.Client.Scan(ctx, 0, s.Prefix+"*", 5000).Iterator(), []string(nil)
	for all.Next(ctx) {
		keys = append(keys, all.Val())
	}
	if len(keys) == 0 {
		t.Error("no key at all was found")
	}
	ttls := make([]*redis.DurationCmd, len(keys))
	_, _ = s.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			ttls[i] = p.PTTL(ctx, key)
		}
		return nil
	})
	for i, key := range keys {
		if ttl := ttls[i].Val(); ttl == -1 || ttl > time.Hour {
			t.Errorf("%s expires in %s", key, ttl)
		}
	}
}

// The work of the server for a hand-off does not depend on how many wait (invariant 9).
func TestEngineHandoffCostsTheSameInALongQueue(t *testing.T) {
	cost := map[int]int{}
	for _, waiting := range []int{10, 500} {
		inBubble(t, strconv.Itoa(waiting), func(t *testing.T) {
			s := newScene(t, handoff.Options{}, "fair", "fair") // an own waiter of the releaser's would be another case
			var got []chan lock.Lease
			for range waiting {
				got = append(got, s.waits(1))
			}
			before := s.m.CommandCount()
			released(t, s.held)
			synctest.Wait()
			cost[waiting] = s.m.CommandCount() - before
			for _, next := range got {
				released(t, <-next)
			}
		})
	}
	t.Logf("commands for a hand-off, those inside of scripts too: %v", cost)
	testkit.Is(t, cost[500], cost[10], "commands for a hand-off with 500 waiters")
}

// heapInUse is what remains reachable.
func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
