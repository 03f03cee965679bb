package textbook_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/step"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// one is a lock on one Redis, with the commands that acquire and release it.
type one struct {
	process          locktest.RedisProcess
	acquire, release string
}

// on adapts the constructor of a lock with a TTL.
func on[L lock.Locker](construct func(redis.UniversalClient, time.Duration, *step.Stream) L) locktest.RedisProcess {
	return func(_ *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker {
		return construct(c, ttl, st)
	}
}

// forEver adapts the constructor of a lock without a TTL.
func forEver(construct func(redis.UniversalClient, *step.Stream) *textbook.SetNX) locktest.RedisProcess {
	return func(_ *testing.T, c *redis.Client, _ time.Duration, st *step.Stream) lock.Locker {
		return construct(c, st)
	}
}

func polling(c redis.UniversalClient, ttl time.Duration, st *step.Stream) *textbook.Watchdog {
	return textbook.NewWatchdog(c, ttl, nil, st)
}

func oneMaster(c redis.UniversalClient, ttl time.Duration, st *step.Stream) *textbook.Redlock {
	return textbook.NewRedlock(textbook.RedlockOptions{Nodes: []textbook.RedlockNode{{Client: c}}, TTL: ttl}, st)
}

var all = map[string]one{
	"setnx":            {forEver(textbook.NewSetNX), "set", "del"},
	"setnx-finally":    {forEver(textbook.NewSetNXFinally), "set", "del"},
	"setnx-expire":     {on(textbook.NewSetNXExpire), "set", "del"},
	"setnx-ttl":        {on(textbook.NewSetNXTTL), "set", "del"},
	"setnx-owner":      {on(textbook.NewSetNXOwner), "set", "del"},
	"lua":              {on(textbook.NewLua), "set", "evalsha"},
	"lua-fenced":       {on(textbook.NewLuaFenced), "evalsha", "evalsha"},
	"spin":             {on(textbook.NewSpin), "set", "evalsha"},
	"watchdog-polling": {on(polling), "evalsha", "evalsha"},
	"redlock":          {on(oneMaster), "set", "evalsha"},
	"watchdog": {process: func(t *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker {
		return textbook.NewWatchdog(c, ttl, wakeups(t, c), st)
	}},
	"watchdog-with-lease": {process: func(t *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker {
		return textbook.NewWatchdog(c, ttl, wakeups(t, c), st).WithLease(ttl)
	}},
	"multi": {process: func(_ *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker {
		return several{textbook.NewLua(c, ttl, st)}
	}},
}

// several is a Locker that calls AcquireAll with two keys.
type several struct{ lock.Locker }

func (s several) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	m, err := lock.AcquireAll(ctx, s.Locker, key+":b", key+":a")
	if err != nil {
		return nil, err
	}
	return m, nil
}

func wakeups(t *testing.T, c *redis.Client) *textbook.Wakeups {
	t.Helper()
	w := textbook.NewWakeups(c)
	t.Cleanup(func() {
		testkit.Is(t, w.Close(), nil, "Wakeups.Close")
	})
	return w
}

// bubble runs a test on a Redis where hours pass in milliseconds.
func bubble(t *testing.T, test func(t *testing.T, c *redis.Client, m *miniredis.Miniredis)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, m, _ := locktest.Bubble(t)
		test(t, c, m)
	})
}

// each is bubble for each of the named locks, whose scripts are loaded.
func each(t *testing.T, names string, test func(t *testing.T, o one, l lock.Locker, c *redis.Client,
	m *miniredis.Miniredis)) {
	t.Helper()
	for name := range strings.FieldsSeq(names) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *redis.Client, m *miniredis.Miniredis) {
				l := all[name].process(t, c, locktest.TTL, nil)
				locktest.Release(t, locktest.Take(t, l, "k"))
				test(t, all[name], l, c, m)
			})
		})
	}
}

func TestConformance(t *testing.T) {
	locktest.OnRedis(t, func(t *testing.T, s *testenv.RedisServer) {
		for name, o := range all {
			k := locktest.RedisKind(s, name, o.process)
			k.LeaseTime = !strings.HasPrefix(name, "setnx")
			switch name {
			case "redlock":
				continue // TestRedlockConformance
			case "setnx", "setnx-finally":
				k.Late, k.NoLate = nil, locktest.NeverEnds
			case "multi":
				k.Except = []string{"steps"} // it reports the steps of two locks
			}
			if name == "setnx-finally" {
				k.Except = []string{"excludes", "busy at once", "waits no longer than allowed", "cancelled wait", "release wakes",
					"release repeated"}
			}
			locktest.Run(t, k)
		}
	})
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
		testkit.Until(t, "the nodes grant", func() bool {
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
	k := locktest.Kind{
		Name: "redlock", LeaseTime: guard == 0, // the guard is shorter than the lease time of the test
		Key: locktest.KeysUnder(t.Name()),
		Process: func(t *testing.T, st *step.Stream) lock.Locker {
			all, _ := masters(t, nodes)
			// Other packages are tested at the same time: a node that answers slowly has not failed.
			return textbook.NewRedlock(textbook.RedlockOptions{Nodes: all, TTL: 30 * time.Second, NodeTimeout: 10 * time.Second,
				RestartGuard: guard}, st)
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
