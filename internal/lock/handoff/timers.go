package handoff

import (
	"container/heap"
	"slices"
	"strings"
	"time"

	"lastitem/internal/lock/lease"
)

// alarm is a moment at which something must be done: for a line its renewal or the end of its lease, for a poller the next poll. One timer
// of the process serves all alarms, through two heaps: renewals may be made early, so that many share a command, and polls may not.
type alarm struct {
	at     time.Duration
	line   *line
	poller *poller
	in     *alarms // the heap that it is in, nil = none
	index  int     // place in it, from 1
}

type alarms []*alarm

func (h alarms) Len() int           { return len(h) }
func (h alarms) Less(i, j int) bool { return h[i].at < h[j].at }
func (h alarms) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *alarms) Push(x any) {
	a, _ := x.(*alarm)
	*h = append(*h, a)
	a.index = len(*h)
}

func (h *alarms) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	a.in, a.index = nil, 0
	return a
}

// schedule sets an alarm, or moves it. The mutex is held.
func (e *Engine) schedule(a *alarm, at time.Duration) {
	if e.closed {
		return
	}
	to := &e.polls
	if a.line != nil && a.line.phase == held {
		to = &e.renewals
	}
	if a.in != to {
		e.unschedule(a)
	}
	if a.at = at; a.in == to {
		heap.Fix(to, a.index-1)
	} else {
		a.in = to
		heap.Push(to, a)
	}
	e.arm()
}

// unschedule leaves the timer as it is: firing for nothing costs less than being set with each lock.
func (e *Engine) unschedule(a *alarm) {
	if a.in != nil {
		heap.Remove(a.in, a.index-1)
	}
}

// next returns when the timer must fire; ok is false if there is nothing to do.
func (e *Engine) next() (at time.Duration, ok bool) {
	if ok = len(e.polls) > 0; ok {
		at = max(e.polls[0].at, e.polledAt+e.pollGap())
	}
	if len(e.renewals) > 0 && (!ok || e.renewals[0].at < at) {
		at, ok = e.renewals[0].at, true
	}
	return max(at, 1), ok
}

func (e *Engine) arm() {
	at, ok := e.next()
	if !ok || e.armed > 0 && e.armed <= at {
		return
	}
	e.armed = at
	if d := e.armed - e.now(); e.timer == nil {
		e.timer = time.AfterFunc(d, e.tick)
	} else {
		e.timer.Reset(d)
	}
}

// tick handles the alarms that are due. It touches no others, except renewals that are due soon.
func (e *Engine) tick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.armed = 1 // in the past, so that it is set only at the end
	if e.closed {
		return
	}
	now := e.now()
	if len(e.renewals) > 0 && e.renewals[0].at <= now {
		e.renewDue(now)
	}
	if now >= e.polledAt+e.pollGap() {
		e.pollDue(now)
	}
	e.armed = 0
	e.arm()
}

// renewDue makes the renewals that are due, and those that are due soon, so that many locks share a command. The mutex is held.
func (e *Engine) renewDue(now time.Duration) {
	var due, later []*line
	for len(e.renewals) > 0 && e.renewals[0].at <= now+e.o.TTL/10 {
		a, _ := heap.Pop(&e.renewals).(*alarm)
		switch l := a.line; {
		case l.renewing && l.end() > now:
			a.at = l.end()
			later = append(later, l)
		case a.at-now > (l.until-a.at)/6 && l.end() > now:
			later = append(later, l)
		case l.end() <= now:
			e.lose(l)
		default:
			l.renewing, a.at = true, l.end()
			due, later = append(due, l), append(later, l)
		}
	}
	for _, l := range later {
		e.schedule(&l.alarm, l.alarm.at)
	}
	e.renew(due)
}

// renewRest is the longest pause before a renewal that was not answered is repeated.
const renewRest = 500 * time.Millisecond

// renewSize is how many locks one renewal command keeps alive; a hundred occupy the server for about 0.13 ms.
const renewSize = 100

// batch names the command that a renewal goes with: in a cluster one for each hash tag, or key without one, and readers have
// theirs.
func (e *Engine) batch(l *line) (name string) {
	if e.publish == "SPUBLISH" {
		name = hashed(l.key)
	}
	if l.mode == reading {
		return "r" + name
	}
	return "w" + name
}

// renew sends the renewals.
func (e *Engine) renew(due []*line) {
	slices.SortFunc(due, func(a, b *line) int { return strings.Compare(e.batch(a), e.batch(b)) })
	for len(due) > 0 {
		n := 1
		for n < min(len(due), renewSize) && e.batch(due[0]) == e.batch(due[n]) {
			n++
		}
		batch, tokens, notes := slices.Clone(due[:n]), make([]string, n), []string(nil)
		limit := min(e.o.TTL/3, lease.CleanupTimeout)
		for i, l := range batch {
			tokens[i] = l.token
			if l.noted {
				notes = append(notes, KeysOf(l.key).Fence)
			}
			if left := l.until - e.now(); left < limit { // after a claim: another try must be in time; MaxHold hurries nobody
				limit = left / 2
			}
		}
		due = due[n:]
		e.spawn(func() { e.sendRenewal(batch, tokens, notes, limit) })
	}
}

func (e *Engine) sendRenewal(batch []*line, tokens, notes []string, limit time.Duration) {
	c := newCall(batch[0].mode.scripts().renew)
	for _, l := range batch {
		c.key(l.heldKey())
	}
	c.key(notes...).add(e.ttl).add(tokens...)
	c.limit = limit
	e.call(c)
	v, _ := c.reply.([]any)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, l := range batch {
		switch {
		case l.token != tokens[i] || l.phase != held: // released meanwhile
			continue
		case c.err != nil || i >= len(v):
			add(e.m.RenewFailed, 1)
			e.schedule(&l.alarm, min(e.now()+min(e.o.TTL/10, renewRest), l.end()))
		case number(v[i]) == 0 || !l.extend(trust(c.sent, e.o.TTL)):
			e.lose(l)
			continue
		default:
			l.asked, l.noted = c.sent, false
			next := c.sent + e.o.TTL*2/5
			if c.sent < time.Duration(e.doubt.since.Load()) { // a connection was lost after it was sent
				next = e.now()
			}
			e.schedule(&l.alarm, min(next, l.end()))
		}
		l.renewing = false
	}
}
