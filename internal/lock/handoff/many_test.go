package handoff_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
)

// widest is a client hook that remembers the script with the most arguments, and how many scripts there were.
type widest struct {
	spy
	args atomic.Int64
}

func (w *widest) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	next = w.spy.ProcessHook(next)
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.args.Store(max(w.args.Load(), int64(len(cmd.Args()))))
		return next(ctx, cmd)
	}
}

func (w *widest) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	next = w.spy.ProcessPipelineHook(next)
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			w.args.Store(max(w.args.Load(), int64(len(cmd.Args()))))
		}
		return next(ctx, cmds)
	}
}

// waitForMany waits for n keys that another process holds, until the end of the test.
func waitForMany(t *testing.T, m *miniredis.Miniredis, l lock.Locker, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	for i := range n {
		key := fmt.Sprintf("k{%d}", i)
		if err := m.Set(key, "somebody else"); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if _, err := l.Acquire(ctx, key); err == nil {
				t.Errorf("%s: let in beside its holder", key)
			}
		})
	}
	synctest.Wait()
	for i := range n {
		if !m.Exists(handoff.KeysOf(fmt.Sprintf("k{%d}", i)).Queue) {
			t.Fatalf("nobody queues for key %d", i)
		}
	}
}

// Thousands of waited-for keys share their polls: one command every ten milliseconds, however many keys there are, and no command is so
// large that it occupies the server. That also holds when all waits began together, and after all keys lost their connection together.
func TestEnginePollsOfManyKeysAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 1500
		m, links := network(t, 1)
		c, counted := links[0].client(), &widest{}
		t.Cleanup(func() { _ = c.Close() })
		c.AddHook(counted)
		waitForMany(t, m, engine(t, c, handoff.Options{}).Handoff(), keys)
		for _, when := range []string{"all began together", "all lost their connection"} {
			time.Sleep(5 * time.Second)
			before := counted.scripts.Load()
			counted.args.Store(0)
			const seconds = 20
			time.Sleep(seconds * time.Second)
			if n := counted.scripts.Load() - before; n > 110*seconds || n < keys*seconds/2/100 {
				t.Errorf("%s: %d commands in %d s for %d keys, want a hundred a second at most, and every key polled each two seconds", when, n, seconds, keys)
			}
			if n := counted.args.Load(); n > 310 {
				t.Errorf("%s: a script with %d arguments, want 100 keys at most", when, n)
			}
			links[0].cut()
		}
	})
}

// The shared polls find everything that happens to one of thousands of keys, as a poll of its own would: no message comes here.
func TestEnginePollsOfManyKeysFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 300
		m, links := network(t, 1)
		l := links[0].process(t, handoff.Options{}).Handoff()
		events := map[string]func(key string){
			"freed":           func(key string) { m.Del(key) },
			"expires":         func(key string) { m.SetTTL(key, 500*time.Millisecond) },
			"freed, unqueued": func(key string) { m.Del(key); m.Del(handoff.KeysOf(key).Queue) },
		}
		waitForMany(t, m, l, keys)
		for _, what := range []string{"freed", "expires", "freed, unqueued"} {
			key := fmt.Sprintf("k{%s}", what)
			if err := m.Set(key, "somebody else"); err != nil {
				t.Fatal(err)
			}
			got, _ := waits(t.Context(), l, key)
			time.Sleep(10 * time.Second)
			events[what](key)
			start := time.Now()
			lease := <-got
			if took := time.Since(start); took > 2600*time.Millisecond {
				t.Errorf("%s: found after %s, want two seconds at most after it was free", what, took)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("%s: Release = %v", what, err)
			}
		}
	})
}
