package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// cart is several keys with one hash tag, in no order.
func cart(prefix string) []string {
	return []string{prefix + "c{1}", prefix + "a{1}", prefix + "b{1}", prefix + "a{1}"}
}

func acquireAll(t *testing.T, e *handoff.Engine, keys ...string) *lock.Multi {
	t.Helper()
	m, err := e.AcquireAll(lock.WithWait(t.Context(), locktest.Soon), keys...)
	if err != nil {
		t.Fatalf("AcquireAll: %v", err)
	}
	return m
}

// Free keys of one slot cost two commands, however many they are, on one server and in a cluster.
func TestAcquireAllCostsTwoCommands(t *testing.T) {
	onServers(t, func(t *testing.T, s *testenv.RedisServer) {
		c := locktest.RedisClient(t, s)
		twoCommands(t, c, cart(s.Prefix))
		twoCommands(t, c, []string{s.Prefix + "x", s.Prefix + "{y}", s.Prefix + "z{z}"}) // one server has one slot
	})
	t.Run("cluster", func(t *testing.T) {
		c := redis.NewClusterClient(testenv.RedisCluster(t, 3))
		t.Cleanup(func() { _ = c.Close() })
		twoCommands(t, c, cart(""))
		m := acquireAll(t, engine(t, c, handoff.Options{}), "x", "y", "z") // of several slots
		locktest.Release(t, m)
	})
}

func twoCommands(t *testing.T, c redis.UniversalClient, keys []string) {
	t.Helper()
	e, counted := engine(t, c, handoff.Options{}), &spy{}
	locktest.Release(t, acquireAll(t, e, keys...))
	c.AddHook(counted)
	fences := map[string]uint64{}
	const rounds = 20
	for range rounds {
		m := acquireAll(t, e, keys...)
		next := map[string]uint64{}
		for _, key := range keys {
			next[key] = m.FenceOf(key)
			if next[key] <= fences[key] {
				t.Errorf("%s: fence %d after %d", key, next[key], fences[key])
			}
		}
		fences = next
		locktest.Release(t, m)
		locktest.Release(t, m) // costs nothing
	}
	if got := counted.scripts.Load(); got != 2*rounds {
		t.Errorf("%d commands for %d rounds, want two for each", got, rounds)
	}
}

// One key is held: AcquireAll waits until it has all of them, or gets none. The release gives each to its own waiter.
func TestAcquireAllWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 2)
		e, rival := links[0].process(t, handoff.Options{}), links[1].process(t, handoff.Options{})
		keys := cart("")
		held := locktest.Obtain(t, rival.Handoff(), "b{1}")
		if _, err := e.AcquireAll(lock.WithWait(t.Context(), time.Second), keys...); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("AcquireAll = %v, want ErrBusy", err)
		}
		for _, key := range []string{"a{1}", "c{1}"} {
			locktest.Release(t, locktest.Take(t, rival.Fair(), key))
		}
		got := make(chan *lock.Multi, 1)
		go func() { got <- acquireAll(t, e, keys...) }()
		time.Sleep(time.Second)
		locktest.Release(t, held)
		locktest.Release(t, <-got)

		m := acquireAll(t, e, keys...)
		var waiting []chan lock.Lease
		for _, key := range []string{"a{1}", "c{1}"} {
			next, _ := waits(t.Context(), rival.Fair(), key)
			waiting = append(waiting, next)
		}
		began := time.Now()
		locktest.Release(t, m)
		for _, next := range waiting {
			lease := <-next
			if took := time.Since(began); took > 100*time.Millisecond || lease.Fence() <= m.FenceOf("a{1}") && lease.Fence() <= m.FenceOf("c{1}") {
				t.Errorf("fence %d after %s, want a higher one at once", lease.Fence(), took)
			}
			locktest.Release(t, lease)
		}
	})
}

