package handoff

import (
	"container/heap"
	"slices"
	"strings"
	"time"

	"lastitem/internal/lock/lease"
)

// alarm is a moment at which something must be done: for a line its renewal or the end of its trust, for a look-out the
// next look. One timer of the process serves them all, through a heap.
type alarm struct {
	at    time.Duration
	line  *line
	look  *lookout
	index int // place in the heap, from 1; 0 = not in it
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
	a.index = 0
	return a
}

// schedule sets an alarm, or moves it. The mutex is held.
func (e *Engine) schedule(a *alarm, at time.Duration) {
	if e.closed {
		return
	}
	a.at = at
	if a.index > 0 {
		heap.Fix(&e.alarms, a.index-1)
	} else {
		heap.Push(&e.alarms, a)
	}
	e.arm()
}

// unschedule leaves the timer as it is: firing for nothing costs less than being set with each lock.
func (e *Engine) unschedule(a *alarm) {
	if a.index > 0 {
		heap.Remove(&e.alarms, a.index-1)
	}
}

func (e *Engine) arm() {
	if len(e.alarms) == 0 || e.armed > 0 && e.armed <= e.alarms[0].at {
		return
	}
	e.armed = max(e.alarms[0].at, 1)
	if d := e.armed - e.now(); e.timer == nil {
		e.timer = time.AfterFunc(d, e.tick)
	} else {
		e.timer.Reset(d)
	}
}

// tick does what is due. Renewals that are due soon go along, so that those of many locks share a command.
func (e *Engine) tick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.armed = 0; e.closed {
		return
	}
	now := e.now()
	var due []*line
	var later []*alarm
	for len(e.alarms) > 0 && e.alarms[0].at <= now+e.o.TTL/10 {
		a, _ := heap.Pop(&e.alarms).(*alarm)
		switch l := a.line; {
		case a == &e.cleaning && a.at <= now:
			e.spawn(e.cleanAll)
		case a.look != nil && a.at <= now:
			e.look(a.look)
		case l != nil && l.phase == draining && a.at <= now:
			e.askAgain(l)
		case l == nil || l.phase == draining || l.renewing && l.end() > now || a.at-now > (l.until-a.at)/6:
			later = append(later, a)
		case l.end() <= now:
			e.lose(l)
		default:
			due = append(due, l)
			l.renewing, a.at = true, l.end()
			later = append(later, a)
		}
	}
	for _, a := range later {
		heap.Push(&e.alarms, a)
	}
	e.renew(due)
	e.arm()
}

// renewals is how many locks one renewal command keeps alive: the server is busy for about 0.13 ms with a hundred.
const renewals = 100

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
		for n < min(len(due), renewals) && e.batch(due[0]) == e.batch(due[n]) {
			n++
		}
		batch, tokens := slices.Clone(due[:n]), make([]string, n)
		limit := min(e.o.TTL/3, lease.CleanupTimeout)
		for i, l := range batch {
			tokens[i] = l.token
			if left := l.until - e.now(); left < limit { // after a claim: another try must be in time; MaxHold hurries nobody
				limit = left / 2
			}
		}
		due = due[n:]
		e.spawn(func() { e.sendRenewal(batch, tokens, limit) })
	}
}

func (e *Engine) sendRenewal(batch []*line, tokens []string, limit time.Duration) {
	c := newCall(batch[0].mode.scripts().renew)
	for _, l := range batch {
		c.key(l.heldKey())
	}
	c.add(e.ttl).add(tokens...)
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
			e.schedule(&l.alarm, min(e.now()+e.o.TTL/10, l.end()))
		case number(v[i]) == 0 || !l.extend(trust(c.sent, e.o.TTL)):
			e.lose(l)
			continue
		default:
			e.schedule(&l.alarm, min(c.sent+e.o.TTL*2/5, l.end()))
		}
		l.renewing = false
	}
}
