package textbook_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/textbook"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// The watchdog and a real Redisson on one Redis are one lock.
func TestRedisson(t *testing.T) {
	jars := testenv.Redisson(t)
	s := testenv.Redis(t)
	p := newPeer(t, s, jars)
	for name, test := range map[string]func(t *testing.T, s *testenv.RedisServer, p *peer, key string){
		"exclude each other":   redissonExcludes,
		"woken by ours":        redissonIsWoken,
		"wakes ours":           redissonWakes,
		"entries are seen":     redissonEntries,
		"ours is renewed":      redissonSeesRenewal,
		"its lock is renewed":  redissonRenews,
		"nobody else unlocks":  redissonUnlocksItsOwn,
		"a forced unlock ends": redissonForces,
	} {
		t.Run(name, func(t *testing.T) {
			p.t = t
			test(t, s, p, s.Prefix+strings.ReplaceAll(name, " ", "-"))
		})
	}
}

// ours is the lock with a TTL, on a client of its own.
func ours(t *testing.T, s *testenv.RedisServer, ttl time.Duration) (*textbook.Watchdog, *redis.Client) {
	t.Helper()
	c := locktest.RedisClient(t, s)
	return textbook.NewWatchdog(c, ttl, wakeups(t, c), nil), c
}

func redissonExcludes(t *testing.T, s *testenv.RedisServer, p *peer, key string) {
	l, _ := ours(t, s, time.Hour)
	lease := locktest.Obtain(t, l, key)
	p.want(hourly, "a", "tryLock", key, "false")
	locktest.Release(t, lease)
	p.want(hourly, "a", "tryLock", key, "true")
	locktest.WantBusy(t, l, key, "beside Redisson's lock")
	p.want(hourly, "a", "unlock", key, "done")
	locktest.Warm(t, l, key)
}

// tries counts how often a client found the lock taken, in the server's own log of commands.
func tries(t *testing.T, s *testenv.RedisServer, key string) *atomic.Int64 {
	t.Helper()
	lines, c := locktest.Monitor(t, s)
	n, done := &atomic.Int64{}, make(chan struct{})
	go func() {
		defer close(done)
		for lines.Scan() {
			if line := lines.Text(); strings.Contains(line, " lua]") &&
				strings.Contains(strings.ToLower(line), `"pttl" "`+strings.ToLower(key)+`"`) {
				n.Add(1)
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.Close()
		<-done
	})
	return n
}

// Redisson's waiter tries, subscribes and tries again; then it sleeps, for an hour if no message comes.
func redissonIsWoken(t *testing.T, s *testenv.RedisServer, p *peer, key string) {
	l, _ := ours(t, s, time.Hour)
	lease := locktest.Obtain(t, l, key)
	tried := tries(t, s, key)
	got := p.start(hourly, "a", "tryLock", key, time.Hour)
	testkit.Until(t, "Redisson's waiter sleeps", func() bool { return tried.Load() >= 2 })
	subscribed(t, s, key)
	locktest.Release(t, lease)
	if answer := <-got; answer != "true" {
		t.Fatalf("Redisson's tryLock = %s, want true", answer)
	}
	if n := tried.Load(); n != 2 {
		t.Errorf("it found the lock taken %d times, want 2: it polled", n)
	}
	p.want(hourly, "a", "unlock", key, "done")
}

// A waiter sends nothing until the TTL that it was told has run out, like a waiter of Redisson.
func TestWatchdogWaiterDoesNotPoll(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, _ *miniredis.Miniredis) {
		const ttl = time.Hour
		holder := locktest.Take(t, textbook.NewWatchdog(c, ttl, nil, nil).WithLease(ttl), "k")
		l := textbook.NewWatchdog(c, ttl, wakeups(t, c), nil)
		var sent atomic.Int64
		c.AddHook(locktest.SendHook{Name: "evalsha", Send: func(_ context.Context, send func() error) error {
			sent.Add(1)
			return send()
		}})
		start := time.Now()
		got := locktest.Waiter(t, l, "k")
		time.Sleep(ttl / 2)
		if n := sent.Load(); n > 3 {
			t.Errorf("a waiter tried %d times in half an hour, want at most 3: at first, before it sleeps and when it is "+
				"subscribed", n)
		}
		lease := <-got
		if took := time.Since(start); took < ttl || took > ttl+time.Second {
			t.Errorf("it got in after %s, want the TTL of %s", took, ttl)
		}
		locktest.Release(t, lease)
		_ = holder.Release(t.Context()) // which has ended
	})
}