// Keys that are acquired one after the other, as many as one cart may have, do not make each other slow, nor do ten re-entries.
func TestAcquireAllOfManyKeys(t *testing.T) {
	s := testenv.Miniredis(t)
	e, rival := onServer(t, s, handoff.Options{}), onServer(t, s, handoff.Options{})
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s%d{1}", s.Prefix, i)
	}
	for name, acquire := range map[string]func(context.Context) (*lock.Multi, error){
		"Handoff":    func(ctx context.Context) (*lock.Multi, error) { return lock.AcquireAll(ctx, e.Handoff(), keys...) },
		"AcquireAll": func(ctx context.Context) (*lock.Multi, error) { return e.AcquireAll(ctx, keys...) },
	} {
		held, ended := locktest.Obtain(t, rival.Handoff(), keys[50]), make(chan struct{})
		go func() {
			defer close(ended)
			m, err := acquire(t.Context())
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if ctx := m.Context(); ctx.Value("missing") != nil || ctx.Err() != nil {
				t.Errorf("%s: a value that nobody has set, or %v", name, ctx.Err())
			}
			all := []*lock.Multi{m}
			for range 10 {
				if m, err = acquire(m.Context()); err != nil {
					t.Errorf("%s: re-entry: %v", name, err)
					break
				}
				all = append(all, m)
			}
			for _, m := range slices.Backward(all) {
				locktest.Release(t, m)
			}
		}()
		wait.Until(t, name+" waits for the key that is held", func() bool { return inspect(t, rival, keys[50]).Queue == 1 })
		locktest.Release(t, held)
		select {
		case <-ended:
		case <-time.After(locktest.Soon):
			t.Fatalf("%s has not ended", name)
		}
	}
}

// The keys are renewed. One that is lost ends the context of all; the others are released.
func TestAcquireAllLosesOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, links := network(t, 2)
		e, rival := links[0].process(t, handoff.Options{}), links[1].process(t, handoff.Options{})
		all := acquireAll(t, e, cart("")...)
		time.Sleep(2 * locktest.TTL)
		if err := all.Context().Err(); err != nil {
			t.Fatalf("the lease ended: %v", err)
		}
		inner, err := e.Handoff().Acquire(all.Context(), "c{1}")
		if err != nil {
			t.Fatalf("re-entry = %v", err)
		}
		locktest.Release(t, inner)
		m.Del("b{1}")
		<-all.Context().Done()
		if cause := context.Cause(all.Context()); !errors.Is(cause, lock.ErrLost) {
			t.Errorf("cause = %v, want ErrLost", cause)
		}
		for range 2 {
			if err := all.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("Release = %v, want ErrLost", err)
			}
		}
		for _, key := range []string{"a{1}", "b{1}", "c{1}"} {
			locktest.Release(t, locktest.Take(t, rival.Fair(), key))
		}
	})
}

// Two releases at once, of which the first has been executed and not answered. Somebody else has held the keys since. Both releases say nil.
func TestAcquireAllIsReleasedTwiceAtOnce(t *testing.T) {
	s := testenv.Miniredis(t)
	c, h := locktest.RedisClient(t, s), &delayedReply{arrived: make(chan struct{}), deliver: make(chan struct{})}
	e, rival := engine(t, c, patient(handoff.Options{})), onServer(t, s, patient(handoff.Options{}))
	keys := cart(s.Prefix)
	locktest.Release(t, acquireAll(t, e, keys...))
	c.AddHook(h)
	m := acquireAll(t, e, keys...)
	h.next.Store(true)
	released := [2]chan error{make(chan error, 1), make(chan error, 1)}
	go func() { released[0] <- m.Release(t.Context()) }()
	<-h.arrived
	locktest.Release(t, acquireAll(t, rival, keys...))
	ended := make(chan struct{})
	go func() {
		released[1] <- m.Release(t.Context())
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(200 * time.Millisecond): // it waits for the first one
	}
	close(h.deliver)
	for i, err := range released {
		if err := <-err; err != nil {
			t.Errorf("Release %d = %v, want nil", i, err)
		}
	}
}

// A re-entry outlives the release of the whole, and then releases its key.
func TestAcquireAllIsReentered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 1)
		e := links[0].process(t, handoff.Options{})
		all := acquireAll(t, e, cart("")...)
		inner, err := e.Fair().Acquire(all.Context(), "c{1}")
		if err != nil {
			t.Fatal(err)
		}
		locktest.Release(t, all)
		locktest.Release(t, locktest.Take(t, e.Fair(), "a{1}"))
		locktest.WantBusy(t, e.Fair(), "c{1}", "re-entered")
		locktest.Release(t, inner)
		locktest.Release(t, locktest.Take(t, e.Fair(), "c{1}"))
	})
}

