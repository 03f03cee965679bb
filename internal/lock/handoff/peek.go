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
func (e *Engine) mayShare(p *poller, now time.Duration) bool {
	return e.publish == "PUBLISH" && p.contenders.size == 1 && !p.contenders.first.member.mode.shares() && now-p.polledAt < e.o.FenceTTL/4
}

// pollDue handles the polls that are due, the oldest first, and leaves what exceeds one burst to the next tick. The mutex is held.
func (e *Engine) pollDue(now time.Duration) {
	var due []*poller
	for n := 0; n < pollBurst && len(e.polls) > 0 && e.polls[0].at <= now; n++ {
		a := e.polls[0]
		if p := a.poller; p != nil {
			e.schedule(a, now+e.nextPoll(0)) // moves it: one operation of the heap
			if !p.inFlight {
				due = append(due, p)
			}
			continue
		}
		e.unschedule(a)
		switch c := a.contender; {
		case a == &e.cleanupAlarm:
			e.spawn(e.cleanAll)
		case c.state == draining:
			e.reacquire(c, byTimer)
		}
	}
	if len(due) > 0 {
		e.pollTogether(due, now)
	}
}

// pollTogether polls keys, with as few commands as possible. The mutex is held.
func (e *Engine) pollTogether(due []*poller, now time.Duration) {
	e.polledAt = now
	few := len(due) < fewPolls
	many := due[:0]
	for _, p := range due {
		if few || !e.mayShare(p, now) {
			e.poll(p)
		} else {
			many = append(many, p)
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
	contenders, tokens := make([]*contender, len(all)), make([]string, len(all))
	r := newRequest(enginePeek)
	r.keys, r.limit = make([]string, 0, 2*len(all)), e.o.CallTimeout
	for i, p := range all {
		p.inFlight = true
		contenders[i] = p.contenders.first.member
		tokens[i] = contenders[i].token
		r.key(p.key, p.queue)
	}
	r.add(decimal(e.longestPoll().Milliseconds())).add(tokens...)
	return func() error {
		ctx, cancel := lease.Detached(context.Background())
		defer cancel()
		if r.err = e.subscriber.awaitSubscribed(ctx, all[0].key); r.err == nil {
			e.do(r)
		}
		e.onPeek(all, contenders, tokens, r)
		return r.err
	}
}

// onPeek handles the answer to a peek.
func (e *Engine) onPeek(all []*poller, contenders []*contender, tokens []string, r *request) {
	v, _ := r.reply.([]any)
	if r.err == nil && len(v)%2 == 0 {
		r.err = fmt.Errorf("lock: engine: unexpected answer %v", r.reply)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, p := range all {
		p.noteOutcome(r.err)
		c := contenders[i]
		switch {
		case c.token != tokens[i] || c.state != queued: // served or given up meanwhile
		case p.failures >= maxTries:
			e.failWaiters(c, fmt.Errorf("%w: engine: %w", lock.ErrUnavailable, r.err), true)
		case r.err == nil:
			c.confirmedAt, c.serverTime = r.sent, number(v[0])
		}
	}
	if r.err == nil {
		e.pollFound(all, v[1:])
	}
}

// pollFound handles the pairs that a peek has returned. The mutex is held.
func (e *Engine) pollFound(all []*poller, pairs []any) {
	for pair := range slices.Chunk(pairs, 2) {
		i, left := number(pair[0])-1, number(pair[1])
		if i < 0 || i >= int64(len(all)) || e.pollers[all[i].key] != all[i] {
			continue
		}
		if p := all[i]; left < 0 {
			e.poll(p)
		} else {
			e.schedule(&p.alarm, e.now()+e.nextPoll(time.Duration(left)*time.Millisecond))
		}
	}
}
