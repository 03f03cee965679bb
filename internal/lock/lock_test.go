package lock_test

import (
	"bytes"
	"flag"
	"fmt"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/step"
	"lastitem/internal/testenv"
)

func TestMain(m *testing.M) {
	// The parallel tests wait for sessions to end and time-outs to pass, not for the CPU. A -parallel of the caller wins.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(dialled{m}, testenv.IgnoreServers())
}

// dialled ends when the pools of go-redis have stopped dialling. A pool whose server cannot be reached tries once a second, in a
// goroutine that learns after its sleep that the pool was closed; goleak waits for half a second only. One that does not
// end is a leak, and is found.
type dialled struct{ *testing.M }

func (m dialled) Run() int {
	code := m.M.Run()
	stacks := make([]byte, 1<<20)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		n := runtime.Stack(stacks, true)
		if !bytes.Contains(stacks[:n], []byte("/internal/pool.(*ConnPool).tryDial(")) {
			break
		}
	}
	return code
}

func TestMutex(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	locktest.Run(t, locktest.Kind{
		Name: "mutex", Local: true, NoLate: "no network is in between",
		Process: func(_ *testing.T, s *step.Stream) lock.Locker { return lock.NewMutex(s) },
		Key:     func() string { return fmt.Sprint("k", n.Add(1)) },
	})
}

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
	eng := func(name string) redisProcess {
		return func(t *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker {
			return pick(engine(t, c, lock.EngineOptions{TTL: ttl, Steps: st}), name)
		}
	}
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
		kind("handoff", eng("handoff")),
		kind("fair", eng("fair")),
		kind("rw-write", eng("rw-write")),
	}
}

// redisProcess makes a locker on a client of its own.
type redisProcess func(t *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker

// redisKind is a kind of lock on s.
func redisKind(s *testenv.RedisServer, name string, key func() string, process redisProcess) locktest.Kind {
	const lateTTL = 600 * time.Millisecond
	return locktest.Kind{
		Name: name, Key: key,
		Process: func(t *testing.T, st *step.Stream) lock.Locker { return process(t, client(t, s), 30*time.Second, st) },
		Late: &locktest.Late{TTL: lateTTL, Process: func(t *testing.T, through func(string) string) lock.Locker {
			return process(t, client(t, &testenv.RedisServer{URL: redirected(t, s.URL, through)}), lateTTL, nil)
		}},
	}
}

// redirected is a URL with another host and port.
func redirected(t *testing.T, address string, through func(string) string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = through(u.Host)
	return u.String()
}

// neverEnds is why no grant of some kinds can come too late.
const neverEnds = "no lease of this kind ends by itself"

// client returns a connection pool of its own, as another process would have.
func client(t *testing.T, s *testenv.RedisServer) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	opt.MaxRetries, opt.ContextTimeoutEnabled = -1, true
	c := redis.NewClient(opt)
	t.Cleanup(func() { _ = c.Close() })
	return c
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
