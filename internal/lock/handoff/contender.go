package handoff

import (
	"context"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/redisbatch"
)

// contender contends for one key for waiters of this process: with Handoff for all waiters of the key, else for one. It
// makes one attempt at a time. The engine's mutex guards its fields.
type contender struct {
	e       *Engine
	key     string
	mode    mode
	lease   time.Duration // the lease time, 0 = the hold is renewed
	waiters fifo[waiter]
	place   place[contender] // among the contenders that are queued for the key
	alarm   alarm
	attempt // the present one; zero while idle
}

// attempt is what a contender does under one token, from its first request until it gives up, or its lock is released
// or lost. A new attempt has a new token, so that a late reply, message or request about an earlier one has no effect.
type attempt struct {
	token       string
	confirmedAt time.Duration // when the last request that was answered was sent,
	serverTime  int64         // and the server's clock then, in ms
	validUntil  time.Duration // until when the lock is surely not expired in Redis, while granted or draining

	state state
	// while asking, queued or draining: the token was evicted; a reply or message that grants it is older
	evicted bool
	// an acquire was sent although an earlier request may have queued the token, so a message may overtake it
	reacquired    bool
	mayArriveLate bool // a request for this token may arrive after the release: it must be cancelled then
	question           // zero unless asking
	ownership          // zero unless granted
}

// question is what an attempt that is asking has sent.
type question struct {
	acquire      *redisbatch.Call // the last acquire that the batcher got
	asked        bool             // another request was made before that acquire
	acquireAgain bool             // a message came while an acquire was in flight, so another must follow its reply
	unanswered   uint8            // acquires since the last reply
	refusals     uint8            // acquires that the server was not ready for, see again
	lateGrants   uint8            // grants whose replies took too long
}

