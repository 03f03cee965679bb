package handoff

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// hold is one ownership of the lock by one caller. That caller and each re-entry has a lease of it.
type hold struct {
	once   lock.ReleaseOnce // the release
	e      *Engine
	c      *contender
	token  string
	parent context.Context
	ctxMu  sync.Mutex      // guards the next three; locked after the engine's mutex, never before it
	ctx    context.Context // made at the first call of Context: see BenchmarkPassingOn
	cancel context.CancelCauseFunc
	cause  error // why the hold has ended, unless its caller's context had before
	fence  uint64
	since  time.Duration
	// when the hold ends, on the engine's clock; expired once its context has ended for that reason
	endsAt         atomic.Int64
	validUntil     time.Duration // set when it ends
	first          engineLease
	entries        int32
	state          holdState
	mayArriveLate  bool // of its attempt, when that ended
	releaseUnknown bool // a release was sent and not answered
	cancelled      bool // lost, and its attempt was cancelled then
}

// context is that of the hold.
func (h *hold) context() context.Context {
	h.ctxMu.Lock()
	defer h.ctxMu.Unlock()
	if h.ctx == nil {
		parent := context.WithValue(h.parent, engineKey{h.e, h.c.key}, h)
		if h.cause != nil {
			parent = context.WithoutCancel(parent) // whose end came later, or not at all
		}
		ended, cancel := context.WithCancelCause(parent)
		h.ctx, h.cancel = lock.Clocked(ended, h.expireIfDue), cancel
		if h.cause != nil {
			cancel(h.cause)
		}
	}
	return h.ctx
}

// expired is the value of endsAt after the hold's context has ended because its time was over.
const expired = 0

// expireIfDue ends the hold's context if its time is over, even if the timer is late; the engine follows when the timer
// fires. It takes no mutex: Err of a context may be called while the engine's mutex is held, if that context belongs to
// another hold and descends from this one.
func (h *hold) expireIfDue() {
	for {
		ends := h.endsAt.Load()
		if ends != expired && h.e.now() < time.Duration(ends) {
			return
		}
		if ends == expired || h.endsAt.CompareAndSwap(ends, expired) {
			h.cancel(lock.ErrLost) // without effect on a hold that has ended otherwise
			return
		}
	}
}

// over says whether the hold has ended, or its time has run out. The mutex is held.
func (h *hold) over() bool { return h.state > holdActive || int64(h.e.now()) >= h.endsAt.Load() }

// extend makes c's hold valid until then. It returns false if its context has just ended because its time was over. The
// mutex is held.
func (c *contender) extend(until time.Duration) bool {
	c.validUntil = until
	for {
		ends := c.hold.endsAt.Load()
		if ends == expired {
			return false
		}
		if c.hold.endsAt.CompareAndSwap(ends, int64(c.leaseEnd())) {
			return true
		}
	}
}

// leaseEnd is when the hold of c expires: no later than in Redis, and after [Options.MaxHold].
func (c *contender) leaseEnd() time.Duration {
	if most := c.e.o.MaxHold; most > 0 && c.hold != nil {
		return min(c.validUntil, c.hold.since+most)
	}
	return c.validUntil
}

// leaseLost ends a hold that is no longer valid, and starts a new attempt for the other waiters of c. The mutex is
// held.
func (c *contender) leaseLost() {
	e := c.e
	h := c.hold
	h.end(holdLost, c.validUntil, lock.ErrLost)
	if c.lease > 0 { // which was to be expected
		add(e.m.Lost, 1)
	} else {
		e.log.report(leaseEnded, c.key, nil)
	}
	h.cancelled = h.mayArriveLate || c.lease > 0
	if h.cancelled { // a lease that has ended frees the lock at once
		e.spawn(func() { e.cleaner.cancel(c.key, h.token) })
	}
	c.endAttempt(byLoss)
	c.restart()
}

// restart starts a new attempt for the waiters of c, or removes c if it has none.
func (c *contender) restart() {
	switch {
	case c.waiters.size > 0:
		c.begin()
	case c.e.contenders[c.key] == c:
		delete(c.e.contenders, c.key)
	}
}

// end ends the hold and its context, once. The mutex is held.
func (h *hold) end(to holdState, until time.Duration, cause error) {
	h.mayArriveLate = h.c.mayArriveLate
	ended := h.state == holdEnded // by Close
	if !ended || to == holdLost {
		h.setState(to)
	}
	if ended {
		return
	}
	h.validUntil = until
	h.ctxMu.Lock()
	if h.parent.Err() == nil {
		h.cause = cause
	}
	cancel := h.cancel
	h.ctxMu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
	add(h.e.m.Held, -1)
	observe(h.e.m.Hold, h.e.now()-h.since)
}

