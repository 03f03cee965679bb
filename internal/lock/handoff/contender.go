package handoff

import (
	"context"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/redisbatch"
)

// contender contends for one key for waiters of this process: with Handoff for all waiters of the key, else for one. It makes one attempt
// at a time. The engine's mutex guards its fields.
type contender struct {
	e          *Engine
	key        string
	mode       mode
	lease      time.Duration // the lease time, 0 = the hold is renewed; see leasetime.go
	leaseBegan time.Duration // when the lease time began: at the grant
	waiters    fifo[waiter]
	place      place[contender] // among the contenders that are queued for the key
	alarm      alarm
	attempt    // the present one; zero while idle
}

// attempt is what a contender does under one token, from its first request until it gives up, or its lock is released or lost. A new attempt
// has a new token, so that a late reply, message or request about an earlier one has no effect.
type attempt struct {
	token       string
	number      uint64        // of the token
	confirmedAt time.Duration // when the last request that was answered was sent,
	serverTime  int64         // and the server's clock then, in ms

	acquire *redisbatch.Call // while asking: the last acquire that the batcher got
	asked   bool             // another request was made before that acquire
	evicted bool             // while asking, queued or draining: the token was evicted; a reply or message that grants it is older

	hold        *hold         // the present one; nil unless granted
	fence, last uint64        // the next fencing token to give out, the last reserved
	grantedAt   time.Duration // when this process got the lock
	validUntil  time.Duration // until when the lock is surely not expired in Redis, while granted or draining

	state         state
	unanswered    uint8 // while asking: acquires since the last reply
	refusals      uint8 // while asking: acquires that the server was not ready for, see again
	lateGrants    uint8 // while asking: grants whose replies took too long
	acquireAgain  bool  // while asking: a message came while an acquire was in flight, so another must follow its reply
	renewing      bool  // while granted: a renewal is in flight
	grantNoted    bool  // while granted: Redis has a note of the grant, until the first renewal
	reacquired    bool  // an acquire was sent although an earlier request may have queued the token, so a message may overtake it
	mayArriveLate bool  // a request for this token may arrive after the release: it must be cancelled then
}

// waiter is a caller in Acquire. ready is signalled once, when hold or err is set.
type waiter struct {
	ctx       context.Context
	ready     chan struct{}
	hold      *hold
	err       error
	began     time.Duration
	overdue   bool // its wait has run out: it waits only for the reply to the attempt that is in flight
	contended bool // had to wait for another holder or waiter
	place     place[waiter]
}

func (w *waiter) resolve(h *hold, err error) {
	w.hold, w.err = h, err
	close(w.ready)
}

// enqueue adds w to the contender for key, or begins a new contender, which has the lease time d unless d is 0.
func (e *Engine) enqueue(w *waiter, key string, m mode, d time.Duration) (*contender, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	if c := e.contenders[key]; m == handingOff && c != nil {
		w.contended = true
		if w.overdue && c.state != asking {
			return nil, lock.ErrBusy
		}
		c.waiters.push(&w.place)
		return c, nil
	}
	c := &contender{e: e, key: key, mode: m, lease: d}
	c.alarm.contender, c.place.member = c, c
	c.waiters.push(&w.place)
	if m == handingOff {
		e.contenders[key] = c
	}
	e.begin(c)
	return c, nil
}

// mayQueue says whether a waiter of c may wait for longer than the reply to one attempt.
func (c *contender) mayQueue() bool {
	for w := range c.waiters.all() {
		if !w.overdue {
			return true
		}
	}
	return false
}

// newAttempt gives c a new attempt. The caller sends its first request.
func (e *Engine) newAttempt(c *contender) {
	e.lastNumber++
	c.attempt = attempt{number: e.lastNumber, token: e.token(e.lastNumber, c.fences()), confirmedAt: e.now()}
	c.setState(asking, byStart)
	e.attempts[c.number] = c
}

// begin begins an attempt with an acquire.
func (e *Engine) begin(c *contender) {
	e.newAttempt(c)
	e.sendAcquire(c)
}

// grant gives c's lock to the first of its waiters. c owns the lock for ttl, counted from a moment that is not before sent.
func (e *Engine) grant(c *contender, because event, fence uint64, sent, ttl time.Duration) {
	e.unwatch(c)
	c.setState(granted, because)
	c.confirmedAt, c.grantedAt, c.validUntil, c.leaseBegan = sent, e.now(), validUntil(sent, min(ttl, c.ttl())), sent
	c.fence, c.last = c.firstFence(fence), fence
	c.renewing, c.grantNoted = false, c.mode != reading
	e.serve(c, sent)
	e.schedule(&c.alarm, c.renewAt(sent, ttl))
	e.rejectOverdue(c, true)
}

