package lock

import (
	"context"
	"fmt"
	"slices"
)

// ask sends the acquire for l's token. The mutex is held.
func (e *Engine) ask(l *line) {
	if e.closed {
		return
	}
	patient := slices.ContainsFunc(l.waiters, func(w *waiter) bool { return !w.overdue })
	queue := patient && e.posts.listening(l.key) // who does not listen would be passed over
	flag := "0"
	if queue {
		flag = "1"
	}
	c := e.newCall(l.mode.scripts().acquire, l.mode, l.key, l.token).add(flag, decimal(l.fences()))
	c.asks, c.token, c.queue = l, l.token, queue
	if e.o.Replicas == 0 {
		e.wire.send(c)
		return
	}
	e.spawn(func() {
		e.sendReplicated(l.key, c)
		e.replied(c)
	})
}

// replied takes the answer to an acquire. What it takes to send it again goes on on a goroutine of its own.
func (e *Engine) replied(c *call) {
	l, token := c.asks, c.token
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.token != token || l.phase != asking { // given up meanwhile, or granted by a message that was faster
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
				e.empty(l, fmt.Errorf("%w: engine: %w", ErrUnavailable, err), true)
				return
			}
			e.ask(l)
		})
	}
	if l.tries++; !lasting(c.err) && l.tries < tries {
		l.strays = true
		rest := retryAfter(int(l.tries))
		again(func() error { return pause(context.Background(), rest, nil) })
	} else if !e.answered(l, e.parse(c.reply, c.sent, c.err), c.queue) {
		l.tries = 0
		again(func() error {
			ctx, cancel := detached(context.Background())
			defer cancel()
			return e.posts.join(ctx, l.key)
		})
	}
}

// answered takes an answer about l's token. It is false when l is not queued yet, and must listen first. The mutex is held.
func (e *Engine) answered(l *line, a answer, queue bool) bool {
	switch {
	case a.err != nil:
		e.empty(l, fmt.Errorf("%w: engine: %w", ErrUnavailable, a.err), true)
	case a.verdict < 0:
		e.forget(l)
		e.bid(l)
		e.ask(l)
	case a.verdict == 1 && l.mode == writing:
		e.drain(l, a, e.o.TTL)
	case a.verdict > 0 && trust(a.sent, e.o.TTL)-e.now() < e.claim/4, a.verdict == 0 && queue && l.repeat:
		l.repeat = false // slow, or overtaken by a message: ask again, which renews
		e.ask(l)
	case a.verdict > 0:
		e.grant(l, a.fence, a.sent, e.o.TTL)
	case queue:
		l.phase, l.asked, l.serverTime = queued, a.sent, a.time
		if e.expel(l, true); len(l.waiters) > 0 {
			e.lookOut(l, a.ttl)
		}
	default:
		e.expel(l, l.strays) // an earlier one may yet take the lock
		return len(l.waiters) == 0
	}
	return true
}