// release passes the lock on to the next waiter of this process, or releases it in Redis.
func (h *hold) release(ctx context.Context) error {
	e, c := h.e, h.c
	ctx = context.WithoutCancel(ctx)
	e.o.Steps.At(ctx, step.Releasing, c.key)
	e.mu.Lock()
	next, passed, cancelAfter := "", false, false
	if c.hold == h { // else it was lost, or this is a repeated call
		now := e.now()
		passed = c.mayPass(now)
		if passed {
			c.serve(now) // first of all: the rest can wait
		}
		h.end(holdEnded, c.validUntil, context.Canceled)
		if !passed {
			cancelAfter = h.mayArriveLate && c.mode != reading // a read's release leaves a tombstone itself
			next = c.disarm()
		}
	}
	e.mu.Unlock()
	if passed {
		e.o.Steps.At(ctx, step.Released, c.key)
		return nil
	}
	err := h.releaseInRedis(ctx, next)
	if cancelAfter { // Redis remembers the last releaser only
		e.cleaner.cancel(c.key, h.token)
	}
	return err
}

// disarm ends an attempt that is about to be released: no renewal includes it any more. It returns the token of the
// next attempt if c has more waiters and the release can queue it. The mutex is held.
func (c *contender) disarm() (next string) {
	c.endAttempt(byRelease)
	if c.waiters.size > 0 && c.e.subscriber.subscribed(c.key) { // a process without a subscriber would be skipped
		c.newAttempt()
		return c.token
	}
	c.restart()
	return ""
}

// mayPass says whether the next waiter of this process may have the lock: it bounds the cohort, and the lease must last
// for a while.
func (c *contender) mayPass(now time.Duration) bool {
	return c.waiters.size > 0 && c.fence <= c.last && now-c.grantedAt < c.e.o.CohortTime &&
		c.validUntil-now > c.e.grantTimeout/4
}

// releaseInRedis sends the release. If next is not "", the release also queues c again, with that token.
func (h *hold) releaseInRedis(ctx context.Context, next string) error {
	e, c := h.e, h.c
	released, a := h.sendRelease(next)
	if next != "" {
		c.onReleaseReply(next, a)
	}
	switch {
	case errors.Is(a.err, ErrVersion): // the reader is out
		return fmt.Errorf("lock: engine: released, but not alone: %w", a.err)
	case a.err != nil:
		h.releaseUnknown = true
		e.cleaner.later(c.key, h.token, e.now(), a.err) // else the lock would stay for the rest of its TTL
		return fmt.Errorf("lock: engine: release unknown: %w", a.err)
	case h.cancelled: // the cancel is remembered as a release, and was sent when others could be granted the lock
		return lock.ErrLost
	case released == 1:
		e.o.Steps.At(ctx, step.Released, c.key)
		return nil
	}
	return h.notOwner(a.late, released < 0)
}

// onReleaseReply handles the reply to a release that queues the token next of c.
func (c *contender) onReleaseReply(next string, a answer) {
	e := c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case c.token != next || c.state != asking: // granted by a message that was faster, or given up
	case a.err != nil || a.verdict < 0 || a.verdict > 0 && e.o.Replicas > 0:
		c.mayArriveLate = c.mayArriveLate || a.err != nil
		c.sendAnotherAcquire() // the release may have queued the token already
	default:
		c.handleReply(a, true)
	}
}

