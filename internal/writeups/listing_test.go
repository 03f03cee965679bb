package writeups_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock/textbook"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// The renewal script of the listings: it looks whose lock it is, and its caller ignores the answer.
const renewMine = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else " +
	"return 0 end"

// releaseMine is the release script of the listings.
const releaseMine = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"

// task is what a scheduler runs at each of its ticks until it is cancelled.
type task struct {
	key, value string
	cancelled  bool
}

// redisLock is the class RedisLock of a listing: one scheduler, and one field for the renewal task, whatever the key.
type redisLock struct {
	client
	scheduled   []*task
	renewalTask *task
}

func (l *redisLock) lock(key, value string) {
	l.s.Helper()
	l.do("OK", "SET @"+key+" "+value+" NX PX 30000")
	l.renewalTask = &task{key: key, value: value}
	l.scheduled = append(l.scheduled, l.renewalTask)
}

func (l *redisLock) unlock(want, key, value string) {
	l.s.Helper()
	if l.renewalTask != nil {
		l.renewalTask.cancelled = true
	}
	l.eval(want, "unlock "+key+": renewalTask.cancel(), compare and DEL", releaseMine, key, value)
}

// tick has the scheduler run what it has to. scheduleAtFixedRate cancels a task that throws, and says nothing.
func (l *redisLock) tick(want string) {
	l.s.Helper()
	var renewed []string
	for _, t := range l.scheduled {
		if !t.cancelled {
			got := locktest.Answer(l.c.Eval(l.s.Context(), renewMine, []string{l.s.prefix + t.key}, t.value, 30000).Result())
			renewed = append(renewed, t.key+": "+got)
			t.cancelled = strings.HasPrefix(got, "(error)")
		}
	}
	l.s.is(l.name, "a third of the TTL later the scheduler renews", fmt.Sprint(renewed), want)
}

// One field for the renewal task of every key: the second lock overwrites the task of the first.
func TestOneRenewalTaskForAllKeys(t *testing.T) {
	s, first, b := withAB(t)
	a := &redisLock{client: first}
	a.lock("lock:101", "a1")
	a.lock("lock:102", "a2")
	a.tick("[lock:101: 1 lock:102: 1]")
	a.unlock("1", "lock:101", "a1")
	s.note("unlock() has cancelled the task of lock:102; the task of lock:101 goes on, though that lock is released")
	a.tick("[lock:101: 0]")
	b.expires("lock:102")
	b.do("OK", "SET @lock:102 b NX PX 30000")
	s.note("A works under lock:102, and so does B")
	a.unlock("0", "lock:102", "a2")
	a.tick("[lock:101: 0]")
	s.note("both locks are released, and one task runs for ever. Keep a task for each hold, and end it when there is " +
		"nothing to renew")
}

// A periodic task ends at its first exception: one answer of Redis that does not come, and nothing renews the lock any
// more, while its holder works.
func TestPeriodicTaskEndsAtItsFirstException(t *testing.T) {
	s := tell(t)
	server, c := s.redis("B")
	b, o := c[0], *server.Options()
	relay := locktest.NewRelay(t, o.Addr)
	o.Addr, o.MaxRetries = relay.Addr().String(), -1
	unlucky := testkit.Closing(t, redis.NewClient(&o))
	a := &redisLock{client: client{s, "A", unlucky}}
	a.lock("lock:101", "a")
	a.tick("[lock:101: 1]")
	relay.Losing(false, func(sent []byte) func([]byte) bool { // Redis has renewed, and its answer does not come
		if !bytes.Contains(bytes.ToLower(sent), []byte("pexpire")) {
			return nil
		}
		return func([]byte) bool { return true }
	})
	a.tick("[lock:101: (error) EOF]")
	s.note("the exception leaves the task, so the scheduler ends it; nobody calls get() on its future, so nothing " +
		"is logged")
	a.tick("[]")
	b.expires("lock:101")
	b.do("OK", "SET @lock:101 b NX PX 30000")
	s.note("Redis was back after one lost answer, but A's watchdog was not. Catch everything in the task, and try " +
		"again before the TTL is over")
}

