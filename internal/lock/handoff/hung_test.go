package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// While a server stays out of reach, one cleanup a second is sent, three times, and only for as long as what its
// attempt may have left behind can live.
func TestEngineCleanupsEnd(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 1)
		c, counted := links[0].client(), &spy{}
		t.Cleanup(func() { _ = c.Close() })
		c.AddHook(counted)
		l := pick(engine(t, c, handoff.Options{}), name)
		held := locktest.Obtain(t, l, "k{held}")
		links[0].down.Store(true)
		links[0].cut()
		for i := range 20 {
			locktest.WantUnavailable(t.Context(), t, l, fmt.Sprintf("k{%d}", i), "Acquire without a server")
		}
		_ = held.Release(t.Context())
		time.Sleep(locktest.TTL / 2)
		counted.scripts.Store(0)
		time.Sleep(5 * time.Second)
		if n := counted.scripts.Load(); n == 0 || n > 15 {
			t.Errorf("%d commands in 5 s to a server that is out, while something may be left behind, want 3 a second", n)
		}
		time.Sleep(2 * time.Minute)
		counted.scripts.Store(0)
		time.Sleep(time.Minute)
		testkit.Is(t, counted.scripts.Load(), 0, "commands in a minute that begins two after the last attempt")
	})
}

// More cleanups than are remembered: a release whose answer was lost is among those that are, although it came last.
func TestEngineCleanupIsNotCrowdedOut(t *testing.T) {
	scenes(t, 1, handoff.Options{}, func(t *testing.T, s *scene) {
		_, err := s.m.Lpush("k{list}", "an element")
		testkit.Must(t, err)
		refused := make(chan error)
		const n = 1500
		for range n {
			go func() {
				_, err := s.ls[0].Acquire(t.Context(), "k{list}")
				refused <- err
			}()
		}
		for range n {
			testkit.IsError(t, <-refused, lock.ErrUnavailable, "Acquire of a list")
		}
		s.links[0].calls.Store(true)
		if err := s.held.Release(t.Context()); err == nil {
			t.Fatal("Release = nil without an answer")
		}
		s.links[0].heal()
		start := time.Now()
		for s.m.Exists("k{1}") && time.Since(start) < locktest.TTL/2 {
			time.Sleep(100 * time.Millisecond)
		}
		within(t, start, 5*time.Second, "the lock is free after the server is back")
	})
}

// A lock whose key has been made a list does not break the renewal of the locks that are renewed in the same command.
func TestEngineRenewsBesideAWrongType(t *testing.T) {
	for _, name := range []string{"handoff", "rw-read"} {
		inBubble(t, name, func(t *testing.T) {
			m, links := network(t, 1)
			l, key := pick(links[0].process(t, handoff.Options{}), name), handoff.KeysOf("bad").Lock
			if name == "rw-read" {
				key = handoff.KeysOf("bad").Readers
			}
			well, spoilt := locktest.Obtain(t, l, "good"), locktest.Obtain(t, l, "bad")
			m.Del(key)
			_, err := m.Lpush(key, "an element")
			testkit.Must(t, err)
			<-spoilt.Context().Done()
			time.Sleep(2 * locktest.TTL)
			testkit.Is(t, well.Context().Err(), nil, "the lease beside it ended")
			_ = spoilt.Release(t.Context())
			locktest.Release(t, well)
		})
	}
}

// failedAcquire acquires, and returns the error. It fails if that took longer than most, or if the lock was acquired.
func failedAcquire(ctx context.Context, t *testing.T, l lock.Locker, key string, most time.Duration) error {
	t.Helper()
	start := time.Now()
	got, failed := async(ctx, l, key)
	select {
	case err := <-failed:
		within(t, start, most, "Acquire")
		return err
	case lease := <-got:
		_ = lease.Release(context.Background())
		t.Fatal("the lock was acquired")
	case <-time.After(time.Minute):
		t.Fatal("Acquire has not come back after a minute")
	}
	return nil
}

// A TTL that is shorter than a round trip to Redis makes a lock useless: Acquire says so, whether or not its wait is
// bounded, and leaves nothing behind.
func TestEngineTTLShorterThanARoundTrip(t *testing.T) {
	const unbounded = -1
	for _, name := range allLocks {
		for _, ttl := range []time.Duration{50 * time.Millisecond, 55 * time.Millisecond} {
			for _, wait := range []time.Duration{unbounded, 0, 500 * time.Millisecond} {
				inBubble(t, fmt.Sprint(name, "/", ttl, "/", wait), func(t *testing.T) {
					m, links := network(t, 1)
					l, ctx := pick(links[0].process(t, handoff.Options{TTL: ttl}), name), t.Context()
					if wait != unbounded {
						ctx = lock.WithWait(ctx, wait)
					}
					links[0].slow.Store(int64(40 * time.Millisecond))
					err := failedAcquire(ctx, t, l, "k{1}", max(wait, 0)+time.Second)
					if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), "TTL of "+ttl.String()) {
						t.Errorf("Acquire = %v, want ErrUnavailable and the TTL", err)
					}
					time.Sleep(time.Second)
					nothingLeft(t, m, "k{1}")
				})
			}
		}
	}
}

