package handoff

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/lease"
	"lastitem/internal/step"
)

// ask sends the acquire for l's token. The mutex is held.
func (e *Engine) ask(l *line) {
	if e.closed {
		return
	}
	queue := l.patient() && e.posts.listening(l.key) // a process without a subscriber would be skipped
	flag := "0"
	if queue {
		flag = "1"
	}
	c := e.newCall(l.mode.scripts().acquire, l.mode, l.key, l.token).add(flag, decimal(l.fences()), e.keep)
	c.asks, c.token, c.queue = l, l.token, queue
	if e.o.Replicas == 0 {
		e.send(c)
		return
	}
	e.spawn(func() {
		e.sendReplicated(l.key, c)
		e.replied(c)
	})
}

// replied takes the answer to an acquire. If the acquire must be sent again, a goroutine of its own does that.
func (e *Engine) replied(c *call) {
	l, token := c.asks, c.token
	e.heard(c.err)
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.token != token || l.phase != asking { // given up meanwhile, or granted by a message that came before the answer
		return
	}
	again := func(wait func() error) {
		e.spawn(func() {
			err := wait()
			e.mu.Lock()
			defer e.mu.Unlock()
			if l.token != token || l.phase != asking {
				return
			}
			if err != nil {
				e.empty(l, fmt.Errorf("%w: engine: %w", lock.ErrUnavailable, err), true)
				return
			}
			e.ask(l)
		})
	}
	if l.tries++; !lasting(c.err) && l.tries < tries {
		l.strays = true
		rest := retryAfter(int(l.tries))
		again(func() error { return lease.Pause(context.Background(), rest, nil) })
	} else if !e.answered(l, e.parse(c.reply, c.sent, c.err), c.queue) {
		l.tries = 0
		again(func() error {
			ctx, cancel := lease.Detached(context.Background())
			defer cancel()
			return e.posts.join(ctx, l.key)
		})
	}
}

// answered takes an answer about l's token. It returns false if l is not queued yet, and must subscribe first. The mutex is held.
func (e *Engine) answered(l *line, a answer, queue bool) bool {
	switch {
	case a.err != nil:
		e.empty(l, fmt.Errorf("%w: engine: %w", lock.ErrUnavailable, a.err), true)
	case a.verdict < 0:
		e.forget(l)
		e.bid(l)
		e.ask(l)
	case a.verdict == 1 && l.mode == writing:
		e.drain(l, a, e.o.TTL)
	case a.verdict > 0 && trust(a.sent, e.o.TTL)-e.now() < e.claim/4:
		e.slow(l, e.now()-a.sent)
	case a.verdict == 0 && queue && l.repeat: // a message overtook the answer
		l.repeat = false
		e.ask(l)
	case a.verdict > 0:
		e.grant(l, a.fence, a.sent, e.o.TTL)
	case queue:
		l.phase, l.asked, l.serverTime = queued, a.sent, a.time
		if e.expel(l, true); l.waiters.size > 0 {
			e.watch(l, a.ttl)
		}
	default:
		e.expel(l, l.strays) // an earlier one may yet take the lock
		return l.waiters.size == 0
	}
	return true
}

// slow handles a grant whose answer took so long that too little of its TTL is left. It sends the acquire again, which renews the lock.
// After the third such answer the waiters get ErrUnavailable. The mutex is held.
func (e *Engine) slow(l *line, took time.Duration) {
	if l.slow++; l.slow == tries {
		e.empty(l, fmt.Errorf("%w: engine: the TTL of %s is shorter than the way to Redis: an answer took %s", lock.ErrUnavailable, e.o.TTL, took), true)
		return
	}
	l.repeat = false
	e.ask(l)
}

// engineKey finds, in a context, an engine's hold of one key; the value is a *holding.
type engineKey struct {
	e   *Engine
	key string
}

// acquire enters the hold that ctx carries, or waits in line for one.
func (e *Engine) acquire(ctx context.Context, key string, m mode) (lock.Lease, error) {
	e.o.Steps.At(ctx, step.Waiting, key)
	if h, ok := ctx.Value(engineKey{e, key}).(*holding); ok {
		if l, err := h.enter(ctx, m); l != nil || err != nil {
			return l, err
		}
	}
	if ctx.Err() != nil {
		return nil, lock.GaveUp(ctx)
	}
	w := &waiter{ctx: ctx, ready: make(chan struct{}), next: newHolding(ctx, e), began: e.now()}
	w.place.member = w
	var limit time.Duration
	until, bounded := lock.WaitUntil(ctx)
	if bounded {
		limit = time.Until(until)
		w.overdue = limit <= 0
	}
	add(e.m.Waiting, 1)
	defer add(e.m.Waiting, -1)
	l, err := e.join(w, key, m)
	if err == nil {
		err = e.await(l, w, bounded, limit)
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

// await waits until w is served, or gives up. If an attempt is in flight when the wait runs out, it has [Options.AttemptLimit] to be
// answered.
func (e *Engine) await(l *line, w *waiter, bounded bool, limit time.Duration) error {
	var late <-chan time.Time
	var timer *time.Timer
	if bounded {
		if limit <= 0 {
			limit = e.attemptLimit()
		}
		timer = time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-w.ready:
			return w.err
		case <-w.ctx.Done():
			if h := e.leave(l, w); h != nil { // granted a moment ago: pass it on
				e.mu.Lock()
				e.spawn(func() { _ = h.once.Do(func() error { return h.free(context.Background()) }) })
				e.mu.Unlock()
			}
			return lock.GaveUp(w.ctx)
		case <-late:
			unanswered, asks := e.runOut(l, w)
			if asks && !unanswered {
				timer.Reset(e.attemptLimit())
				continue
			}
			e.leave(l, w)
			return e.outOfTime(w, unanswered)
		}
	}
}

// attemptLimit is how long an attempt may go unanswered if its caller's wait is bounded.
func (e *Engine) attemptLimit() time.Duration {
	if e.o.Replicas > 0 {
		return e.o.AttemptLimit + e.o.ReplicasTimeout
	}
	return e.o.AttemptLimit
}

// runOut marks w as overdue. asks says whether an attempt is in flight. unanswered says whether w was overdue before: then the attempt has
// used up its limit as well.
func (e *Engine) runOut(l *line, w *waiter) (unanswered, asks bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	unanswered = w.overdue
	w.overdue = true
	return unanswered, l.phase == asking
}

// outOfTime returns the outcome of a waiter that has left its line because its time was over.
func (e *Engine) outOfTime(w *waiter, unanswered bool) error {
	select {
	case <-w.ready: // served, or failed, just before it left
		return w.err
	default:
	}
	if unanswered {
		return fmt.Errorf("%w: engine: no answer within %s", lock.ErrUnavailable, e.attemptLimit())
	}
	return lock.GaveUp(w.ctx)
}
