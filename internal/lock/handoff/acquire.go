package handoff

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// sendAcquire sends the acquire for c's token. The mutex is held.
func (c *contender) sendAcquire() {
	e := c.e
	if e.closed {
		return
	}
	queue := c.mayQueue() && e.subscriber.subscribed(c.key) // a process without a subscriber would be skipped
	flag := "0"
	if queue {
		flag = "1"
	}
	ttl := e.server.ttl
	if c.lease > 0 {
		ttl = decimal(c.lease.Milliseconds())
	}
	r := e.server.newRequest(c.mode.scripts().acquire, c.mode, ttl, c.key, c.token).add(flag,
		decimal(c.mode.fences(c.e.o.Cohort)))
	r.token, r.queue = c.token, queue
	if e.o.Replicas == 0 {
		c.asked = c.acquire != nil || c.reacquired
		c.acquire = e.server.send(r, c.onAcquireReply)
		return
	}
	e.spawn(func() {
		e.server.sendReplicated(c.key, r)
		c.onAcquireReply(r)
	})
}

// onAcquireReply handles the outcome of an acquire. If the acquire must be sent again, a goroutine of its own does
// that.
func (c *contender) onAcquireReply(r *request) {
	e, token := c.e, r.token
	e.keeper.noteReply(r.err)
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.token != token || c.state != asking { // given up meanwhile, or granted by a message that came before the reply
		return
	}
	c.mayArriveLate = c.mayArriveLate || r.late
	resend := func(wait func() error) {
		e.spawn(func() {
			err := wait()
			e.mu.Lock()
			defer e.mu.Unlock()
			if c.token != token || c.state != asking {
				return
			}
			if err != nil {
				c.failWaiters(unavailable(err), true)
				return
			}
			c.sendAcquire()
		})
	}
	if again(r.err) && c.mayQueue() {
		c.failOverdue(unavailable(r.err))
		c.refusals = min(c.refusals+1, maxTries)
		resend(func() error { return lock.Pause(context.Background(), againPause(int(c.refusals)), nil) })
		return
	}
	c.unanswered++
	if !permanent(r.err) && c.unanswered < maxTries {
		c.mayArriveLate = c.mayArriveLate || !again(r.err)
		rest := retryPause(int(c.unanswered))
		resend(func() error { return lock.Pause(context.Background(), rest, nil) })
		return
	}
	c.unanswered = 0
	if !c.handleReply(e.server.parse(r.reply, r.sent, r.err), r.queue) {
		resend(func() error {
			ctx, cancel := lock.Detached(context.Background())
			defer cancel()
			return e.subscriber.awaitSubscribed(ctx, c.key)
		})
	}
}

// handleReply handles a reply about c's token. It returns false if c is not queued yet, and must subscribe first. The
// mutex is held.
func (c *contender) handleReply(a answer, queue bool) bool {
	e := c.e
	switch {
	case a.err != nil:
		c.failWaiters(unavailable(a.err), true)
	case a.verdict < 0 || c.evicted:
		key, token, cancel := c.key, c.token, c.mayArriveLate
		c.endAttempt(byReply)
		c.begin()
		if cancel {
			e.spawn(func() { e.cleaner.cancel(key, token) })
		}
	case a.verdict > 0:
		c.onOwned(a)
	case queue && c.acquireAgain: // a message overtook the reply
		c.sendAnotherAcquire()
	case queue:
		c.setState(queued, byReply)
		c.confirmedAt, c.serverTime = a.sent, a.time
		c.rejectOverdue(true)
		if c.waiters.size > 0 {
			e.pollers.watch(c, a.ttl)
		}
	default:
		c.rejectOverdue(c.mayArriveLate) // an earlier acquire may still take the lock
		return c.waiters.size == 0
	}
	return true
}

// onOwned handles a reply which says that c owns the lock. If it took so long that too little of the TTL is left, the
// acquire is sent again, which renews the lock; after the third such reply the waiters get ErrUnavailable. The mutex is
// held.
func (c *contender) onOwned(a answer) {
	took := c.e.now() - a.sent
	switch {
	case a.verdict == 1 && c.mode == writing:
		c.drain(byReply, a, c.ttl())
	case validUntil(0, c.ttl())-took >= c.grantTimeout()/4:
		c.grant(byReply, a.fence, a.sent, c.ttl())
	default:
		c.e.log.report(grantLate, c.key, nil)
		if c.lateGrants++; c.lateGrants < maxTries {
			c.sendAnotherAcquire()
			return
		}
		c.failWaiters(fmt.Errorf("%w: engine: the TTL of %s is shorter than the way to Redis: an answer took %s",
			lock.ErrUnavailable, c.ttl(), took), true)
	}
}

