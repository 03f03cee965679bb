package textbook_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/step"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// several is a Locker that calls AcquireAll with two keys.
type several struct{ lock.Locker }

func (s several) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	m, err := lock.AcquireAll(ctx, s.Locker, key+":b", key+":a")
	if err != nil {
		return nil, err
	}
	return m, nil
}

func textbookKinds(s *testenv.RedisServer) []locktest.Kind {
	var n atomic.Int64
	kind := func(name string, process func(redisClient, time.Duration, *step.Stream) lock.Locker, except ...string) locktest.Kind {
		key := func() string { return fmt.Sprintf("%stextbook:{%d}", s.Prefix, n.Add(1)) }
		k := locktest.RedisKind(s, name, key, func(_ *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker {
			return process(c, ttl, st)
		})
		k.Except = except
		return k
	}
	finally := kind("setnx-finally", func(c redisClient, _ time.Duration, st *step.Stream) lock.Locker {
		return textbook.NewSetNXFinally(c, st)
	},
		"excludes", "busy at once", "waits no longer than allowed", "cancelled wait", "release wakes", "release repeated")
	finally.Late, finally.NoLate = nil, locktest.NeverEnds
	all := []locktest.Kind{
		kind("setnx-expire", func(c redisClient, d time.Duration, st *step.Stream) lock.Locker {
			return textbook.NewSetNXExpire(c, d, st)
		}),
		kind("setnx-ttl", func(c redisClient, d time.Duration, st *step.Stream) lock.Locker {
			return textbook.NewSetNXTTL(c, d, st)
		}),
		kind("setnx-owner", func(c redisClient, d time.Duration, st *step.Stream) lock.Locker {
			return textbook.NewSetNXOwner(c, d, st)
		}),
		finally,
		kind("spin", func(c redisClient, d time.Duration, st *step.Stream) lock.Locker { return textbook.NewSpin(c, d, st) }),
		kind("lua-fenced", func(c redisClient, d time.Duration, st *step.Stream) lock.Locker {
			return textbook.NewLuaFenced(c, d, st)
		}),
		kind("multi", func(c redisClient, d time.Duration, st *step.Stream) lock.Locker {
			return several{textbook.NewLua(c, d, st)}
		},
			"steps"), // it reports the steps of two locks
	}
	for i := range all {
		all[i].LeaseTime = !strings.HasPrefix(all[i].Name, "setnx")
	}
	return all
}

func TestRedlockConformance(t *testing.T) { // not parallel: a node that is slower than its time-out has failed
	t.Run("all up", func(t *testing.T) { redlockConformance(t, testenv.RedisNodes(t, 5), 0) })
}

func TestRedlockConformanceOfFewer(t *testing.T) { // not parallel, see above
	testenv.Slow(t, "the suite of Redlock twice more")
	nodes := testenv.RedisNodes(t, 5)
	t.Run("guarded", func(t *testing.T) {
		const guard = 100 * time.Millisecond // the nodes are old enough soon
		everybody, _ := seeing(t, nodes, guard, 0, 1, 2, 3, 4)
		wait.Until(t, "the nodes grant", func() bool {
			_, err := everybody.Acquire(t.Context(), "warm")
			return err == nil
		})
		redlockConformance(t, nodes, guard)
	})
	t.Run("a minority down", func(t *testing.T) {
		nodes[0].Kill()
		nodes[4].Kill()
		redlockConformance(t, nodes, 0)
	})
}

func redlockConformance(t *testing.T, nodes []*testenv.RedisNode, guard time.Duration) {
	var n atomic.Int64
	k := locktest.Kind{
		Name: "redlock", LeaseTime: guard == 0, // the guard is shorter than the lease time of the test
		Key: func() string { return fmt.Sprint(t.Name(), n.Add(1)) },
		Process: func(t *testing.T, st *step.Stream) lock.Locker {
			all, _ := masters(t, nodes)
			// Other packages are tested at the same time: a node that answers slowly has not failed.
			return textbook.NewRedlock(textbook.RedlockOptions{Nodes: all, TTL: 30 * time.Second, NodeTimeout: 10 * time.Second, RestartGuard: guard}, st)
		},
		NoLate: "late grants are tested with all nodes up",
	}
	if strings.HasSuffix(t.Name(), "/all_up") {
		const ttl = 600 * time.Millisecond
		k.Late = &locktest.Late{TTL: ttl, Process: func(t *testing.T, through func(string) string) lock.Locker {
			far := make([]*testenv.RedisNode, len(nodes))
			for i, n := range nodes {
				far[i] = &testenv.RedisNode{URL: locktest.Redirected(t, n.URL, through)}
			}
			all, _ := masters(t, far)
			// The node time-out is long: with the usual one the acquire would fail before it could be too late.
			return textbook.NewRedlock(textbook.RedlockOptions{Nodes: all, TTL: ttl, NodeTimeout: 2 * time.Second}, nil)
		}}
	}
	locktest.Run(t, k)
}