// Our waiter tries, tries again after its subscribe, because a release may have come before it, and again when its
// subscription is confirmed.
func redissonWakes(t *testing.T, s *testenv.RedisServer, p *peer, key string) {
	l, _ := ours(t, s, time.Hour)
	p.want(hourly, "a", "tryLock", key, "true")
	tried := tries(t, s, key)
	got := locktest.Waiter(t, l, key)
	subscribed(t, s, key)
	testkit.Until(t, "our waiter sleeps", func() bool { return tried.Load() >= 3 })
	p.want(hourly, "a", "unlock", key, "done")
	locktest.Release(t, <-got)
	if n := tried.Load(); n != 3 {
		t.Errorf("it found the lock taken %d times, want 3: it polled", n)
	}
}

func redissonEntries(t *testing.T, s *testenv.RedisServer, p *peer, key string) {
	l, _ := ours(t, s, time.Hour)
	outer := locktest.Obtain(t, l, key)
	inner := locktest.Acquire(lock.WithReentry(outer.Context()), t, l, key)
	if got := p.do(hourly, "a", "entries", key); !strings.HasSuffix(got, "=2}") || strings.Count(got, "=") != 1 {
		t.Errorf("Redisson sees the entries %s, want one owner with two", got)
	}
	locktest.Release(t, inner)
	p.want(hourly, "a", "tryLock", key, "false")
	locktest.Release(t, outer)
	for range 2 {
		p.want(hourly, "a", "tryLock", key, "true")
	}
	owner := p.do(hourly, "a", "owner", key)
	if got := s.Client.HGetAll(t.Context(), key).Val(); fmt.Sprint(got) != fmt.Sprint(map[string]string{owner: "2"}) {
		t.Errorf("we see the entries %v, want two of %s", got, owner)
	}
	p.want(hourly, "a", "unlock", key, "done")
	locktest.WantBusy(t, l, key, "beside Redisson's lock")
	p.want(hourly, "a", "unlock", key, "done")
	locktest.Warm(t, l, key)
}

// renewed waits until a lock was renewed twice, so that it has outlived a TTL or is about to.
func renewed(t *testing.T, s *testenv.RedisServer, key string) {
	t.Helper()
	for range 2 {
		last := time.Hour
		testkit.Until(t, "the lock is renewed", func() bool {
			left := s.Client.PTTL(t.Context(), key).Val()
			if left < 0 {
				t.Fatalf("PTTL = %v: the lock has ended", left)
			}
			rose := left > last+quickTTL/6
			last = left
			return rose
		})
	}
}

func redissonSeesRenewal(t *testing.T, s *testenv.RedisServer, p *peer, key string) {
	l, _ := ours(t, s, quickTTL)
	lease := locktest.Obtain(t, l, key)
	renewed(t, s, key)
	p.want(hourly, "a", "tryLock", key, "false")
	locktest.Release(t, lease)
}

func redissonRenews(t *testing.T, s *testenv.RedisServer, p *peer, key string) {
	l, _ := ours(t, s, time.Hour)
	p.want(quick, "a", "tryLock", key, "true")
	renewed(t, s, key)
	locktest.WantBusy(t, l, key, "beside Redisson's lock")
	p.want(quick, "a", "unlock", key, "done")
	locktest.Warm(t, l, key)
}

func redissonUnlocksItsOwn(t *testing.T, s *testenv.RedisServer, p *peer, key string) {
	l, _ := ours(t, s, time.Hour)
	lease := locktest.Obtain(t, l, key)
	p.want(hourly, "a", "unlock", key, "IllegalMonitorStateException")
	p.want(hourly, "a", "forceUnlock", key, "true")
	p.want(hourly, "b", "tryLock", key, "true")
	locktest.ReleaseLost(t, lease, "Release of a lock that is Redisson's")
	locktest.WantBusy(t, l, key, "beside Redisson's lock")
	p.want(hourly, "b", "unlock", key, "done")
}

func redissonForces(t *testing.T, s *testenv.RedisServer, p *peer, key string) {
	l, _ := ours(t, s, quickTTL)
	lease := locktest.Obtain(t, l, key)
	p.want(hourly, "a", "forceUnlock", key, "true")
	locktest.WantLost(t, lease, quickTTL)
	locktest.ReleaseLost(t, lease, "Release")
}