// notOwner is the outcome of a release that has found another owner, or none. An earlier one, whose reply was lost, may
// have released the lock, unless the holder was evicted.
func (h *hold) notOwner(retried, evicted bool) error {
	e, wasLost := h.e, h.state == holdLost
	sent, inTime := !evicted && (h.releaseUnknown || retried && !wasLost), e.now() < h.validUntil
	if sent { // the reply says evicted only if nobody has released the lock since
		was, err := e.server.wasEvicted(h.c.key, h.token)
		if err != nil {
			h.releaseUnknown = true
			return fmt.Errorf("lock: engine: release unknown: %w", err)
		}
		sent = !was
	}
	switch {
	case sent && !wasLost && inTime: // only this release can have ended it
		return nil
	case sent:
		return errors.New("lock: engine: release unknown: it was sent, and the lease has run out since")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !wasLost { // not noticed before
		h.setState(holdLost)
		e.log.report(leaseEnded, h.c.key, nil)
	}
	return lock.ErrLost
}

// sendRelease releases h and, if next is not "", queues that token. released is 1, or 0 if the token of h did not own
// the lock, or -1 if that is because its holder was evicted.
func (h *hold) sendRelease(next string) (released int64, a answer) {
	e, c, token := h.e, h.c, h.token
	if c.mode == reading && h.mayArriveLate {
		next = readTombstone
	}
	var r *request
	if script := c.mode.scripts().release; next == "" || c.mode.shares() {
		r = e.server.newRequest(script, c.mode, e.server.ttl, c.key, token).add(next)
	} else { // with the tombstone of the token that it queues
		k := scriptKeys(c.key, next)
		r = newRequest(script, k[:]...).add(token, e.server.ttl, e.server.route, next)
	}
	e.server.do(r)
	v, _ := r.reply.([]any)
	if r.err != nil || len(v) == 0 {
		return number(r.reply), answer{err: r.err, verdict: -1}
	}
	a = e.server.parse(v[1:], r.sent, nil)
	a.late = r.late
	return number(v[0]), a
}

// engineLease is one entry into a hold.
type engineLease struct {
	h        *hold
	ctx      context.Context // the context of a re-entry; nil for the first entry
	stop     func()          // ends ctx, unless it is the caller's; nil for the first entry
	released bool
}

// Context ends with ErrLost if the lock was not renewed in time, or was held for too long. Its Err and Done compare the
// clock with that end and do not rely on a timer. An Acquire under [lock.WithReentry] of it re-enters.
func (l *engineLease) Context() context.Context {
	if l.ctx != nil {
		return l.ctx
	}
	return l.h.context()
}

// Fence rises with every hold; all entries of one hold have the same fence.
func (l *engineLease) Fence() uint64 { return l.h.fence }

// Release leaves the hold; the last entry to leave releases the lock. Nil may also mean that the lock was passed on
// within this process.
func (l *engineLease) Release(ctx context.Context) error {
	h := l.h
	h.e.mu.Lock()
	if !l.released {
		l.released = true
		h.entries--
	}
	inner, lost := h.entries > 0, h.state == holdLost
	h.e.mu.Unlock()
	if l.stop != nil {
		l.stop()
	}
	if !inner {
		return h.once.Do(func() error { return h.release(ctx) })
	}
	h.e.o.Steps.At(ctx, step.Releasing, h.c.key)
	if lost {
		return lock.ErrLost
	}
	h.e.o.Steps.At(ctx, step.Released, h.c.key)
	return nil
}

// reenter re-enters the hold: it counts the entry here and sends nothing. It returns no lease and no error if the hold
// was released normally. Then ctx was detached from the lease's context, still carries the hold, and may be used to
// acquire the lock again.
func (h *hold) reenter(ctx context.Context, m mode) (lock.Lease, error) {
	entered, err := h.countEntry(ctx, m)
	if err != nil || !entered {
		return nil, err
	}
	h.e.o.Steps.At(ctx, step.Locked, h.c.key)
	inner, stop := lock.Reentered(ctx, h.context())
	return &engineLease{h: h, ctx: inner, stop: stop}, nil
}

// countEntry counts a re-entry. It returns false and no error if the hold was released normally.
func (h *hold) countEntry(ctx context.Context, m mode) (bool, error) {
	ended := ctx.Err() != nil
	refused := lock.RefuseLease(ctx, "engine: a re-entry into a hold that is renewed")
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	switch {
	case h.entries == 0 && h.state != holdLost && !ended:
		return false, nil
	case h.entries == 0 || h.over():
		return false, lock.ErrLost
	case refused != nil && h.c.lease == 0:
		return false, refused
	case !h.c.mode.covers(m):
		return false, ErrUpgrade
	}
	h.entries++
	return true, nil
}

// A contender with a lease time ([lock.WithLease]) has one waiter, and its lock is taken for that time: the key's TTL
// is the lease time, and no renewal is sent. There are two exceptions. A grant by message lasts only for the grant
// timeout, so if the lease time is longer, one renewal sets the TTL to what is left of it. And after a reconnect the
// hold is checked like any other, by a renewal that does not move its end.
//
// When the lease time is over, the engine cancels the attempt: the lock goes to the next waiter at once, and need not
// expire.

// ttl is how long c has the lock if nobody renews it.
func (c *contender) ttl() time.Duration {
	if c.lease > 0 {
		return c.lease
	}
	return c.e.o.TTL
}

// grantTimeout is for how long a grant by message can be used before it is renewed.
func (c *contender) grantTimeout() time.Duration { return min(c.e.grantTimeout, c.ttl()) }

// renewAt returns when the alarm of a hold must ring, to renew the hold or to end it. A request that was sent at sent
// has confirmed the hold for ttl.
func (c *contender) renewAt(sent, ttl time.Duration) time.Duration {
	if c.lease > 0 && ttl >= c.lease {
		return c.leaseEnd()
	}
	return min(sent+ttl*2/5, c.leaseEnd())
}

// renewal is the TTL in ms that a renewal sets: what is left of a lease time, else the engine's.
func (c *contender) renewal() string {
	if c.lease == 0 {
		return c.e.server.ttl
	}
	return decimal(max(1, (c.leaseBegan + c.lease - c.e.now()).Milliseconds()))
}

// renewed returns until when c is valid after a renewal that was sent at sent.
func (c *contender) renewed(sent time.Duration) time.Duration {
	if c.lease == 0 {
		return validUntil(sent, c.e.o.TTL)
	}
	return validUntil(c.leaseBegan, c.lease)
}
