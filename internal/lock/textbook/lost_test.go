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
	"lastitem/internal/lock/textbook"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

func TestLostAnswer(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	for _, name := range []string{"setnx", "setnx-expire", "lua", "watchdog-polling"} {
		c := all[name]
		t.Run(name, func(t *testing.T) {
			cl, key := locktest.RedisClient(t, s), s.Prefix+t.Name()
			l := c.process(t, cl, time.Minute, nil)
			locktest.Warm(t, l, key)
			free := func(why string) {
				t.Helper()
				if n := s.Client.Exists(t.Context(), key).Val(); n != 0 {
					t.Errorf("%s: the lock is still there", why)
				}
			}
			acquire, release := &locktest.LostAnswers{Name: c.acquire}, &locktest.LostAnswers{Name: c.release}
			cl.AddHook(acquire)
			cl.AddHook(release)
			acquire.Left.Store(1)
			locktest.WantUnavailable(t.Context(), t, l, key, "Acquire with its answer lost")
			free("the lost answer granted it")
			lease := locktest.Obtain(t, l, key)
			release.Left.Store(1)
			locktest.ReleaseUnknown(t, lease, "Release with its answer lost")
			locktest.Release(t, lease)
			free("released twice")
		})
	}
}

// subscribed waits until somebody listens for the release of a key.
func subscribed(t *testing.T, s *testenv.RedisServer, key string) {
	t.Helper()
	channel := "redisson_lock__channel:{" + key + "}"
	testkit.Until(t, "the waiter subscribes", func() bool {
		return s.Client.PubSubNumSub(t.Context(), channel).Val()[channel] > 0
	})
}

// Messages tell waiters of a release, so they do not wait for their next poll.
func TestWatchdogIsWokenByBroadcast(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	a, b := locktest.RedisClient(t, s), locktest.RedisClient(t, s)
	holder := textbook.NewWatchdog(a, time.Minute, wakeups(t, a), nil)
	waiter := textbook.NewWatchdog(b, time.Minute, wakeups(t, b), nil)
	key := s.Prefix + "woken"
	locktest.Warm(t, waiter, key)
	var tries atomic.Int64
	b.AddHook(locktest.SendHook{Name: "evalsha", Send: func(_ context.Context, send func() error) error {
		defer tries.Add(1)
		return send()
	}})
	var took []time.Duration
	for range 10 {
		lease := locktest.Obtain(t, holder, key)
		tries.Store(0)
		got := locktest.Waiter(t, waiter, key)
		subscribed(t, s, key)
		// Its first try, one before it waits, and one when the subscription is confirmed: after that it sleeps.
		testkit.Until(t, "the waiter sleeps", func() bool { return tries.Load() >= 3 })
		start := time.Now()
		locktest.Release(t, lease)
		second := <-got
		took = append(took, time.Since(start))
		locktest.Release(t, second)
	}
	locktest.WantTold(t, took)
}

// Waiters for many locks share the subscriber of their process: there is no pool of subscriber connections that could
// run out.
func TestWatchdogSubscribesOverOneConnection(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	holder := textbook.NewWatchdog(locktest.RedisClient(t, s), time.Minute, nil, nil)
	o := *locktest.RedisClient(t, s).Options()
	o.ClientName = strings.Trim(strings.ReplaceAll(s.Prefix, ":", "-"), "-") + "-waiters"
	c := testkit.Closing(t, redis.NewClient(&o))
	locktest.Tell(t, c)
	waiter := textbook.NewWatchdog(c, time.Minute, wakeups(t, c), nil)
	const locks = 8
	var leases []lock.Lease
	var got []<-chan lock.Lease
	for i := range locks {
		key := fmt.Sprint(s.Prefix, "many", i)
		leases = append(leases, locktest.Obtain(t, holder, key))
		got = append(got, locktest.Waiter(t, waiter, key))
		subscribed(t, s, key)
	}
	all, err := s.Client.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text()
	testkit.Must(t, err)
	connections := 0
	for line := range strings.Lines(all) {
		if strings.Contains(line, " name="+o.ClientName+" ") {
			connections++
		}
	}
	if connections != 1 {
		t.Errorf("waiters for %d locks subscribe over %d connections, want 1:\n%s", locks, connections, all)
	}
	for i, lease := range leases {
		locktest.Release(t, lease)
		locktest.Release(t, <-got[i])
	}
}

// A renewal without an answer, on a dead connection, must not use up the time of the release.
func TestWatchdogReleaseDuringAHungRenewal(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	cl, key := locktest.RedisClient(t, s), s.Prefix+"hung"
	l := textbook.NewWatchdog(cl, 6*time.Second, nil, nil) // a renewal may take a third of this TTL
	locktest.Warm(t, l, key)
	lease := locktest.Obtain(t, l, key)
	var first atomic.Bool
	hung := make(chan struct{})
	cl.AddHook(locktest.SendHook{Name: "evalsha", Send: func(ctx context.Context, send func() error) error {
		if first.CompareAndSwap(false, true) {
			close(hung)
			<-ctx.Done()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return send()
	}})
	<-hung
	locktest.Release(t, lease)
	if n := s.Client.Exists(t.Context(), key).Val(); n != 0 {
		t.Error("the lock is still there")
	}
}
