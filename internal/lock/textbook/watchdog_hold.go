package textbook

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// hold is one ownership of the lock; a lease is one entry into it.
type hold struct {
	l          *Watchdog
	key, owner string
	expiry     *lock.Expiry
	end        time.Time // of a hold with a lease time

	mu      sync.Mutex // orders renewals and releases: no renewal is sent once the last release has begun
	entries int
	stop    chan struct{}
}

func newHold(ctx context.Context, l *Watchdog, key, owner string, sent time.Time) lock.Lease {
	h := &hold{l: l, key: key, owner: owner, end: sent.Add(l.lease), entries: 1, stop: make(chan struct{})}
	h.expiry = lock.NewExpiry(ctx, sent, l.ttl)
	if l.lease == 0 {
		go h.watch()
	}
	return newEntry(h.expiry.Context(), func() {}, h)
}

// watch is the watchdog. A renewal that fails is tried again at the next tick; the expiry decides whether the lease is
// still valid.
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
	if h.entries == 0 || h.expiry.Lost() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.expiry.Context()), min(h.l.ttl/3, lock.CommandTimeout))
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

// remaining returns the lock whose TTL is to be sent with an entry, or with the release of one: that of l, or what a
// lease time leaves of it, because entries do not prolong such a hold.
func (h *hold) remaining() *Watchdog {
	if h.l.lease == 0 {
		return h.l
	}
	own := *h.l
	own.ttl = max(time.Until(h.end), time.Millisecond)
	return &own
}

// enter adds an entry, also in Redis, as Redisson does. If that fails nothing has to be undone: the next command of
// this hold tells Redis how many entries there are.
func (h *hold) enter(ctx context.Context) (lock.Lease, error) {
	if h.l.lease == 0 {
		err := lock.RefuseLease(ctx, "watchdog: a re-entry into a hold that is renewed")
		if err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.entries == 0 || h.expiry.Lost() {
		return nil, lock.ErrLost
	}
	l := h.remaining()
	sent, ttl, err := l.try(ctx, h.key, h.owner, h.entries+1)
	switch {
	case err != nil:
		return nil, err
	case ttl > 0 || lock.TooLate(sent, l.ttl): // another client has the lock, or may have it
		h.expiry.Lose()
		return nil, lock.ErrLost
	case l.lease == 0:
		h.expiry.Extend(sent)
	}
	h.entries++
	h.l.steps.At(ctx, step.Locked, h.key)
	inner, stop := lock.Reentered(ctx, h.expiry.Context())
	return newEntry(inner, stop, h), nil
}

// entry is one lease of a hold.
type entry struct {
	h    *hold
	ctx  context.Context
	stop func() // ends the context of a re-entry
	done lock.ReleaseOnce
	left bool // released, whatever the outcome of its release

	request string    // the id of its release
	sent    time.Time // when its release was first sent, if the answer was lost
}

func newEntry(ctx context.Context, stop func(), h *hold) *entry {
	return &entry{h: h, ctx: context.WithValue(ctx, holdKey(h.key), h), stop: stop, request: newRequest()}
}

// Context ends with ErrLost when the lock was not renewed in time; the context of a re-entry also ends with its
// caller's. It carries the hold: an Acquire with it enters again.
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
		e.stop()
		if h.entries--; h.entries == 0 { // stop the watchdog before the release
			close(h.stop)
			h.expiry.Stop()
		}
	}
	h.l.steps.At(ctx, step.Releasing, h.key)
	// the time-out begins only here: a renewal in flight may have held the mutex for longer
	ctx, cancel := lock.Detached(ctx)
	defer cancel()
	began, l := time.Now(), h.l
	if h.entries > 0 {
		l = h.remaining()
	}
	held, err := l.leave(ctx, h.key, h.owner, e.request, h.entries)
	if err != nil {
		if e.sent.IsZero() && !notSent(err) {
			e.sent = began
		}
		return fmt.Errorf("lock: watchdog: release unknown: %w", err)
	}
	// the latch may have expired, and the first release may have freed the lock
	if !held && !e.sent.IsZero() && time.Since(e.sent) > latchTime/2 {
		return errors.New("lock: watchdog: release unknown: it was sent, and the lock is no longer its holder's")
	}
	h.l.steps.At(ctx, step.Released, h.key)
	if !held {
		return lock.ErrLost
	}
	return nil
}