// The reentrant lock of the listings knows its owner by a uuid that each lock object makes; each method makes a lock
// object.
func TestUUIDPerLockObject(t *testing.T) {
	s, a := withA(t)
	const acquire = "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then " +
		"redis.call('hincrby', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], 30000) return 1 end return 0"
	a.eval("1", "method A: new RedisLock(lock), uuid 1, lock()", acquire, "lock", "uuid-1")
	for range 3 {
		a.eval("0", "method B: new RedisLock(lock), uuid 2, lock()", acquire, "lock", "uuid-2")
	}
	s.note("method A has called method B, which waits for the lock of its own caller; and the renewal keeps that " +
		"for ever")
	a.eval("1", "method B, with the uuid of its caller", acquire, "lock", "uuid-1")
	a.do("2", "HGET @lock uuid-1")
	s.note("reentrant by owner, so the owner must go from caller to callee: hand the lock object on, or keep the uuid " +
		"for each client and add the thread's id, as Redisson does")
}

// A release script that begins with a # comment, which Lua does not know.
func TestReleaseScriptDoesNotCompile(t *testing.T) {
	s, a, b := withAB(t)
	const body = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end
`
	a.do("OK", "SET @lock a NX EX 30")
	_, err := a.c.Eval(t.Context(), "\n# KEYS[1] = lock_key, ARGV[1] = unique_id"+body, []string{s.prefix + "lock"},
		"a").Result()
	got := locktest.Answer(nil, err)
	if at := strings.Index(got, "unexpected symbol"); at >= 0 {
		got = got[at:]
	}
	s.is("A", "EVAL '# KEYS[1] = lock_key ... if GET == ARGV[1] then DEL'", got, "unexpected symbol near '#'")
	b.do("(nil)", "SET @lock b NX EX 30")
	s.note("each release fails, so that each lock stays until its TTL is over. A comment in Lua begins with --")
	a.eval("1", "EVAL '-- KEYS[1] = lock_key ... if GET == ARGV[1] then DEL'", "\n-- KEYS[1] = lock_key"+body, "lock",
		"a")
}

// lock() that catches InterruptedException and returns: its caller has no lock, and works.
func TestInterruptedLockReturns(t *testing.T) {
	s := tell(t)
	server, c := s.redis("A", "B")
	a, b, locker := c[0], c[1], textbook.NewSpin(server, time.Minute, nil)
	a.do("OK", "SET @stock 1")
	a.do("OK", "SET @lock a NX PX 30000")
	ctx, interrupt := context.WithCancel(t.Context())
	returned := make(chan string)
	go func() {
		// try { lockInterruptibly(); } catch (InterruptedException e) { Thread.currentThread().interrupt(); }
		if _, err := locker.Acquire(ctx, s.prefix+"lock"); errors.Is(err, context.Canceled) {
			returned <- "it returns"
		} else {
			returned <- fmt.Sprint(err)
		}
	}()
	s.says("B", "lock()", "waits")
	interrupt()
	s.is("B", "interrupt(), as a pool does in shutdownNow()", <-returned, "it returns")
	a.do("1", "GET @stock")
	b.do("1", "GET @stock")
	a.do("OK", "SET @stock 0")
	b.do("OK", "SET @stock 0")
	b.eval("0", "unlock()", releaseMine, "lock", "b")
	s.note("lock() is void, so B cannot see that it has no lock: sold twice, and unlock() fails. Let the exception out " +
		"(lockInterruptibly, tryLock), or wait on")
}

// A renewal thread for each acquire that succeeds, and a re-entry succeeds too. It ends when it sees that the lock is
// gone, which it looks for every half of a TTL.
func TestRenewalThreadForEachReentry(t *testing.T) {
	s, a := withA(t)
	const acquire = "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then " +
		"redis.call('hincrby', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], 30000) return 1 end return 0"
	const release = "if redis.call('hincrby', KEYS[1], ARGV[1], -1) == 0 then redis.call('del', KEYS[1]) return 1 end " +
		"return 0"
	const renew = "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end redis.call('pexpire', KEYS[1], " +
		"30000) return 1"
	threads := 0
	lock := func() {
		t.Helper()
		a.eval("1", "lock(), which starts a thread", acquire, "lock", "a")
		threads++
	}
	wake := func(want string) {
		t.Helper()
		renewals := 0
		for range threads {
			if locktest.Answer(a.c.Eval(t.Context(), renew, []string{s.prefix + "lock"}, "a").Result()) == "1" {
				renewals++
			}
		}
		threads = renewals
		s.is("A", "half a TTL later the threads wake up", fmt.Sprintf("%d renewals", renewals), want)
	}
	for range 3 {
		lock()
	}
	wake("3 renewals")
	for _, want := range []string{"0", "0", "1"} {
		a.eval(want, "unlock()", release, "lock", "a")
	}
	s.note("the three threads sleep; before they wake, A locks again, as in a busy shop")
	lock()
	wake("4 renewals")
	a.eval("1", "unlock()", release, "lock", "a")
	wake("0 renewals")
	s.note("each acquire starts a thread that does not know the others. Keep one renewal task for each hold, and let " +
		"the last unlock() end it")
}

// A service of its own renews all locks that it finds: it cannot know that a holder has died.
func TestRenewalByAnotherService(t *testing.T) {
	s := tell(t)
	_, c := s.redis("A", "R", "B")
	a, renewer, b := c[0], c[1], c[2]
	a.do("OK", "SET @lock a NX PX 30000")
	s.note("A is killed; R is the service that renews")
	for range 3 {
		renewer.do("1", "PEXPIRE @lock 30000")
		b.do("(nil)", "SET @lock b NX PX 30000")
	}
	s.note("the TTL is there to end a dead holder's lock. The renewal must run in the holder's process, and die with it")
	b.expires("lock")
	b.do("OK", "SET @lock b NX PX 30000")
}

// if (tryLock(...)) { deduct } return "system busy": whoever has bought is told that the shop is busy, and buys again.
func TestSuccessFallsThrough(t *testing.T) {
	s, a := withA(t)
	a.do("OK", "SET @stock 10")
	deduct := func() string {
		t.Helper()
		if got := a.quietly("SET @lock a NX PX 30000"); got == "OK" {
			a.quietly("DECR @stock")
		}
		a.eval("1", "finally: unlock()", releaseMine, "lock", "a")
		return "system busy"
	}
	for range 3 {
		s.is("A", "POST /deduct", deduct(), "system busy")
	}
	a.do("7", "GET @stock")
	s.note("one buyer tries three times and buys three units: the branch that succeeds must return")
}

// Redlock as it is often retold: where a majority has granted the lock, the client shall release it on all nodes.
func TestRedlockReleasesOnSuccess(t *testing.T) {
	s := tell(t)
	nodes := s.masters(testenv.RedisNodes(t, 5))
	acquire := func(who, want string) {
		t.Helper()
		granted := 0
		for _, node := range nodes {
			if node.quietly("SET lock "+who+" NX PX 30000") == "OK" {
				granted++
			}
		}
		s.is(who, "on each of five: SET lock "+who+" NX PX 30000", fmt.Sprintf("%d of 5", granted), want)
	}
	acquire("A", "5 of 5")
	acquire("B", "0 of 5")
	s.note("A has its majority in time, and releases the lock on all nodes, as the listing says")
	for _, node := range nodes {
		if got := locktest.Answer(node.c.Eval(t.Context(), releaseMine, []string{"lock"}, "A").Result()); got != "1" {
			t.Fatalf("release: %s", got)
		}
	}
	acquire("B", "5 of 5")
	s.note("A works, and B too. Release on all nodes if the lock was NOT granted, and when the work is done")
}