// ownership is what an attempt that was granted the lock has.
type ownership struct {
	hold        *hold         // the present one
	fence, last uint64        // the next fencing token to give out, the last reserved
	grantedAt   time.Duration // when this process got the lock
	leaseBegan  time.Duration // when its lease time began
	renewing    bool          // a renewal is in flight
	grantNoted  bool          // Redis has a note of the grant, until the first renewal
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
	c.begin()
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
func (c *contender) newAttempt() {
	e := c.e
	c.attempt = attempt{token: c.newToken(), confirmedAt: e.now()}
	c.setState(asking, byStart)
	e.attempts[c.token] = c
}

// begin begins an attempt with an acquire.
func (c *contender) begin() {
	c.newAttempt()
	c.sendAcquire()
}

// grant gives c's lock to the first of its waiters. c owns the lock for ttl, counted from a moment that is not before
// sent.
func (c *contender) grant(because event, fence uint64, sent, ttl time.Duration) {
	e := c.e
	e.pollers.unwatch(c)
	c.setState(granted, because)
	c.confirmedAt, c.validUntil = sent, validUntil(sent, min(ttl, c.ttl()))
	c.ownership = ownership{
		fence: c.firstFence(fence), last: fence, grantedAt: e.now(), leaseBegan: sent, grantNoted: c.mode != reading,
	}
	c.serve(sent)
	e.agenda.schedule(&c.alarm, c.renewAt(sent, ttl))
	c.rejectOverdue(true)
}

// serve lets the first waiter hold the lock.
func (c *contender) serve(since time.Duration) {
	e := c.e
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
	c := e.attempts[token]
	if c == nil { // its waiter is gone: the cancel passes the lock on
		e.spawn(func() { e.cleaner.cancel(key, token) })
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
	c.mayArriveLate = c.mayArriveLate || c.state == asking && (c.reacquired || c.mode == reading ||
		e.server.repeatsAfter < never)
	at := c.grantedSince(serverTime)
	// A message from before a reply that said queued is of a grant that has ended.
	late := validUntil(at, c.grantTimeout())-e.now() < c.grantTimeout()/4
	if late {
		e.log.report(grantLate, c.key, nil)
	}
	if late || serverTime < c.serverTime || !c.mode.sufficient(mark) || e.o.Replicas > 0 {
		c.reacquire(byMessage) // which also renews
		return
	}
	c.onGrant(mark, answer{fence: fence, sent: at, time: serverTime})
}

// grantedSince returns when a grant was made at the latest: as long ago as the server's clock says, counted from the
// last reply, but after the request for that reply was sent.
func (c *contender) grantedSince(serverTime int64) time.Duration {
	at := c.confirmedAt
	if c.serverTime > 0 {
		at += max(0, time.Duration(serverTime-c.serverTime)*time.Millisecond)
	}
	return min(at, c.e.now())
}

// leave removes a waiter that gives up. It returns the hold that the waiter was given meanwhile, if any.
func (c *contender) leave(w *waiter) *hold {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.waiters.remove(&w.place) && c.waiters.size == 0 && c.state != granted {
		c.failWaiters(nil, true)
	}
	return w.hold
}

// rejectOverdue fails the overdue waiters. If none is left, it ends the attempt as failWaiters does.
func (c *contender) rejectOverdue(cancel bool) {
	for w := range c.waiters.all() {
		w.contended = true
	}
	c.failOverdue(lock.ErrBusy)
	if c.waiters.size == 0 && c.state != granted {
		c.failWaiters(nil, cancel)
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

// failWaiters fails all waiters and, unless the lock is held, ends the attempt. If cancel is true, it cancels the
// attempt in Redis too.
func (c *contender) failWaiters(err error, cancel bool) {
	e := c.e
	for c.waiters.size > 0 {
		c.waiters.pop().resolve(nil, err)
	}
	if c.state == granted {
		return
	}
	key, token := c.key, c.token
	// If the acquire still waits to be sent, it is withdrawn: after Redis was silent, the requests of callers that have
	// left would hold up all others. Redis may then have seen no request of the attempt.
	unsent := c.acquire != nil && e.server.batches.Withdraw(c.acquire) && !c.asked
	c.endAttempt(byGivingUp)
	c.restart()
	if cancel && !unsent {
		e.spawn(func() { e.cleaner.cancel(key, token) })
	}
}

// endAttempt ends c's attempt in this process: a reply or message about its token finds no contender any more.
func (c *contender) endAttempt(because event) {
	e := c.e
	e.pollers.unwatch(c)
	e.agenda.unschedule(&c.alarm)
	delete(e.attempts, c.token)
	c.setState(idle, because)
	c.attempt = attempt{}
}

// state is the state of a contender. The package comment has the table of its transitions.
type state uint8

const (
	idle     state = iota // has no attempt: it is new, or ends
	asking                // an acquire, or the release that queues its token, is in flight or is about to be sent
	queued                // its token is in the queue in Redis
	draining              // a writer's: it owns the lock, and the last readers have not left yet
	granted               // it owns the lock, and one of its waiters holds it
)

// event is what changes the state of a contender.
type event uint8

const (
	byStart    event = iota // an attempt begins
	byReply                 // to an acquire, or to the release that queues its token
	byMessage               // of a script that has granted the lock
	byPoll                  // a poll has found that it owns the lock
	byTimer                 // it is time to check the readers, or a failover is suspected
	byGivingUp              // the last waiter has left or is overdue, or the attempt has failed
	byRelease
	byLoss // of the lease
)

// holdState is the state of a hold. The package comment has the table of its transitions.
type holdState uint8

const (
	holdActive holdState = iota // since it was granted, or passed on
	holdEnded                   // by a release, which may not have been answered yet; its context has ended
	holdLost                    // it expired, or its lock had another owner; its context has ended
)

// The tests check every transition against the tables, and the fields that depend on the state.
var (
	onTransition     func(c *contender, to state, because event)
	onHoldTransition func(h *hold, to holdState)
)

// setState changes the state of c. The engine's mutex is held.
func (c *contender) setState(to state, because event) {
	if onTransition != nil {
		onTransition(c, to, because)
	}
	c.state = to
	if to != asking {
		c.question = question{} // a held lock must not keep its request in memory
	}
}

// setState changes the state of h. The engine's mutex is held.
func (h *hold) setState(to holdState) {
	if onHoldTransition != nil {
		onHoldTransition(h, to)
	}
	h.state = to
}
