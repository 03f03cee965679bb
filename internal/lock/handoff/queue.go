package handoff

import (
	"context"
	"time"

	"lastitem/internal/lock"
)

// line is one bid of this process for a key, and whoever of this process waits for it: with Handoff all who want the key,
// with Fair a single waiter. Its fields are guarded by the engine's mutex.
//
//	asking -> held                  the lock was free
//	asking -> queued -> held        it was not; a message, or a poll, says that it is ours
//	asking -> draining -> held      a writer's, for which the last readers are waited for
//	held -> held                    passed on within the process
//	held -> asking                  released and queued again in one command, or lost, with others waiting here
type line struct {
	e       *Engine
	key     string
	token   string
	number  uint64 // of the token
	waiters fifo[waiter]
	place   place[line] // among the lines that are queued for the key
	hold    *holding    // the current hold; nil unless held

	fence, last uint64        // the next fencing token to give out, the last reserved
	granted     time.Duration // when this process got it
	until       time.Duration // how long its ownership can be trusted
	asked       time.Duration // when the last answered command was sent (of a hold: what confirmed it),
	serverTime  int64         // and the server's clock then, in ms

	alarm    alarm
	phase    phase
	tries    uint8 // of the acquire since it was last answered
	slow     uint8 // grants whose answers took too long
	anew     bool  // an acquire was sent for this token after one had been answered
	mode     mode
	renewing bool
	noted    bool // Redis has a note of the grant, until the first renewal
	repeat   bool // a message came while an acquire was under way: ask again
	strays   bool // a request for it was sent more than once: a duplicate may still arrive, after the release
}

type phase uint8

const (
	asking phase = iota
	queued
	held
	draining
)

// waiter is a caller in Acquire. ready is signalled once, when hold or err is set.
type waiter struct {
	ctx     context.Context
	ready   chan struct{}
	next    *holding // prepared
	hold    *holding // the same, when it is held
	err     error
	began   time.Duration
	overdue bool // waits only for the answer to the attempt that is under way
	late    bool // had to wait for somebody
	place   place[waiter]
}

func (w *waiter) settle(h *holding, err error) {
	w.hold, w.err = h, err
	close(w.ready)
}

// join puts w into the line for key, and begins one where there is none.
func (e *Engine) join(w *waiter, key string, m mode) (*line, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	if l := e.lines[key]; m == handingOff && l != nil {
		if w.late = true; w.overdue && l.phase != asking {
			return nil, lock.ErrBusy
		}
		l.waiters.push(&w.place)
		return l, nil
	}
	l := &line{e: e, key: key, mode: m}
	l.alarm.line, l.place.member = l, l
	l.waiters.push(&w.place)
	if m == handingOff {
		e.lines[key] = l
	}
	e.bid(l)
	e.ask(l)
	return l, nil
}

// patient says whether a waiter in l may wait for longer than the answer to one attempt.
func (l *line) patient() bool {
	for w := range l.waiters.all() {
		if !w.overdue {
			return true
		}
	}
	return false
}

// bid gives l a new token, and the phase that comes with it.
func (e *Engine) bid(l *line) {
	e.last++
	l.number, l.token, l.phase, l.tries, l.asked, l.serverTime = e.last, e.token(e.last, l.fences()), asking, 0, e.now(), 0
	l.anew, l.repeat, l.strays, l.slow = false, false, false, 0
	e.bids[l.number] = l
}

// grant gives l's lock, owned since sent at the latest for ttl, to the first of its waiters.
func (e *Engine) grant(l *line, fence uint64, sent, ttl time.Duration) {
	e.unwatch(l)
	l.noted, l.phase, l.granted, l.until, l.last, l.renewing, l.asked = l.mode != reading, held, e.now(), trust(sent, ttl), fence, false, sent
	l.fence = l.firstFence(fence)
	e.serve(l, sent)
	e.schedule(&l.alarm, min(sent+ttl*2/5, l.end()))
	e.expel(l, true)
}

// serve lets the first waiter hold the lock.
func (e *Engine) serve(l *line, since time.Duration) {
	w := l.waiters.pop()
	now := e.now()
	l.hold = w.next
	l.hold.l, l.hold.token, l.hold.fence, l.hold.since = l, l.token, l.fence, now
	l.hold.ends.Store(int64(l.end()))
	l.fence++
	if l.renewing { // the alarm is still set for the end of the previous hold
		e.schedule(&l.alarm, l.end())
	}
	add(e.m.Acquired, 1)
	add(e.m.Held, 1)
	if observe(e.m.Wait, now-w.began); w.late {
		add(e.m.Contended, 1)
		observe(e.m.Handoff, now-since)
	}
	w.settle(l.hold, nil)
}

// pushed takes a message of a script: the lock of key is ours.
func (e *Engine) pushed(token, mark string, fence uint64, serverTime int64, key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.bids[e.numberOf(token)]
	if l == nil || l.token != token { // its waiter has gone: on to the next
		e.spawn(func() { e.sendCancel(key, token) })
		return
	}
	if l.phase == held {
		return // a poll was faster
	}
	// The server's clock tells how long ago that was, reckoned from the last answer; never before that was asked for.
	at := l.asked
	if l.serverTime > 0 {
		at += max(0, time.Duration(serverTime-l.serverTime)*time.Millisecond)
	}
	now := e.now()
	for w := range l.waiters.all() {
		w.late = true
	}
	// The acquire that is under way may come after the release: a second one, or one that a read's script would not know.
	l.strays = l.strays || l.phase == asking && (l.anew || l.mode == reading)
	// One from before an answer that said queued is of a grant that has ended.
	if at = min(at, now); !l.told(mark) || serverTime < l.serverTime || trust(at, e.claim)-now < e.claim/4 || e.o.Replicas > 0 {
		e.askAgain(l) // it is old, or more is to be done: ask, which also renews
		return
	}
	e.granted(l, mark, answer{fence: fence, sent: at, time: serverTime})
}

// leave takes a waiter out that gives up. What was granted to it meanwhile is returned: it goes to the caller or back.
func (e *Engine) leave(l *line, w *waiter) *holding {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.waiters.remove(&w.place) && l.waiters.size == 0 && l.phase != held {
		e.empty(l, nil, true)
	}
	return w.hold
}

// expel fails the waiters that wanted no more than one attempt, and ends a line without waiters as empty does.
func (e *Engine) expel(l *line, undo bool) {
	for w := range l.waiters.all() {
		if w.late = true; w.overdue {
			l.waiters.remove(&w.place)
			w.settle(nil, lock.ErrBusy)
		}
	}
	if l.waiters.size == 0 && l.phase != held {
		e.empty(l, nil, undo)
	}
}

// empty fails all waiters of a line and ends its bid; where undo is true, on the server too.
func (e *Engine) empty(l *line, err error, undo bool) {
	for l.waiters.size > 0 {
		l.waiters.pop().settle(nil, err)
	}
	if l.phase == held {
		return
	}
	key, token := l.key, l.token
	e.forget(l)
	e.drop(l)
	if undo {
		e.spawn(func() { e.sendCancel(key, token) })
	}
}

// forget ends l's bid on this side: what is still said about its token is about nobody.
func (e *Engine) forget(l *line) {
	e.unwatch(l)
	e.unschedule(&l.alarm)
	delete(e.bids, l.number)
	l.token, l.hold = "", nil
}

// drop takes a line away that has no waiter and no bid.
func (e *Engine) drop(l *line) {
	if e.lines[l.key] == l {
		delete(e.lines, l.key)
	}
}
