package textbook

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

var (
	//go:embed lua/watchdog_acquire.lua
	watchdogAcquireSource string
	//go:embed lua/watchdog_release.lua
	watchdogReleaseSource string
	//go:embed lua/watchdog_renew.lua
	watchdogRenewSource string

	watchdogAcquire = redis.NewScript(watchdogAcquireSource)
	watchdogRelease = redis.NewScript(watchdogReleaseSource)
	watchdogRenew   = redis.NewScript(watchdogRenewSource)
)

// Watchdog is Redisson's RLock: reentrant (a hash of owner to entries), renewed by a watchdog every third of its TTL,
// with waiters woken by a broadcast when it is released.
//
// It is Redisson's lock on the wire too: on one Redis, a Java service that calls Redisson's getLock(name) (tested with
// 3.52.0) and this lock exclude and wake each other. Keys, hash fields, channel, message and unlock latch are
// Redisson's; redisson_test.go runs it beside a real one. In a Redis Cluster Redisson may use sharded channels, which
// this lock does not hear. There the two still exclude each other, but a waiter wakes only when the TTL ends.
//
// Re-entry is explicit: an Acquire under [lock.WithReentry] of a lease's context enters that lease again. Redisson
// identifies the owner by its thread. A goroutine has no identity, so each hold has a number in place of the
// thread's id.
//
// What breaks it: a process that stops as a whole (a long pause, a suspended machine). Its watchdog stops with it, the
// key expires, a rival enters, and the process finishes its write when it continues.
type Watchdog struct {
	id      string         // of this process, like the id of a Redisson client
	holds   *atomic.Uint64 // how many there were, to number them
	c       redis.UniversalClient
	ttl     time.Duration
	lease   time.Duration
	wakeups *Wakeups
	steps   *step.Stream
}

// NewWatchdog returns the lock on c. Its TTL is ttl, renewed for as long as the lock is held. Redisson calls this time
// lockWatchdogTimeout, 30 s by default. wakeups may be nil: waiters then poll.
func NewWatchdog(c redis.UniversalClient, ttl time.Duration, wakeups *Wakeups, steps *step.Stream) *Watchdog {
	return &Watchdog{id: lock.NewOwner(), holds: &atomic.Uint64{}, c: c, ttl: ttl, wakeups: wakeups, steps: steps}
}

// WithLease returns the same lock with a fixed lease time instead of renewal, like tryLock(wait, lease) in the
// write-ups: the lease ends after that time, however long the work takes. [lock.WithLease] does the same for a single
// Acquire.
func (l *Watchdog) WithLease(lease time.Duration) *Watchdog {
	fixed := *l
	fixed.ttl, fixed.lease = lease, lease
	return &fixed
}

// leased returns the lock for an Acquire under ctx, which may have a lease time.
func (l *Watchdog) leased(ctx context.Context) (*Watchdog, error) {
	d, err := lock.TTL(ctx, "watchdog", 0, leastTTL)
	if err != nil || d == 0 {
		return l, err
	}
	return l.WithLease(d), nil
}

// watchdogPoll is the longest pause between two tries of a waiter that gets no messages. latchTime is how long Redis
// remembers the answer to a release.
const (
	watchdogPoll = 50 * time.Millisecond
	latchTime    = 10 * time.Second
)

// holdKey finds, in a context, the hold of one key; the value is a *hold.
type holdKey string

// Acquire enters the lease that ctx carries ([lock.WithReentry]), or takes the lock. Between tries it waits for
// the broadcast of a release, or for the rest of the holder's TTL as Redis last reported it, whichever comes
// first. Besides that it does not poll: like a waiter of Redisson, it sleeps for the rest of that TTL if the
// message is lost.
func (l *Watchdog) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	ctx = lock.BeginWait(ctx)
	l.steps.At(ctx, step.Waiting, key)
	if h, ok := ctx.Value(holdKey(key)).(*hold); ok && lock.MayReenter(ctx) {
		return h.enter(ctx)
	}
	l, err := l.leased(ctx)
	if err != nil {
		return nil, err
	}
	owner := l.newOwner()
	sent, ttl, err := l.take(ctx, key, &owner)
	if err == nil && ttl > 0 {
		if !lock.MayWait(ctx) {
			return nil, lock.GaveUp(ctx)
		}
		sent, err = l.wait(ctx, key, &owner)
	}
	if err != nil {
		return nil, err
	}
	l.steps.At(ctx, step.Locked, key)
	return newHold(ctx, l, key, owner, sent), nil
}

