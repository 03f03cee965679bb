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

// Thousands of waited-for keys share their polls: groups of up to peekSize keys are polled with one command each, at most pollBurst keys at a
// time, and at least a pollGap apart. One command occupies the server for about half a millisecond. A peek changes nothing. It says which of its keys must
// be polled one by one.
//
// A peek looks at the lock of every key: its owner may have died, or may be the waiter, whose message was lost. For one key in
// queueTurns it also checks whether the waiter is still in the queue; not for all, because the tokens are most of the bytes. A waiter leaves the queue unnoticed if somebody
// deletes the queue, or if its process was not subscribed when its turn came. In the latter case [Engine.pollAll] asks for all keys as soon as the
// process is subscribed.
const (
	maxPollGap = 40 * time.Millisecond
	peekSize   = 250
	pollBurst  = 4 * peekSize
	queueTurns = 4
	fewPolls   = 4 // fewer keys are polled one by one, which finds and repairs in one step
)

// pollGap is the least time between two rounds of polls.
func (e *Engine) pollGap() time.Duration { return min(maxPollGap, e.longestPoll()/50) }

// group is some keys that are polled together. A key stays in its group, and a peek that finds nothing touches no key and no contender. Groups
// and the shorter commands together cut the CPU time of BenchmarkWaitingForMany to 0.35 of what it was with an alarm for each key.
type group struct {
	pollers    []*poller
	locks      []string // their keys
	alarm      alarm
	turn       int           // which queues the next peek asks for
	allQueues  bool          // it asks for all of them
	soonest    time.Duration // while a peek is in flight: when a key that has joined must be polled; 0 = no key has
	sentAt     time.Duration // when the last peek that was answered was sent,
	serverTime int64         // and the server's clock then, in ms
	failures   int
	inFlight   bool
}

// mayShare says whether a peek is enough for p: it has one waiter, and that waiter does not queue for a read-write lock. From time to time
// a poll must keep the queue from expiring. In a cluster a command may only name keys of one slot.
func (e *Engine) mayShare(p *poller) bool {
	return e.publish == "PUBLISH" && len(e.pollers) > fewPolls && p.contenders.size == 1 && !p.contenders.first.member.mode.shares() &&
		e.now()-p.polledAt < e.o.FenceTTL/4
}

// join adds p to a group, which is polled at the time at if it would be polled later. The mutex is held.
func (e *Engine) join(p *poller, at time.Duration) {
	e.unschedule(&p.alarm)
	if n := len(e.groups); n == 0 || len(e.groups[n-1].pollers) == peekSize {
		g := &group{}
		g.alarm.group = g
		e.groups = append(e.groups, g)
	}
	g := e.groups[len(e.groups)-1]
	p.group, p.index, p.joinedAt = g, len(g.pollers), e.now()
	g.pollers, g.locks = append(g.pollers, p), append(g.locks, p.key)
	e.peekNoLaterThan(g, at)
}

func (e *Engine) peekNoLaterThan(g *group, at time.Duration) {
	switch {
	case g.inFlight && (g.soonest == 0 || g.soonest > at):
		g.soonest = at
	case !g.inFlight && (g.alarm.index == 0 || g.alarm.at > at):
		e.schedule(&g.alarm, at)
	}
}

// quit removes p from its group, if it is in one. The mutex is held.
func (e *Engine) quit(p *poller) {
	g := p.group
	if g == nil {
		return
	}
	p.noteSeen()
	last := len(g.pollers) - 1
	g.pollers[p.index], g.locks[p.index] = g.pollers[last], g.locks[last]
	g.pollers[p.index].index = p.index
	g.pollers[last], g.locks[last] = nil, ""
	g.pollers, g.locks = g.pollers[:last], g.locks[:last]
	p.group = nil
	if last == 0 && !g.inFlight {
		e.removeGroup(g)
	}
}

func (e *Engine) removeGroup(g *group) {
	e.unschedule(&g.alarm)
	e.groups = slices.DeleteFunc(e.groups, func(other *group) bool { return other == g })
}

// noteSeen notes for the waiter of p what the peeks of its group have said. The mutex is held.
func (p *poller) noteSeen() {
	if g := p.group; g != nil && p.contenders.size > 0 && p.joinedAt < g.sentAt {
		c := p.contenders.first.member
		c.confirmedAt, c.serverTime = g.sentAt, g.serverTime
	}
}