// A bounded wait ends even if Redis does not answer: after its own time and the limit of one attempt. A lock that was
// taken meanwhile is given back (invariant 5).
func TestEngineWithWaitOnHungRedis(t *testing.T) {
	for _, name := range allLocks {
		for _, c := range []struct{ wait, limit, most time.Duration }{
			{0, 0, time.Second},
			{0, 300 * time.Millisecond, 300 * time.Millisecond},
			{1500 * time.Millisecond, 0, 2500 * time.Millisecond},
			{5 * time.Second, 200 * time.Millisecond, 5200 * time.Millisecond},
		} {
			for _, hears := range []bool{false, true} {
				inBubble(t, fmt.Sprint(name, "/", c.wait, "/", c.limit, "/", hears), func(t *testing.T) {
					m, links := network(t, 2)
					w := links[0]
					unhurried := redis.NewClient(&redis.Options{
						Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true, Dialer: w.dial, ReadTimeout: 3 * time.Second,
					})
					l := pick(w.processOn(t, unhurried, handoff.Options{AttemptLimit: c.limit}), name)
					released(t, locktest.Obtain(t, l, "k{1}"))
					w.replies.Store(true)
					w.calls.Store(!hears)
					err := failedAcquire(lock.WithWait(t.Context(), c.wait), t, l, "k{1}", c.most)
					testkit.IsError(t, err, lock.ErrUnavailable, "Acquire")
					w.heal()
					time.Sleep(10 * time.Second)
					nothingLeft(t, m, "k{1}")
					released(t, locktest.Obtain(t, pick(links[1].process(t, handoff.Options{}), name), "k{1}"))
				})
			}
		}
	}
}

// A caller that only tries does not end the wait of other callers of its process that use the same attempt.
func TestEngineTryLeavesOthersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, handoff.Options{AttemptLimit: 100 * time.Millisecond}, "handoff")
		l := s.ls[0]
		released(t, s.held)
		s.links[0].slow.Store(int64(150 * time.Millisecond))
		got, _ := waits(t.Context(), l, "k{1}")
		err := failedAcquire(lock.WithWait(t.Context(), 0), t, l, "k{1}", 100*time.Millisecond)
		testkit.IsError(t, err, lock.ErrUnavailable, "Acquire")
		released(t, <-got)
		nothingLeft(t, s.m, "k{1}")
	})
}

// A holder passes the lock on within its process, and its time may run out while the renewal is in flight. The engine
// waits for the end of the renewal and does not check again and again: then the clock of this bubble would stand still.
func TestEngineMaxHoldWhileRenewing(t *testing.T) {
	stuck := time.AfterFunc(testenv.Still, func() { panic("the clock of the bubble stands still") })
	defer stuck.Stop()
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 1)
		l := links[0].process(t, handoff.Options{TTL: 3 * time.Second, MaxHold: 1500 * time.Millisecond,
			CohortTime: time.Hour}).Handoff()
		released(t, locktest.Obtain(t, l, "k{1}"))
		first := locktest.Obtain(t, l, "k{1}")
		got, _ := waits(t.Context(), l, "k{1}")
		time.Sleep(1100 * time.Millisecond)
		links[0].slow.Store(int64(150 * time.Millisecond)) // a renewal is due after 1.2 s
		links[0].replies.Store(true)
		time.Sleep(200 * time.Millisecond)
		released(t, first)
		second := <-got
		time.Sleep(time.Second)
		links[0].heal()
		released(t, second)
	})
}

// While Redis is silent, calls wait for their turn in the batcher. An acquire whose caller leaves meanwhile is never
// sent, and needs no cancel; but if it is a repetition, what the first one got is given back.
func TestEngineUnsentAcquiresAreWithdrawn(t *testing.T) {
	// More than there are batches in flight at a time, although these are late.
	const many, late = 30, 2 * time.Millisecond
	unsent := func(t *testing.T, name string, repetition bool) {
		m, links := network(t, 1)
		c, counted := links[0].client(), &spy{}
		e := links[0].processOn(t, c, handoff.Options{TTL: time.Hour, CallTimeout: time.Hour})
		for _, name := range allLocks { // the server knows the scripts then
			locktest.Warm(t, pick(e, name), "{"+name+"}")
		}
		lose, answer := make(chan struct{}), make(chan struct{})
		var first atomic.Bool
		first.Store(repetition)
		c.AddHook(counted)
		c.AddHook(locktest.SendHook{Name: "evalsha", Send: func(_ context.Context, send func() error) error {
			if first.CompareAndSwap(true, false) {
				_ = send()
				<-lose
				return io.ErrUnexpectedEOF
			}
			<-answer
			return send()
		}})
		asks := func(ctx context.Context, n int, name, key string) (got []chan lock.Lease, failed []chan error) {
			for i := range n {
				g, f := async(ctx, pick(e, name), fmt.Sprintf(key, i/2))
				got, failed = append(got, g), append(failed, f)
				time.Sleep(late)
			}
			return got, failed
		}
		ctx, cancel := context.WithCancel(t.Context())
		var failures []chan error
		if repetition {
			_, failures = asks(ctx, 1, name, "k{%d}")
		}
		holders, _ := asks(t.Context(), many, "rw-read", "{slot%d}")
		if repetition {
			close(lose)           // holders that wait have the slot that becomes free here
			time.Sleep(10 * late) // it is sent again
		} else {
			_, failures = asks(ctx, 200, name, "k{%d}")
		}
		cancel()
		for _, failed := range failures {
			locktest.WantGaveUp(t, <-failed)
		}
		close(answer)
		for _, got := range holders {
			released(t, <-got)
		}
		time.Sleep(time.Second)
		if n := counted.scripts.Load(); !repetition && n != 2*many {
			t.Errorf("%d commands, want an acquire and a release of each of %d holders", n, many)
		}
		nothingLeft(t, m, "k{0}")
	}
	for _, name := range allLocks {
		inBubble(t, name, func(t *testing.T) { unsent(t, name, false) })
		inBubble(t, name+", sent before", func(t *testing.T) { unsent(t, name, true) })
	}
}
