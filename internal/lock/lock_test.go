package lock_test

import (
	"bytes"
	"flag"
	"fmt"
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
		Name: "mutex", Local: true,
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
	const ttl = 30 * time.Second
	var n atomic.Int64
	key := func() string { return fmt.Sprintf("%slock:{%d}", s.Prefix, n.Add(1)) }
	return []locktest.Kind{
		{Name: "setnx", Key: key, Process: func(t *testing.T, st *step.Stream) lock.Locker {
			return lock.NewSetNX(client(t, s), st)
		}},
		{Name: "lua", Key: key, Process: func(t *testing.T, st *step.Stream) lock.Locker {
			return lock.NewLua(client(t, s), ttl, st)
		}},
		{Name: "watchdog", Key: key, Process: func(t *testing.T, st *step.Stream) lock.Locker {
			c := client(t, s)
			return lock.NewWatchdog(c, ttl, wakeups(t, c), st)
		}},
		{Name: "watchdog polling", Key: key, Process: func(t *testing.T, st *step.Stream) lock.Locker {
			return lock.NewWatchdog(client(t, s), ttl, nil, st)
		}},
		{Name: "watchdog with lease", Key: key, Process: func(t *testing.T, st *step.Stream) lock.Locker {
			c := client(t, s)
			return lock.NewWatchdog(c, ttl, wakeups(t, c), st).WithLease(ttl)
		}},
		{Name: "handoff", Key: key, Process: func(t *testing.T, st *step.Stream) lock.Locker {
			return engine(t, client(t, s), lock.EngineOptions{Steps: st}).Handoff()
		}},
		{Name: "fair", Key: key, Process: func(t *testing.T, st *step.Stream) lock.Locker {
			return engine(t, client(t, s), lock.EngineOptions{Steps: st}).Fair()
		}},
		{Name: "rw-write", Key: key, Process: func(t *testing.T, st *step.Stream) lock.Locker {
			return engine(t, client(t, s), lock.EngineOptions{Steps: st}).ReadWrite().Write()
		}},
	}
}

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
