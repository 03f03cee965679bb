package handoff

import (
	"container/heap"
	"time"
)

// alarm is a moment at which something must be done: for a contender its renewal or the end of its lease, for a poller
// the next poll. One timer of the process serves all alarms, through two heaps: renewals may be made early, so that
// many share a command, and polls may not.
type alarm struct {
	at        time.Duration
	contender *contender
	poller    *poller
	in        *alarms // the heap that it is in, nil = none
	index     int     // position in it, from 1
}

type alarms []*alarm

// agenda has the alarms of an engine, whose mutex guards it.
type agenda struct {
	clock
	renewals alarms
	polls    alarms // all alarms that are not renewals
	ring     func() // handles what is due
	timer    *time.Timer
	armed    time.Duration // when timer fires; 0 = it is not set
	closed   bool
}

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

// schedule sets an alarm, or moves it.
func (g *agenda) schedule(a *alarm, at time.Duration) {
	if g.closed {
		return
	}
	to := &g.polls
	if a.contender != nil && a.contender.state == granted {
		to = &g.renewals
	}
	if a.in != to {
		g.unschedule(a)
	}
	a.at = at
	if a.in == to {
		heap.Fix(to, a.index-1)
	} else {
		a.in = to
		heap.Push(to, a)
	}
	g.arm()
}

// unschedule leaves the timer as it is: firing for nothing costs less than being set with each lock.
func (g *agenda) unschedule(a *alarm) {
	if a.in != nil {
		heap.Remove(a.in, a.index-1)
	}
}

// next returns when the timer must fire; ok is false if there is nothing to do.
func (g *agenda) next() (at time.Duration, ok bool) {
	ok = len(g.polls) > 0
	if ok {
		at = g.polls[0].at
	}
	if len(g.renewals) > 0 && (!ok || g.renewals[0].at < at) {
		at, ok = g.renewals[0].at, true
	}
	return max(at, 1), ok
}

func (g *agenda) arm() {
	at, ok := g.next()
	if !ok || g.armed > 0 && g.armed <= at {
		return
	}
	g.armed = at
	if d := g.armed - g.now(); g.timer == nil {
		g.timer = time.AfterFunc(d, g.ring)
	} else {
		g.timer.Reset(d)
	}
}

// close forgets all alarms.
func (g *agenda) close() {
	g.closed = true
	for _, h := range []*alarms{&g.renewals, &g.polls} {
		for len(*h) > 0 {
			heap.Pop(h)
		}
	}
	if g.timer != nil {
		g.timer.Stop()
	}
}

// tick handles the alarms that are due. It touches no others, except renewals that are due soon.
func (e *Engine) tick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := &e.agenda
	g.armed = 1 // in the past, so that it is set only at the end
	now := g.now()
	if len(g.renewals) > 0 && g.renewals[0].at <= now {
		e.keeper.renewDue(now)
	}
	// The oldest come first, and what exceeds one burst is left to the next tick.
	for n := 0; n < pollBurst && len(g.polls) > 0 && g.polls[0].at <= now; n++ {
		a := g.polls[0]
		g.unschedule(a)
		switch {
		case a.poller != nil:
			e.pollers.poll(a.poller)
		case a.contender == nil:
			e.spawn(e.cleaner.cleanAll)
		case a.contender.state == draining:
			a.contender.reacquire(byTimer)
		}
	}
	g.armed = 0
	g.arm()
}