// newOwner numbers a hold of this process.
func (l *Watchdog) newOwner() string { return fmt.Sprintf("%s:%d", l.id, l.holds.Add(1)) }

// wait joins the channel first and then tries again: otherwise it would miss a release in between.
func (l *Watchdog) wait(ctx context.Context, key string, owner *string) (sent time.Time, err error) {
	wake, leave := l.wakeups.join(channelOf(key))
	defer leave()
	for {
		sent, ttl, err := l.take(ctx, key, owner)
		if err != nil {
			l.wakeups.pass(channelOf(key)) // a woken waiter that gives up must not keep the others asleep
		}
		if err != nil || ttl <= 0 {
			return sent, err
		}
		if wake == nil || l.wakeups.ended() {
			wake, ttl = nil, min(ttl, watchdogPoll)
		}
		if err := lock.Pause(ctx, ttl, wake); err != nil {
			return sent, err
		}
	}
}

// take tries to be the first to enter. If the answer is lost, or arrives after the TTL, the lock may still be ours, so
// take releases it; if that fails too, the lock expires. The release may even arrive after the next try, so that has
// another owner.
func (l *Watchdog) take(ctx context.Context, key string, owner *string) (sent time.Time, ttl time.Duration, err error) {
	sent, ttl, err = l.try(ctx, key, *owner, 1)
	late := err == nil && ttl <= 0 && lock.TooLate(sent, l.ttl)
	switch {
	case late:
		ttl = time.Millisecond // treated as held: the next try shows it
	case err == nil || notSent(err):
		return sent, ttl, err
	}
	back, cancel := lock.Detached(ctx)
	defer cancel()
	_, _ = l.leave(back, key, *owner, newRequest(), 0)
	*owner = l.newOwner()
	return sent, ttl, err
}

// try sends the script once, for an owner that will have the given number of entries. ttl is 0 if the lock is ours,
// else the least time that the holder has left.
func (l *Watchdog) try(ctx context.Context, key, owner string, entries int) (sent time.Time, ttl time.Duration,
	err error) {
	sent = time.Now()
	left, err := watchdogAcquire.Run(ctx, l.c, []string{key}, l.ttl.Milliseconds(), owner, entries).Int64()
	switch {
	case errors.Is(err, redis.Nil):
		return sent, 0, nil
	case err == nil && left == -2: // expired within the script, where the server's time does not stand still
		return sent, time.Millisecond, nil
	case err == nil && left < 0: // no expiry: somebody removed it by hand; wait for a message, at most for a TTL
		return sent, l.ttl, nil
	case err == nil:
		return sent, max(time.Duration(left)*time.Millisecond, time.Millisecond), nil
	case lock.Ended(ctx):
		return sent, 0, lock.GaveUp(ctx)
	}
	return sent, 0, fmt.Errorf("%w: watchdog: %w", lock.ErrUnavailable, err)
}

// leave tells Redis how many entries the owner has left; held is false if the lock was not the owner's. request
// identifies this release, so that a duplicate gets the same answer.
func (l *Watchdog) leave(ctx context.Context, key, owner, request string, entries int) (held bool, err error) {
	keys := []string{key, redissonName("redisson_unlock_latch", key) + ":" + request}
	err = watchdogRelease.Run(ctx, l.c, keys, l.ttl.Milliseconds(), owner, entries, latchTime.Milliseconds(),
		channelOf(key)).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

// newRequest draws a random id for a release.
func newRequest() string { return strings.ReplaceAll(lock.NewOwner(), "-", "") }

// channelOf names the channel on which the release of a lock is announced.
func channelOf(key string) string { return redissonName("redisson_lock__channel", key) }

// redissonName is the name that Redisson gives to what belongs to a key. In a cluster it is in the key's slot.
func redissonName(prefix, key string) string {
	if strings.Contains(key, "{") {
		return prefix + ":" + key
	}
	return prefix + ":{" + key + "}"
}
