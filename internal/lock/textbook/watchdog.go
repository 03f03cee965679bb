package textbook

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/lease"
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

// Watchdog is the lock as Redisson's RLock has it: reentrant (a hash of owner to entries), kept alive by a watchdog that
// renews it every third of its TTL, waiters woken by a broadcast when it is released.
//
// Re-entry is explicit: an Acquire with the context of a lease enters that lease again. Where Redisson takes the thread
// for the owner, a goroutine is nobody here.
//
// What breaks it: a process that stops as a whole (a long pause, a suspended machine). Its watchdog stops with it, the key
// expires, a rival enters; and when it wakes up it finishes its write.
type Watchdog struct {
	c       redis.UniversalClient
	ttl     time.Duration
	lease   time.Duration
	wakeups *Wakeups
	steps   *step.Stream
}

// NewWatchdog returns the lock on c. Its TTL is ttl, renewed for as long as it is held. wakeups may be nil: waiters then
// only poll.
func NewWatchdog(c redis.UniversalClient, ttl time.Duration, wakeups *Wakeups, steps *step.Stream) *Watchdog {
	return &Watchdog{c: c, ttl: ttl, wakeups: wakeups, steps: steps}
}

// WithLease returns the same lock with a fixed lease time instead of renewal, as tryLock(wait, lease) of the write-ups: it
// ends after lease however long the work takes.
func (l *Watchdog) WithLease(lease time.Duration) *Watchdog {
	fixed := *l
	fixed.ttl, fixed.lease = lease, lease
	return &fixed
}

// The longest that a waiter goes without trying: when messages should wake it, and when there are none.
const (
	watchdogPoll      = 2 * time.Second
	watchdogPollAlone = 50 * time.Millisecond
)

// holdKey finds, in a context, the hold of one key; the value is a *hold.
type holdKey string

// Acquire enters the lease that ctx carries, or takes the lock. Between tries it waits for a release to be broadcast, for
// the holder's TTL to run out, or for two seconds, whichever comes first.
func (l *Watchdog) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	l.steps.At(ctx, step.Waiting, key)
	if h, ok := ctx.Value(holdKey(key)).(*hold); ok {
		return h.enter(ctx)
	}
	owner := lease.NewOwner()
	sent, ttl, err := l.take(ctx, key, owner)
	if err == nil && ttl > 0 {
		if !lease.MayWait(ctx) {
			return nil, lock.GaveUp(ctx)
		}
		sent, err = l.wait(ctx, key, owner)
	}
	if err != nil {
		return nil, err
	}
	l.steps.At(ctx, step.Locked, key)
	return newHold(ctx, l, key, owner, sent), nil
}

// wait joins the channel first and tries again after that: a release in between would not be heard.
func (l *Watchdog) wait(ctx context.Context, key, owner string) (sent time.Time, err error) {
	wake, leave := l.wakeups.join(channelOf(key))
	defer leave()
	poll := watchdogPoll
	if wake == nil {
		poll = watchdogPollAlone
	}
	for {
		sent, ttl, err := l.take(ctx, key, owner)
		if err != nil {
			l.wakeups.pass(channelOf(key)) // who was woken and leaves must not keep the others asleep
		}
		if err != nil || ttl <= 0 {
			return sent, err
		}
		if err := lease.Pause(ctx, min(ttl, poll), wake); err != nil {
			return sent, err
		}
	}
}

// take tries to be the first to enter. If the answer is lost, or arrives after the TTL, the lock may still be ours, so take releases it;
// if that fails too, the lock expires.
func (l *Watchdog) take(ctx context.Context, key, owner string) (sent time.Time, ttl time.Duration, err error) {
	sent, ttl, err = l.try(ctx, key, owner, 1)
	late := err == nil && ttl <= 0 && lease.TooLate(sent, l.ttl)
	switch {
	case late:
		ttl = time.Millisecond // held, for all we know: the next try tells
	case err == nil || notSent(err):
		return sent, ttl, err
	}
	back, cancel := lease.Detached(ctx)
	defer cancel()
	_, _ = l.leave(back, key, owner, 0)
	return sent, ttl, err
}

// try sends the script once, for an owner that will have so many entries. ttl is 0 when the lock is ours, else how long
// the holder has at least.
func (l *Watchdog) try(ctx context.Context, key, owner string, entries int) (sent time.Time, ttl time.Duration, err error) {
	sent = time.Now()
	left, err := watchdogAcquire.Run(ctx, l.c, []string{key}, l.ttl.Milliseconds(), owner, entries).Int64()
	switch {
	case errors.Is(err, redis.Nil):
		return sent, 0, nil
	case err == nil:
		return sent, max(time.Duration(left)*time.Millisecond, time.Millisecond), nil
	case lease.Ended(ctx):
		return sent, 0, lock.GaveUp(ctx)
	}
	return sent, 0, fmt.Errorf("%w: watchdog: %w", lock.ErrUnavailable, err)
}