// pollDue handles the polls that are due, the oldest first, and leaves what exceeds one burst to the next tick. The mutex is held.
func (e *Engine) pollDue(now time.Duration) {
	var peeks []func() error
	for n := 0; n < pollBurst && len(e.polls) > 0 && e.polls[0].at <= now; n++ {
		a := e.polls[0]
		e.unschedule(a)
		switch c := a.contender; {
		case a.poller != nil:
			e.poll(a.poller)
			e.polledAt = now
		case a.group != nil:
			n += len(a.group.pollers)
			peeks = append(peeks, e.peek(a.group))
			e.polledAt = now
		case a == &e.cleanupAlarm:
			e.spawn(e.cleanAll)
		case c.state == draining:
			e.reacquire(c, byTimer)
		}
	}
	if len(peeks) > 0 {
		e.spawn(func() { e.inTurn(peeks) })
	}
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

// peek prepares the command for a group. The function that it returns sends the command and handles the answer. The mutex is held.
func (e *Engine) peek(g *group) func() error {
	n := len(g.pollers)
	g.inFlight, g.soonest = true, 0
	all, from, to := slices.Clone(g.pollers), n*g.turn/queueTurns, n*(g.turn+1)/queueTurns
	if g.allQueues {
		from, to = 0, n
	}
	g.turn, g.allQueues = (g.turn+1)%queueTurns, false
	r := newRequest(enginePeek).add(decimal(e.longestPoll().Milliseconds()), e.id+".", decimal(from))
	r.keys, r.limit = append(make([]string, 0, n+to-from), g.locks...), e.o.CallTimeout
	for _, p := range all[from:to] {
		r.key(p.queue).add(p.contenders.first.member.token)
	}
	return func() error {
		ctx, cancel := lease.Detached(context.Background())
		defer cancel()
		if r.err = e.subscriber.awaitSubscribed(ctx, r.keys[0]); r.err == nil {
			e.do(r)
		}
		e.onPeek(g, all, all[from:to], r)
		return r.err
	}
}

// onPeek handles the answer to a peek of a group, which had the keys all, and asked for the queues of the keys checked.
func (e *Engine) onPeek(g *group, all, checked []*poller, r *request) {
	v, _ := r.reply.([]any)
	if r.err == nil && len(v)%3 != 1 {
		r.err = fmt.Errorf("lock: engine: unexpected answer %v", r.reply)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	first := time.Duration(0)
	g.failures++
	if r.err == nil {
		g.failures, g.sentAt, g.serverTime = 0, r.sent, number(v[0])
		first = e.pollFound(g, all, v[1:])
	}
	if g.failures >= maxTries {
		for _, p := range slices.Clone(g.pollers) {
			e.failWaiters(p.contenders.first.member, fmt.Errorf("%w: engine: %w", lock.ErrUnavailable, r.err), true)
		}
	}
	e.regroup(g, checked)
	g.inFlight = false
	if len(g.pollers) == 0 {
		e.removeGroup(g)
		return
	}
	at := e.now() + e.nextPoll(first)
	if g.soonest > 0 {
		at = min(at, g.soonest)
	}
	e.schedule(&g.alarm, at)
}

// pollFound polls the keys that a peek has found to need it. It returns the time until the first of the other locks expires, 0 if that is
// far away. The mutex is held.
func (e *Engine) pollFound(g *group, all []*poller, found []any) (first time.Duration) {
	for some := range slices.Chunk(found, 3) {
		i, left := number(some[0])-1, number(some[1])
		if i < 0 || i >= int64(len(all)) || all[i].group != g { // it has left meanwhile
			continue
		}
		switch p := all[i]; {
		case left == -1 || some[2] == p.contenders.first.member.token: // the latter: its message was lost, or is late
			e.poll(p)
		case left >= 0:
			d := time.Duration(max(left, 1)) * time.Millisecond
			if first == 0 || d < first {
				first = d
			}
		}
	}
	return first
}

// regroup polls each of the keys checked that may no longer share its polls. If the group has become small, it moves the keys to another
// group. The mutex is held.
func (e *Engine) regroup(g *group, checked []*poller) {
	for _, p := range checked {
		if p.group == g && !e.mayShare(p) {
			e.poll(p)
		}
	}
	if 2*len(g.pollers) > peekSize || g == e.groups[len(e.groups)-1] {
		return
	}
	for _, p := range slices.Backward(g.pollers) {
		e.quit(p)
		e.join(p, e.now()+e.nextPoll(0))
	}
}
