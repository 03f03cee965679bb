package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
)

// inBubble runs a subtest in a bubble.
func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// both runs a test in a bubble for each of the engine's locks.
func both(t *testing.T, f func(t *testing.T, name string)) {
	for _, name := range []string{"handoff", "fair"} {
		inBubble(t, name, func(t *testing.T) { f(t, name) })
	}
}

// pairs are two locks of which the second must wait for the first.
var pairs = [][2]string{{"handoff", "handoff"}, {"fair", "fair"}, {"rw-write", "rw-write"}, {"rw-write", "rw-read"},
	{"rw-read", "rw-write"}}

// mustHappenWithin bounds how long a test waits for what must happen, so that it fails and does not hang: in a bubble
// the clock never stops while a lease is renewed.
const mustHappenWithin = 10 * time.Minute

// waits acquires in the background. It panics if there is no outcome.
func waits(ctx context.Context, l lock.Locker, key string) (got chan lock.Lease, failed chan error) {
	got, failed = make(chan lock.Lease, 1), make(chan error, 1)
	go func() {
		switch lease, err := l.Acquire(lock.WithWait(ctx, mustHappenWithin), key); {
		case err == nil:
			got <- lease
		case errors.Is(err, lock.ErrBusy) && ctx.Err() == nil:
			panic(fmt.Sprintf("nobody let a waiter in within %s", mustHappenWithin))
		default:
			failed <- err
		}
	}()
	synctest.Wait()
	return got, failed
}

// A renewal that is lost is sent again in time, also of a lock that was granted by a message and must be renewed
// sooner; also if the client itself would wait for long.
func TestEngineLostRenewalIsSentAgain(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 2)
		held := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{1}")
		c := links[1].client()
		c.Options().ReadTimeout = time.Minute
		got, _ := waits(t.Context(), pick(links[1].processOn(t, c, handoff.Options{}), name), "k{1}")
		_ = held.Release(t.Context())
		lease := <-got
		links[1].keep.Store(true)
		time.Sleep(1200 * time.Millisecond) // past the first renewal
		links[1].keep.Store(false)
		time.Sleep(locktest.TTL)
		testkit.Is(t, context.Cause(lease.Context()), nil, "the lease ended")
		released(t, lease)
	})
}

// A lease that is about to end by its MaxHold does not hurry the renewal of others, which would fail where the server
// is not near.
func TestEngineMaxHoldSpoilsNoRenewal(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 2)
		held := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{2}")
		var failed metric
		o := handoff.Options{MaxHold: 4 * time.Second, Metrics: handoff.Metrics{RenewFailed: &failed}}
		l := pick(links[1].process(t, o), name)
		first := locktest.Obtain(t, l, "k{1}")
		got, _ := waits(t.Context(), l, "k{2}")
		links[1].slow.Store(int64(100 * time.Millisecond))
		time.Sleep(2900 * time.Millisecond) // so that the two are renewed together, a moment before the first one ends
		_ = held.Release(t.Context())
		lease := <-got
		time.Sleep(3 * time.Second) // past the grant timeout
		testkit.Is(t, context.Cause(lease.Context()), nil, "the lease ended")
		testkit.Is(t, failed.value(), 0, "renewals that failed")
		_ = first.Release(t.Context())
		_ = lease.Release(t.Context())
	})
}

// Five hundred locks, taken over two seconds, share their renewals: a command a second at a TTL of 30 s, which is 30
// for each TTL, whatever it is. A lock that is held has no goroutine.
func TestEngineRenewalsAreShared(t *testing.T) {
	for name, key := range map[string]string{"handoff": "%d", "rw-read": "readers of one key%.0d"} {
		inBubble(t, name, func(t *testing.T) {
			const locks, apart = 500, 4 * time.Millisecond
			_, links := network(t, 1)
			c, counted := links[0].client(), &spy{}
			l := pick(links[0].processOn(t, c, handoff.Options{}), name)
			locktest.Warm(t, l, "first")
			leases, goroutines := make([]lock.Lease, locks), runtime.NumGoroutine()
			for i := range leases {
				leases[i] = locktest.Obtain(t, l, fmt.Sprintf(key, i))
				time.Sleep(apart)
			}
			if n := runtime.NumGoroutine(); n > goroutines+20 {
				t.Errorf("%d goroutines with %d locks held, %d with none", n, locks, goroutines)
			}
			c.AddHook(counted)
			time.Sleep(locktest.TTL * 5 / 2)
			// The first renewal may find a server that does not know the script, and send each of its commands twice.
			if got, least, most := counted.scripts.Load(), int64(2*locks/100), int64(30*5/2+locks/100); got < least ||
				got > most {
				t.Errorf("%d renewal commands for %d locks in 2.5 TTL, want %d to %d", got, locks, least, most)
			}
			for _, lease := range leases {
				released(t, lease)
			}
		})
	}
}

