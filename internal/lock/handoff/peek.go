package handoff

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/lease"
)

var (
	//go:embed lua/peek.lua
	enginePeekSource string

	enginePeek = newScript(enginePeekSource)
)

// Thousands of waited-for keys share their polls. The polls that fall due within a pollGap are sent together, peekSize keys per command and
// at most pollBurst keys at a time; one command occupies the server for about 0.2 ms. A peek changes nothing. It says which of its keys
// must be polled one by one.
const (
	maxPollGap = 40 * time.Millisecond
	peekSize   = 100
	pollBurst  = 10 * peekSize
	fewPolls   = 4 // fewer are polled one by one, which finds and repairs in one step
)

// pollGap is the least time between two rounds of polls.
func (e *Engine) pollGap() time.Duration { return min(maxPollGap, e.longestPoll()/50) }

// mayShare says whether a peek is enough for k: it has one waiter, and that waiter does not queue for a read-write lock. From time to time
// a poll must keep the queue from expiring. In a cluster a command may only name keys of one slot.
func (e *Engine) mayShare(k *poller, now time.Duration) bool {
	return e.publish == "PUBLISH" && k.lines.size == 1 && !k.lines.first.member.mode.shares() && now-k.polled < e.o.FenceTTL/4
}

// pollDue handles the polls that are due, the oldest first, and leaves what exceeds one burst to the next tick. The mutex is held.
func (e *Engine) pollDue(now time.Duration) {
	var due []*poller
	for n := 0; n < pollBurst && len(e.polls) > 0 && e.polls[0].at <= now; n++ {
		a := e.polls[0]
		if k := a.poller; k != nil {
			e.schedule(a, now+e.nextPoll(0)) // moves it: one operation of the heap
			if !k.busy {
				due = append(due, k)
			}
			continue
		}
		e.unschedule(a)
		switch l := a.line; {
		case a == &e.cleaning:
			e.spawn(e.cleanAll)
		case l.phase == draining:
			e.askAgain(l)
		}
	}
	if len(due) == 0 {
		return
	}
	e.polledAt = now
	few := len(due) < fewPolls
	many := due[:0]
	for _, k := range due {
		if few || !e.mayShare(k, now) {
			e.poll(k)
		} else {
			many = append(many, k)
		}
	}
	var peeks []func() error
	for some := range slices.Chunk(many, peekSize) {
		peeks = append(peeks, e.peek(some))
	}
	e.spawn(func() { e.inTurn(peeks) })
}

// inTurn sends peeks one after the other, so that the server can serve other commands in between. When one fails, it sends the rest at
// once.
func (e *Engine) inTurn(peeks []func() error) {
	i := 0
	for i < len(peeks) && peeks[i]() == nil {
		i++
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, other := range peeks[min(i+1, len(peeks)):] {
		e.spawn(func() { _ = other() })
	}
}

// peek prepares one command for many keys. The function that it returns sends the command and handles the answer. The mutex is held.
func (e *Engine) peek(all []*poller) func() error {
	lines, tokens := make([]*line, len(all)), make([]string, len(all))
	c := newCall(enginePeek)
	c.keys, c.limit = make([]string, 0, 2*len(all)), lease.CleanupTimeout
	for i, k := range all {
		k.busy = true
		lines[i] = k.lines.first.member
		tokens[i] = lines[i].token
		c.key(k.key, k.queue)
	}
	c.add(decimal(e.longestPoll().Milliseconds())).add(tokens...)
	return func() error {
		ctx, cancel := lease.Detached(context.Background())
		defer cancel()
		if c.err = e.posts.join(ctx, all[0].key); c.err == nil {
			e.call(c)
		}
		e.peeked(all, lines, tokens, c)
		return c.err
	}
}

// peeked handles the answer to a peek.
func (e *Engine) peeked(all []*poller, lines []*line, tokens []string, c *call) {
	v, _ := c.reply.([]any)
	if c.err == nil && len(v)%2 == 0 {
		c.err = fmt.Errorf("lock: engine: unexpected answer %v", c.reply)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, k := range all {
		k.busy = false
		if k.failed++; c.err == nil {
			k.failed = 0
		}
		l := lines[i]
		switch {
		case l.token != tokens[i] || l.phase != queued: // served or given up meanwhile
		case k.failed >= tries:
			e.empty(l, fmt.Errorf("%w: engine: %w", lock.ErrUnavailable, c.err), true)
		case c.err == nil:
			l.asked, l.serverTime = c.sent, number(v[0])
		}
	}
	for j := 1; c.err == nil && j < len(v); j += 2 {
		i, left := number(v[j])-1, number(v[j+1])
		if i < 0 || i >= int64(len(all)) || e.pollers[all[i].key] != all[i] {
			continue
		}
		if k := all[i]; left < 0 {
			e.poll(k)
		} else {
			e.schedule(&k.alarm, e.now()+e.nextPoll(time.Duration(left)*time.Millisecond))
		}
	}
}
