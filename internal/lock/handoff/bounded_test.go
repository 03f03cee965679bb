package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

// failedAcquire acquires, and returns the error and how long that took; it fails after a minute, or if the lock was acquired.
func failedAcquire(ctx context.Context, t *testing.T, l lock.Locker, key string) (time.Duration, error) {
	t.Helper()
	start := time.Now()
	got, failed := async(ctx, l, key)
	select {
	case err := <-failed:
		return time.Since(start), err
	case lease := <-got:
		_ = lease.Release(context.Background())
		t.Fatal("the lock was acquired")
	case <-time.After(time.Minute):
		t.Fatal("Acquire has not come back after a minute")
	}
	return 0, nil
}

// A TTL that is shorter than a round trip to Redis makes a lock useless: Acquire says so, whether or not its wait is bounded, and leaves
// nothing behind.
func TestEngineTTLShorterThanARoundTrip(t *testing.T) {
	for _, name := range allLocks {
		for _, ttl := range []time.Duration{50 * time.Millisecond, 55 * time.Millisecond} {
			for how, c := range map[string]struct {
				bound func(context.Context) context.Context
				most  time.Duration
			}{
				"bounded":  {func(ctx context.Context) context.Context { return lock.WithWait(ctx, 500*time.Millisecond) }, 1500 * time.Millisecond},
				"a try":    {func(ctx context.Context) context.Context { return lock.WithWait(ctx, 0) }, time.Second},
				"no bound": {func(ctx context.Context) context.Context { return ctx }, time.Second},
			} {
				t.Run(fmt.Sprint(name, "/", ttl, "/", how), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						m, links := network(t, 1)
						l := pick(links[0].process(t, handoff.Options{TTL: ttl}), name)
						links[0].slow.Store(int64(40 * time.Millisecond))
						took, err := failedAcquire(c.bound(t.Context()), t, l, "k{1}")
						if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), "TTL of "+ttl.String()) {
							t.Errorf("Acquire = %v, want ErrUnavailable and the TTL", err)
						}
						if took > c.most {
							t.Errorf("Acquire took %s, want %s at most", took, c.most)
						}
						time.Sleep(time.Second)
						nothingLeft(t, m, "k{1}")
					})
				})
			}
		}
	}
}

// A bounded wait ends even if Redis does not answer: after its own time and the limit of one attempt. A lock that was taken meanwhile is
// given back (invariant 5).
func TestEngineWithWaitOnHungRedis(t *testing.T) {
	for _, name := range allLocks {
		for _, c := range []struct{ wait, limit, most time.Duration }{
			{0, 0, time.Second},
			{0, 300 * time.Millisecond, 300 * time.Millisecond},
			{1500 * time.Millisecond, 0, 2500 * time.Millisecond},
			{5 * time.Second, 200 * time.Millisecond, 5200 * time.Millisecond},
		} {
			for _, hears := range []bool{false, true} {
				t.Run(fmt.Sprint(name, "/", c.wait, "/", c.limit, "/", hears), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						m, links := network(t, 2)
						w := links[0]
						unhurried := redis.NewClient(&redis.Options{
							Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true, Dialer: w.dial, ReadTimeout: 3 * time.Second,
						})
						l := pick(w.processOn(t, unhurried, handoff.Options{AttemptLimit: c.limit}), name)
						released(t, locktest.Obtain(t, l, "k{1}"))
						w.replies.Store(true)
						w.calls.Store(!hears)
						took, err := failedAcquire(lock.WithWait(t.Context(), c.wait), t, l, "k{1}")
						if !errors.Is(err, lock.ErrUnavailable) {
							t.Errorf("Acquire = %v, want ErrUnavailable", err)
						}
						if took > c.most {
							t.Errorf("Acquire took %s, want %s at most", took, c.most)
						}
						w.heal()
						time.Sleep(10 * time.Second)
						nothingLeft(t, m, "k{1}")
						released(t, locktest.Obtain(t, pick(links[1].process(t, handoff.Options{}), name), "k{1}"))
					})
				})
			}
		}
	}
}

// A caller that only tries does not end the wait of other callers of its process that use the same attempt.
func TestEngineTryLeavesOthersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, links := network(t, 1)
		l := links[0].process(t, handoff.Options{AttemptLimit: 100 * time.Millisecond}).Handoff()
		released(t, locktest.Obtain(t, l, "k{1}"))
		links[0].slow.Store(int64(150 * time.Millisecond))
		got, _ := waits(t.Context(), l, "k{1}")
		if took, err := failedAcquire(lock.WithWait(t.Context(), 0), t, l, "k{1}"); !errors.Is(err, lock.ErrUnavailable) || took > 100*time.Millisecond {
			t.Errorf("Acquire = %v after %s, want ErrUnavailable after 100 ms", err, took)
		}
		released(t, <-got)
		synctest.Wait()
		nothingLeft(t, m, "k{1}")
	})
}

// A holder passes the lock on within its process, and its time may run out while the renewal is in flight. The engine waits for the end of
// the renewal and does not check again and again: then the clock of this bubble would stand still.
func TestEngineMaxHoldWhileRenewing(t *testing.T) {
	stuck := time.AfterFunc(testenv.Still, func() { panic("the clock of the bubble stands still") })
	defer stuck.Stop()
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 1)
		l := links[0].process(t, handoff.Options{TTL: 3 * time.Second, MaxHold: 1500 * time.Millisecond, CohortTime: time.Hour}).Handoff()
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
