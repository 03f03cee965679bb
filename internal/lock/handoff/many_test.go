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
	"lastitem/internal/lock/locktest"
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

// waitForMany waits for n keys that another process holds, until the end of the test. The function that it returns ends the wait for one.
func waitForMany(t *testing.T, m *miniredis.Miniredis, l lock.Locker, n int) (giveUp []func()) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		key := fmt.Sprintf("many{%d}", i)
		if err := m.Set(key, "somebody else"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		giveUp = append(giveUp, cancel)
		wg.Go(func() {
			if _, err := l.Acquire(ctx, key); err == nil {
				t.Errorf("%s: let in beside its holder", key)
			}
		})
	}
	synctest.Wait()
	for i := range n {
		if !m.Exists(handoff.KeysOf(fmt.Sprintf("many{%d}", i)).Queue) {
			t.Fatalf("nobody queues for key %d", i)
		}
	}
	t.Cleanup(func() {
		for _, cancel := range giveUp {
			cancel()
		}
		wg.Wait()
	})
	return giveUp
}

// Thousands of waited-for keys share their polls: one command every ten milliseconds at most, however many keys there are, and no command
// is so large that it occupies the server. That also holds when all waits began together, and after all keys lost their connection together.
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
			if n := counted.scripts.Load() - before; n > 110*seconds || n < keys*seconds/2/250 {
				t.Errorf("%s: %d commands in %d s for %d keys, want a hundred a second at most, and every key polled each two seconds", when, n, seconds, keys)
			}
			if n := counted.args.Load(); n > 400 {
				t.Errorf("%s: a script with %d arguments, want 250 locks and 63 queues and tokens at most", when, n)
			}
			links[0].cut()
		}
	})
}

// The keys that are left when most waiters have given up share their polls again.
func TestEnginePollsOfManyKeysAreSharedByThoseLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, left = 1500, 150
		m, links := network(t, 1)
		c, counted := links[0].client(), &spy{}
		t.Cleanup(func() { _ = c.Close() })
		c.AddHook(counted)
		giveUp := waitForMany(t, m, engine(t, c, handoff.Options{}).Handoff(), keys)
		for i, cancel := range giveUp {
			if i%(keys/left) != 0 {
				cancel()
			}
		}
		time.Sleep(10 * time.Second)
		before := counted.scripts.Load()
		const seconds = 20
		time.Sleep(seconds * time.Second)
		if n := counted.scripts.Load() - before; n > seconds || n < seconds/2 {
			t.Errorf("%d commands in %d s for %d keys, want one for each poll", n, seconds, left)
		}
	})
}

// Keys of which this process holds the lock and waits for it too share their polls.
func TestEnginePollsOfManyOwnKeysAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 100
		_, links := network(t, 1)
		c, counted := links[0].client(), &spy{}
		t.Cleanup(func() { _ = c.Close() })
		c.AddHook(counted)
		l := engine(t, c, handoff.Options{}).Fair()
		ctx, cancel := context.WithCancel(t.Context())
		for i := range keys {
			key := fmt.Sprintf("many{%d}", i)
			held := locktest.Obtain(t, l, key)
			_, failed := waits(ctx, l, key)
			t.Cleanup(func() { <-failed; _ = held.Release(context.Background()) })
		}
		t.Cleanup(cancel)
		time.Sleep(10 * time.Second)
		before := counted.scripts.Load()
		const seconds = 20
		time.Sleep(seconds * time.Second)
		if n := counted.scripts.Load() - before; n > 2*keys {
			t.Errorf("%d commands in %d s for %d keys, want one for each poll and a few renewals", n, seconds, keys)
		}
	})
}

// A waiter that is no longer in its queue, although its lock is held, is queued again by the shared polls: within four of them; and with the
// first, if its process has not been subscribed for a while.
func TestEnginePollsOfManyKeysQueueAgain(t *testing.T) {
	const keys = 300
	for name, test := range map[string]struct {
		cut         bool
		first, last int // the keys
		within      time.Duration
	}{
		"queue deleted": {false, 200, 200, 8500 * time.Millisecond}, // one, because the process subscribes again when it has found one
		"not heard":     {true, 0, keys - 1, 2500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, links := network(t, 1)
				waitForMany(t, m, links[0].process(t, handoff.Options{}).Handoff(), keys)
				time.Sleep(10 * time.Second)
				if test.cut {
					links[0].down.Store(true)
					links[0].cut()
					time.Sleep(time.Second)
				}
				for i := test.first; i <= test.last; i++ {
					m.Del(handoff.KeysOf(fmt.Sprintf("many{%d}", i)).Queue)
				}
				links[0].heal()
				time.Sleep(test.within)
				for i := test.first; i <= test.last; i++ {
					if !m.Exists(handoff.KeysOf(fmt.Sprintf("many{%d}", i)).Queue) {
						t.Fatalf("the waiter of key %d is in no queue after %s", i, test.within)
					}
				}
			})
		})
	}
}

// A lock that is not renewed is found free soon after its end if a shared poll has seen that end come.
func TestEnginePollsOfManyKeysFindTheEndOfATTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, links := network(t, 1)
		l := links[0].process(t, handoff.Options{}).Handoff()
		waitForMany(t, m, l, 300)
		for _, ttl := range []time.Duration{2400 * time.Millisecond, 2900 * time.Millisecond, 3400 * time.Millisecond, 3900 * time.Millisecond} {
			time.Sleep(10 * time.Second)
			key := fmt.Sprintf("k{%s}", ttl)
			if err := m.Set(key, "somebody else"); err != nil {
				t.Fatal(err)
			}
			m.SetTTL(key, ttl)
			start := time.Now()
			got, _ := waits(t.Context(), l, key)
			lease := <-got
			if took := time.Since(start); took < ttl || took > ttl+500*time.Millisecond {
				t.Errorf("a lock with a TTL of %s was acquired after %s", ttl, took)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// A grant whose message is lost is found by the shared polls before it ends.
func TestEnginePollsOfManyKeysFindLostMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 300
		m, links := network(t, 2)
		l, other := links[0].process(t, handoff.Options{}).Handoff(), links[1].process(t, handoff.Options{}).Handoff()
		waitForMany(t, m, l, keys)
		held := locktest.Obtain(t, other, "k")
		got, _ := waits(t.Context(), l, "k")
		time.Sleep(10 * time.Second)
		links[0].dropMessages()
		start := time.Now()
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		token, _ := m.Get("k")
		lease := <-got
		if took := time.Since(start); took > 2100*time.Millisecond {
			t.Errorf("found after %s, want two seconds at most", took)
		}
		if now, _ := m.Get("k"); now != token {
			t.Errorf("granted again as %q, want the grant of the release, %q", now, token)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
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