// A command that is sent twice has one outcome; one without an answer leaves nothing behind, whoever gave up first.
func TestAcquireAllWithoutAnAnswer(t *testing.T) {
	onServers(t, func(t *testing.T, s *testenv.RedisServer) {
		c, twice := locktest.RedisClient(t, s), &spy{}
		c.AddHook(twice)
		twice.resend.Store(true)
		e := engine(t, c, handoff.Options{})
		for range 5 {
			locktest.Release(t, acquireAll(t, e, cart(s.Prefix)...))
		}
	})
	for name, wait := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"bounded wait": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return lock.WithWait(ctx, 0), func() {}
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		},
		"neither": func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, links := network(t, 2)
				e := links[0].process(t, handoff.Options{})
				locktest.Release(t, acquireAll(t, e, cart("")...))
				links[0].replies.Store(true)
				ctx, stop := wait(t.Context())
				defer stop()
				_, err := e.AcquireAll(ctx, cart("")...)
				if want := map[bool]error{true: lock.ErrBusy, false: lock.ErrUnavailable}[name == "deadline"]; !errors.Is(err, want) {
					t.Errorf("AcquireAll = %v, want %v", err, want)
				}
				links[0].heal()
				time.Sleep(10 * time.Second)
				for _, key := range []string{"a{1}", "b{1}", "c{1}"} {
					if m.Exists(key) {
						t.Errorf("%s is locked", key)
					}
				}
				locktest.Release(t, acquireAll(t, links[1].process(t, handoff.Options{}), cart("")...))
			})
		})
	}
}

// A lease time, a context that has ended and a closed engine mean the same to AcquireAll as to Acquire. Without keys it fails; one key that is
// named twice is one key.
func TestAcquireAllIsAnAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 2)
		e, rival := links[0].process(t, handoff.Options{}), links[1].process(t, handoff.Options{})
		all, err := e.AcquireAll(lock.WithLease(t.Context(), time.Second), cart("")...)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		next, _ := waits(t.Context(), rival.Fair(), "b{1}")
		locktest.Release(t, <-next)
		near(t, "time until a waiting rival gets in", time.Since(began), time.Second)
		if err := all.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("late Release = %v, want ErrLost", err)
		}
		if _, err := e.AcquireAll(lock.WithLease(t.Context(), 0), cart("")...); !errors.Is(err, lock.ErrLeaseTime) {
			t.Errorf("AcquireAll with a lease time of 0 = %v, want ErrLeaseTime", err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := e.AcquireAll(ended, cart("")...); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("AcquireAll after the end = %v, want ErrBusy", err)
		}
		if _, err := e.AcquireAll(t.Context()); err == nil {
			t.Error("AcquireAll without keys succeeded")
		}
		locktest.Release(t, acquireAll(t, e, "a{1}", "a{1}"))
		all = acquireAll(t, e, cart("")...)
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := all.Release(t.Context()); err != nil {
			t.Errorf("Release after Close = %v", err)
		}
		if _, err := e.AcquireAll(t.Context(), cart("")...); !errors.Is(err, handoff.ErrClosed) {
			t.Errorf("AcquireAll after Close = %v, want ErrClosed", err)
		}
		locktest.Release(t, acquireAll(t, rival, cart("")...))
	})
}

// Carts that overlap, and single keys, of several processes: nobody is in beside another, fences rise, and nobody is stuck.
func TestAcquireAllExcludes(t *testing.T) {
	s := testenv.Redis(t)
	var keys []string
	for i := range 4 {
		keys = append(keys, fmt.Sprintf("%s%d{1}", s.Prefix, i))
	}
	ctx, progress := testenv.Progress(t, testenv.Still)
	inside, fences := make([]atomic.Int64, len(keys)), make([]atomic.Uint64, len(keys))
	var wg sync.WaitGroup
	for g := range 12 {
		e := onServer(t, s, patient(handoff.Options{}))
		own := []int{g % 4, (g + 1 + g/4) % 4}[:1+g%2]
		wg.Go(func() {
			for range 25 {
				var some []string
				for _, i := range own {
					some = append(some, keys[i])
				}
				m, err := e.AcquireAll(ctx, some...)
				if err != nil {
					t.Errorf("AcquireAll: %v", err)
					return
				}
				progress()
				for _, i := range own {
					fence := m.FenceOf(keys[i])
					if n, last := inside[i].Add(1), fences[i].Swap(fence); n != 1 || last >= fence {
						t.Errorf("%d inside, fence %d after %d", n, fence, last)
					}
				}
				for _, i := range own {
					inside[i].Add(-1)
				}
				if err := m.Release(ctx); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	wg.Wait()
}