// serve lets the first waiter hold the lock.
func (e *Engine) serve(c *contender, since time.Duration) {
	w := c.waiters.pop()
	now := e.now()
	c.hold = &hold{e: e, c: c, token: c.token, parent: w.ctx, fence: c.fence, since: now, entries: 1}
	c.hold.first.h = c.hold
	c.hold.endsAt.Store(int64(c.leaseEnd()))
	c.fence++
	add(e.m.Acquired, 1)
	add(e.m.Held, 1)
	observe(e.m.Wait, now-w.began)
	if w.contended {
		add(e.m.Contended, 1)
		observe(e.m.Handoff, now-since)
	}
	w.resolve(c.hold, nil)
}

// onGrantMessage handles a message of a script: the lock of key was granted to token.
func (e *Engine) onGrantMessage(token, mark string, fence uint64, serverTime int64, key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.find(token)
	if c == nil { // its waiter is gone: the cancel passes the lock on
		e.spawn(func() { e.sendCancel(key, token) })
		return
	}
	if c.state == granted || c.evicted {
		return // a poll, or the answer to this process's own [Engine.ForceRelease], was faster
	}
	for w := range c.waiters.all() {
		w.contended = true
	}
	// The acquire in flight may arrive after the release: a second one, maybe the client's, or a read's, whose release
	// is not remembered.
	c.mayArriveLate = c.mayArriveLate || c.state == asking && (c.reacquired || c.mode == reading || e.repeatsAfter < never)
	at := c.grantedSince(serverTime)
	// A message from before a reply that said queued is of a grant that has ended.
	late := validUntil(at, c.grantTimeout())-e.now() < c.grantTimeout()/4
	if late {
		e.report(grantLate, c.key, nil)
	}
	if late || serverTime < c.serverTime || !c.sufficient(mark) || e.o.Replicas > 0 {
		e.reacquire(c, byMessage) // which also renews
		return
	}
	e.onGrant(c, mark, answer{fence: fence, sent: at, time: serverTime})
}

// grantedSince returns when a grant was made at the latest: as long ago as the server's clock says, counted from the last reply, but after the
// request for that reply was sent.
func (c *contender) grantedSince(serverTime int64) time.Duration {
	at := c.confirmedAt
	if c.serverTime > 0 {
		at += max(0, time.Duration(serverTime-c.serverTime)*time.Millisecond)
	}
	return min(at, c.e.now())
}

// leave removes a waiter that gives up. It returns the hold that the waiter was given meanwhile, if any.
func (e *Engine) leave(c *contender, w *waiter) *hold {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.waiters.remove(&w.place) && c.waiters.size == 0 && c.state != granted {
		e.failWaiters(c, nil, true)
	}
	return w.hold
}

// rejectOverdue fails the overdue waiters. If none is left, it ends the attempt as failWaiters does.
func (e *Engine) rejectOverdue(c *contender, cancel bool) {
	for w := range c.waiters.all() {
		w.contended = true
	}
	c.failOverdue(lock.ErrBusy)
	if c.waiters.size == 0 && c.state != granted {
		e.failWaiters(c, nil, cancel)
	}
}

func (c *contender) failOverdue(err error) {
	for w := range c.waiters.all() {
		if w.overdue {
			c.waiters.remove(&w.place)
			w.resolve(nil, err)
		}
	}
}

// failWaiters fails all waiters and, unless the lock is held, ends the attempt. If cancel is true, it cancels the attempt in Redis too.
func (e *Engine) failWaiters(c *contender, err error, cancel bool) {
	for c.waiters.size > 0 {
		c.waiters.pop().resolve(nil, err)
	}
	if c.state == granted {
		return
	}
	key, token := c.key, c.token
	unsent := e.withdraw(c)
	e.endAttempt(c, byGivingUp)
	e.removeLocal(c)
	if cancel && !unsent {
		e.spawn(func() { e.sendCancel(key, token) })
	}
}

// withdraw takes back c's acquire if it still waits to be sent: after Redis was silent, the requests of callers that have left would hold up
// all others. It returns true if Redis has seen no request of the attempt. The mutex is held.
func (e *Engine) withdraw(c *contender) (unsent bool) {
	return c.acquire != nil && e.batches.Withdraw(c.acquire) && !c.asked
}

// endAttempt ends c's attempt in this process: a reply or message about its token finds no contender any more.
func (e *Engine) endAttempt(c *contender, because event) {
	e.unwatch(c)
	e.unschedule(&c.alarm)
	delete(e.attempts, c.number)
	c.setState(idle, because)
	c.attempt = attempt{}
}

// removeLocal removes a contender that has no waiter and no attempt.
func (e *Engine) removeLocal(c *contender) {
	if e.contenders[c.key] == c {
		delete(e.contenders, c.key)
	}
}