// leave tells Redis how many entries the owner has left; held is false when the lock was not the owner's.
func (l *Watchdog) leave(ctx context.Context, key, owner string, entries int) (held bool, err error) {
	return watchdogRelease.Run(ctx, l.c, []string{key, channelOf(key)}, l.ttl.Milliseconds(), owner, entries).Bool()
}

// channelOf names the channel on which the release of a lock is told.
func channelOf(key string) string { return key + ":released" }

// hold is one ownership of the lock; a lease is one entry into it.
type hold struct {
	l          *Watchdog
	key, owner string
	expiry     *lease.Expiry

	mu      sync.Mutex // orders renewals and releases: no renewal is sent once the last release has begun
	entries int
	stop    chan struct{}
}

func newHold(ctx context.Context, l *Watchdog, key, owner string, sent time.Time) lock.Lease {
	h := &hold{l: l, key: key, owner: owner, entries: 1, stop: make(chan struct{})}
	h.expiry = lease.NewExpiry(ctx, sent, l.ttl)
	if l.lease == 0 {
		go h.watch()
	}
	return newEntry(h.expiry.Context(), h)
}

// watch is the watchdog. A renewal that fails is tried again at the next tick: whether the lease is still to be trusted
// is for its expiry to say.
func (h *hold) watch() {
	tick := time.NewTicker(h.l.ttl / 3)
	defer tick.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-tick.C:
			if !h.renew() {
				return
			}
		}
	}
}

// renew reports whether there is anything left to renew.
func (h *hold) renew() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.entries == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.expiry.Context()), min(h.l.ttl/3, lease.CommandTimeout))
	defer cancel()
	sent := time.Now()
	n, err := watchdogRenew.Run(ctx, h.l.c, []string{h.key}, h.l.ttl.Milliseconds(), h.owner).Int()
	switch {
	case err != nil:
		return true
	case n == 0:
		h.expiry.Lose()
		return false
	}
	h.expiry.Extend(sent)
	return true
}

// enter adds an entry, in Redis too, as Redisson does. Where that fails nothing has to be undone: the next command of this
// hold says how many entries there are.
func (h *hold) enter(ctx context.Context) (lock.Lease, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.entries == 0 || errors.Is(context.Cause(h.expiry.Context()), lock.ErrLost) {
		return nil, lock.ErrLost
	}
	sent, ttl, err := h.l.try(ctx, h.key, h.owner, h.entries+1)
	switch {
	case err != nil:
		return nil, err
	case ttl > 0 || lease.TooLate(sent, h.l.ttl): // another client has the lock, or may have it
		h.expiry.Lose()
		return nil, lock.ErrLost
	}
	h.entries++
	h.expiry.Extend(sent)
	h.l.steps.At(ctx, step.Locked, h.key)
	return newEntry(h.expiry.Context(), h), nil
}

// entry is one lease of a hold.
type entry struct {
	h    *hold
	ctx  context.Context
	done lease.ReleaseOnce
	left bool // it no longer counts, whatever has become of its release
	sent bool // a release was sent whose answer was lost
}

func newEntry(ctx context.Context, h *hold) *entry {
	return &entry{h: h, ctx: context.WithValue(ctx, holdKey(h.key), h)}
}

// Context ends with ErrLost when the lock was not renewed in time. It carries the hold: an Acquire with it enters again.
func (e *entry) Context() context.Context { return e.ctx }

// Fence is 0: this lock issues no fencing token.
func (e *entry) Fence() uint64 { return 0 }

// Release leaves the lock once; the last entry's release frees it.
func (e *entry) Release(ctx context.Context) error {
	return e.done.Do(func() error { return e.leave(ctx) })
}

func (e *entry) leave(ctx context.Context) error {
	h := e.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if !e.left {
		e.left = true
		if h.entries--; h.entries == 0 { // first the watchdog, then the lock
			close(h.stop)
			h.expiry.Stop()
		}
	}
	h.l.steps.At(ctx, step.Releasing, h.key)
	ctx, cancel := lease.Detached(ctx) // the time-out begins here: a renewal in flight may have taken longer
	defer cancel()
	held, err := h.l.leave(ctx, h.key, h.owner, h.entries)
	if err != nil {
		e.sent = e.sent || !notSent(err)
		return fmt.Errorf("lock: watchdog: release unknown: %w", err)
	}
	h.l.steps.At(ctx, step.Released, h.key)
	if !held && !e.sent { // after a lost answer, "gone" may be our own doing
		return lock.ErrLost
	}
	return nil
}
