package handoff

import (
	"container/heap"
	"slices"
	"strings"
	"time"
)

// alarm is a moment at which something must be done: for a contender its renewal or the end of its lease, for a poller the next poll. One timer of the process serves all alarms, through two heaps: renewals may be made early, so that many share a command, and polls may not.
type alarm struct {
	at        time.Duration
	contender *contender
	poller    *poller
	in        *alarms // the heap that it is in, nil = none
	index     int     // position in it, from 1
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
	if a.contender != nil && a.contender.state == granted {
		to = &e.renewals
	}
	if a.in != to {
		e.unschedule(a)
	}
	a.at = at
	if a.in == to {
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
	ok = len(e.polls) > 0
	if ok {
		at = e.polls[0].at
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
	e.pollDue(now)
	e.armed = 0
	e.arm()
}

// renewDue makes the renewals that are due, and those that are due soon, so that many locks share a command. The mutex is held.
func (e *Engine) renewDue(now time.Duration) {
	var due, later []*contender
	for len(e.renewals) > 0 && e.renewals[0].at <= now+e.o.TTL/10 {
		a, _ := heap.Pop(&e.renewals).(*alarm)
		switch c := a.contender; {
		case c.renewing && c.leaseEnd() > now: // it was passed on within this process since the alarm was set
			a.at = c.leaseEnd()
			later = append(later, c)
		case a.at-now > (c.validUntil-a.at)/6 && c.leaseEnd() > now:
			later = append(later, c)
		case c.leaseEnd() <= now:
			e.leaseLost(c)
		default:
			c.renewing, a.at = true, c.leaseEnd()
			due, later = append(due, c), append(later, c)
		}
	}
	for _, c := range later {
		e.schedule(&c.alarm, c.alarm.at)
	}
	e.renew(due)
}

// renewRest is the longest pause before a renewal that was not answered is sent again.
const renewRest = 500 * time.Millisecond

// renewSize is how many locks one renewal command keeps alive; a hundred occupy the server for about 0.13 ms.
const renewSize = 100

// renewalGroup names the command that a renewal shares: in a cluster there is one for each hash tag, and readers have their own. A lock with a lease
// time has a command to itself.
func (e *Engine) renewalGroup(c *contender) (name string) {
	if e.publish == "SPUBLISH" {
		name = hashed(c.key)
	}
	if c.lease > 0 {
		name += " " + c.token
	}
	if c.mode == reading {
		return "r" + name
	}
	return "w" + name
}

// renew sends the renewals.
func (e *Engine) renew(due []*contender) {
	slices.SortFunc(due, func(a, b *contender) int { return strings.Compare(e.renewalGroup(a), e.renewalGroup(b)) })
	for len(due) > 0 {
		n := 1
		for n < min(len(due), renewSize) && e.renewalGroup(due[0]) == e.renewalGroup(due[n]) {
			n++
		}
		batch, tokens, notes := slices.Clone(due[:n]), make([]string, n), []string(nil)
		limit := min(e.o.TTL/3, e.o.CallTimeout)
		for i, c := range batch {
			tokens[i] = c.token
			if c.grantNoted {
				notes = append(notes, KeysOf(c.key).Fence)
			}
			if left := c.validUntil - e.now(); left < limit { // after a grant by message: another try must be in time; MaxHold needs no hurry
				limit = left / 2
			}
		}
		due = due[n:]
		e.spawn(func() { e.sendRenewal(batch, tokens, notes, limit) })
	}
}

func (e *Engine) sendRenewal(batch []*contender, tokens, notes []string, limit time.Duration) {
	r := newRequest(batch[0].mode.scripts().renew)
	for _, c := range batch {
		r.key(c.heldKey())
	}
	r.key(notes...).add(batch[0].renewal()).add(tokens...)
	r.limit = limit
	e.do(r)
	v, _ := r.reply.([]any)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, c := range batch {
		switch {
		case c.token != tokens[i] || c.state != granted: // released meanwhile
			continue
		case r.err != nil || i >= len(v):
			e.report(renewalFailed, c.key, r.err)
			e.schedule(&c.alarm, min(e.now()+min(e.o.TTL/10, renewRest), c.leaseEnd()))
		case number(v[i]) == 0 || !c.extend(c.renewed(r.sent)):
			e.leaseLost(c)
			continue
		default:
			c.confirmedAt, c.grantNoted = r.sent, false
			next := c.renewAt(r.sent, c.ttl())
			if r.sent < time.Duration(e.failover.suspectedAt.Load()) { // a connection was lost after it was sent
				next = e.now()
			}
			e.schedule(&c.alarm, next)
		}
		c.renewing = false
	}
}