// sendAnotherAcquire sends an acquire for a token that may be in the queue, or own the lock. The mutex is held.
func (c *contender) sendAnotherAcquire() {
	c.reacquired, c.acquireAgain = true, false
	c.sendAcquire()
}

// engineKey finds, in a context, an engine's hold of one key; the value is a *hold.
type engineKey struct {
	e   *Engine
	key string
}

// acquire re-enters the hold that ctx carries, or waits for a new one.
func (e *Engine) acquire(ctx context.Context, key string, m mode) (lock.Lease, error) {
	ctx, key = lock.BeginWait(ctx), e.keyName(key)
	d, err := lock.TTL(ctx, "engine", 0, minTTL)
	switch {
	case err != nil:
		return nil, err
	case d > longest:
		return nil, fmt.Errorf("%w: engine: %s is longer than %s", lock.ErrLeaseTime, d, longest)
	case e.server.cluster() && lock.HashTag(key) == "" && (key == "" || strings.Contains(key, "}")):
		return nil, fmt.Errorf("%w: %q", ErrKey, key)
	}
	if d > 0 && m == handingOff { // the other waiters of a shared contender would have the lease time too
		m = exclusive
	}
	e.o.Steps.At(ctx, step.Waiting, key)
	if h, ok := ctx.Value(engineKey{e, key}).(*hold); ok && (lock.MayReenter(ctx) || !h.c.mode.covers(m)) {
		if l, err := h.reenter(ctx, m); l != nil || err != nil {
			return l, err
		}
	}
	if ctx.Err() != nil {
		return nil, lock.GaveUp(ctx)
	}
	w := &waiter{ctx: ctx, ready: make(chan struct{}), began: e.now()}
	w.place.member = w
	var limit time.Duration
	until, bounded := lock.WaitUntil(ctx)
	if bounded {
		limit = time.Until(until)
		w.overdue = limit <= 0
	}
	add(e.m.Waiting, 1)
	defer add(e.m.Waiting, -1)
	c, err := e.enqueue(w, key, m, d)
	if err == nil {
		err = c.await(w, bounded, limit)
	}
	if err != nil {
		if errors.Is(err, lock.ErrBusy) {
			add(e.m.TimedOut, 1)
		}
		return nil, err
	}
	e.o.Steps.At(ctx, step.Locked, key)
	return &w.hold.first, nil
}

// await waits until w is served, or gives up. If an attempt is in flight when the wait runs out, it has
// [Options.AttemptLimit] to be answered.
func (c *contender) await(w *waiter, bounded bool, limit time.Duration) error {
	e := c.e
	var expired <-chan time.Time
	var timer *time.Timer
	if bounded {
		if limit <= 0 {
			limit = e.o.attemptLimit()
		}
		timer = time.NewTimer(limit)
		defer timer.Stop()
		expired = timer.C
	}
	for {
		select {
		case <-w.ready:
			return w.err
		case <-w.ctx.Done():
			if h := c.leave(w); h != nil { // granted a moment ago: pass it on
				e.mu.Lock()
				e.spawn(func() { _ = h.once.Do(func() error { return h.release(context.Background()) }) })
				e.mu.Unlock()
			}
			return lock.GaveUp(w.ctx)
		case <-expired:
			e.mu.Lock()
			limitUsed, inFlight := w.overdue, c.state == asking
			w.overdue = true
			e.mu.Unlock()
			if inFlight && !limitUsed { // the attempt has its own limit now
				timer.Reset(e.o.attemptLimit())
				continue
			}
			c.leave(w)
			return w.overdueError(e.o.attemptLimit(), limitUsed)
		}
	}
}

// attemptLimit is how long an attempt may go unanswered if its caller's wait is bounded.
func (o *Options) attemptLimit() time.Duration {
	if o.Replicas > 0 {
		return o.AttemptLimit + o.ReplicasTimeout
	}
	return o.AttemptLimit
}

// overdueError returns the outcome of a waiter that has left because its time was over.
func (w *waiter) overdueError(limit time.Duration, limitUsed bool) error {
	select {
	case <-w.ready: // served, or failed, just before it left
		return w.err
	default:
	}
	if limitUsed {
		return fmt.Errorf("%w: engine: no answer within %s", lock.ErrUnavailable, limit)
	}
	return lock.GaveUp(w.ctx)
}