func TestEngineMaxHold(t *testing.T) {
	scenes(t, 1, handoff.Options{MaxHold: time.Minute}, func(t *testing.T, s *scene) {
		start := time.Now()
		<-s.held.Context().Done()
		if held := time.Since(start); held > time.Minute+time.Second || held < time.Minute {
			t.Errorf("held for %s, want %s", held, time.Minute)
		}
		locktest.Obtain(t, s.ls[0], "k{1}")
		within(t, start, time.Minute+locktest.TTL, "the next one enters")
	})
}

// Every key that a process waits for is polled each two seconds, by itself, however many of its callers wait for it.
// The polls spread out, also when all waits began together, and after all keys lost their connection together.
func TestEnginePollsOfManyKeysSpreadOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 100
		m, links := network(t, 1)
		c, counted := links[0].client(), &spy{}
		t.Cleanup(func() { _ = c.Close() })
		c.AddHook(counted)
		l := engine(t, c, handoff.Options{}).Handoff()
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		t.Cleanup(func() {
			cancel()
			waiting.Wait()
		})
		for i := range keys {
			key := fmt.Sprintf("many{%d}", i)
			testkit.Must(t, m.Set(key, "somebody else"))
			for range 2 {
				waiting.Go(func() {
					if _, err := l.Acquire(ctx, key); err == nil {
						t.Errorf("%s: let in beside its holder", key)
					}
				})
			}
		}
		synctest.Wait()
		for _, when := range []string{"all began together", "all lost their connection"} {
			time.Sleep(2 * time.Minute) // each poll adds a random part of an eighth to where its key stands
			polls := make([]int64, 80)  // in 50 ms each, 4 s in all
			began := counted.scripts.Load()
			for i := range polls {
				before := counted.scripts.Load()
				time.Sleep(50 * time.Millisecond)
				polls[i] = counted.scripts.Load() - before
			}
			sum := counted.scripts.Load() - began
			if most := slices.Max(polls); sum < 2*keys || sum > 5*keys/2 || most > 15 {
				t.Errorf("%s: %d polls of %d keys in 4 s, and %d in one 50 ms, want one for each key in 1.75 to 2 s, spread out",
					when, sum, keys, most)
			}
			links[0].cut()
		}
	})
}

// A server loses its memory and all connections. A holder whose process is subscribed, or sends anything afterwards,
// learns of it within a second, however long its TTL is (invariant 2).
func TestEngineReconnectRenewsHolds(t *testing.T) {
	for _, name := range allLocks {
		for how, after := range map[string]func(t *testing.T, l, other lock.Locker) (noticed func()){
			"listens": func(t *testing.T, l, other lock.Locker) func() {
				subscribe(t, l, other)
				return func() {}
			},
			"sends": func(t *testing.T, l, _ lock.Locker) func() {
				locktest.Warm(t, l, "k{0}") // over a connection that will be lost
				return func() {
					synctest.Wait()
					released(t, locktest.Obtain(t, l, "k{0}"))
				}
			},
		} {
			inBubble(t, name+"/"+how, func(t *testing.T) {
				m, links := network(t, 2)
				o := handoff.Options{TTL: 10 * time.Minute}
				l, other := pick(links[0].process(t, o), name), pick(links[1].process(t, o), "rw-write")
				notice := after(t, l, other)
				var held []lock.Lease
				for i := range 250 {
					held = append(held, locktest.Obtain(t, l, fmt.Sprintf("k{%d}", 1+i)))
				}
				m.FlushAll()
				links[0].cut()
				rival := locktest.Obtain(t, other, "k{1}")
				start := time.Now()
				notice()
				for _, lease := range held {
					locktest.WantLost(t, lease, 0)
				}
				within(t, start, time.Second, "the last holder learns of its loss")
				released(t, rival)
			})
		}
	}
}
