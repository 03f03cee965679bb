package redisbatch

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// A batch has at most size calls; that many scripts occupy the server for about 0.3 ms. Of many calls it takes only a
// share, but at least a few, so that the server executes one batch while this process prepares another.
//
// Only steady batches are in flight at once. If more were allowed, each caller could send its next call alone, as soon
// as its own answer arrives, and no batch would ever form again. A batch that is late may be on a connection that is
// stuck: for each late one another may be in flight, up to slots in all.
const (
	size   = 64
	shares = 4
	few    = 4
	steady = shares + 2
	slots  = 16
	late   = time.Millisecond
)

// A yield of more than slow is the last one for the time of rush.
const (
	slow = 5 * time.Millisecond
	rush = time.Second
)

// lane sends the calls for one server.
type lane struct {
	b *Batcher

	mu        sync.Mutex
	idle      sync.Cond // signalled when nothing is in flight
	waiting   []*Call   // and calls that were withdrawn
	gathering bool      // a goroutine is about to take the waiting calls
	flights   []*flight // the oldest first
	sent      int       // calls in them
	timer     *time.Timer
	watched   bool      // the timer is set
	rushing   time.Time // no yield before
}

// flight is a batch in flight.
type flight struct {
	began time.Time
	calls []*Call
}

func newLane(b *Batcher) *lane {
	l := &lane{b: b}
	l.idle.L = &l.mu
	return l
}

// withdraw takes back a call; see [Batcher.Withdraw].
func (l *lane) withdraw(c *Call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := c.waiting
	c.waiting = false
	return was
}

// wait returns when nothing is in flight or waiting.
func (l *lane) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.resting() {
		l.idle.Wait()
	}
}

func (l *lane) resting() bool { return len(l.flights) == 0 && !l.gathering && len(l.waiting) == 0 }

// add queues a call; true means that the caller must gather a batch.
func (l *lane) add(c *Call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.lane, c.waiting = l, true
	l.waiting = append(l.waiting, c)
	return l.claim()
}

// more says whether the caller must gather another batch.
func (l *lane) more() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claim()
}

// claim makes the caller gather the next batch, if calls wait, no other goroutine gathers, and there is room for a
// batch. The mutex is held.
func (l *lane) claim() bool {
	if len(l.waiting) == 0 || l.gathering || !l.room() {
		return false
	}
	l.gathering = true
	return true
}

// room says whether one more batch may be in flight. If it may as soon as an older one is late, the timer tries again
// then. The mutex is held.
func (l *lane) room() bool {
	n := len(l.flights)
	if n < steady {
		return true
	}
	if n == slots {
		return false
	}
	rest := late - time.Since(l.flights[n-steady].began)
	if rest > 0 {
		l.watch(rest)
	}
	return rest <= 0
}

// watch claims a batch after a time. The mutex is held.
func (l *lane) watch(after time.Duration) {
	switch {
	case l.watched:
		return
	case l.timer != nil:
		l.timer.Reset(after)
	default:
		l.timer = time.AfterFunc(after, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.watched = false
			if l.claim() {
				go l.run()
			}
		})
	}
	l.watched = true
}

// run sends batches for as long as calls wait.
func (l *lane) run() {
	for again := true; again; again = l.more() {
		l.round()
	}
}

// round gathers a batch, sends it, and tells the callers that they are answered.
func (l *lane) round() {
	l.yield()
	f := l.take()
	if len(f.calls) > 0 {
		l.b.exec(f.calls, l.b.limit)
	}
	for _, c := range f.calls {
		c.answered()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flights = slices.DeleteFunc(l.flights, func(other *flight) bool { return other == f })
	l.sent -= len(f.calls)
	if l.resting() {
		l.idle.Broadcast()
	}
}

// yield lets other callers run first, if any are awaited: an answer wakes several at once, and their next calls
// join this batch. Where the processors are full, a yield waits for all that could run, for 10 ms each. So nothing
// yields for a while after one that took long.
func (l *lane) yield() {
	l.mu.Lock()
	busy := len(l.flights) > 0 && time.Now().After(l.rushing)
	l.mu.Unlock()
	if l.b.hasty || !busy {
		return
	}
	began := time.Now()
	runtime.Gosched()
	if took := time.Since(began); took > slow {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.rushing = time.Now().Add(rush)
	}
}

// share returns how many of the waiting calls the next batch may take. The mutex is held.
func (l *lane) share() int {
	most := min(len(l.waiting), size)
	if l.b.whole {
		return most
	}
	return min(most, max(few, (l.sent+len(l.waiting)+shares-1)/shares))
}

// take takes the batch that was gathered, without the calls that were withdrawn. If calls are left, and there is room
// for another batch, a goroutine gathers those.
func (l *lane) take() *flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, most := 0, l.share()
	batch := make([]*Call, 0, most)
	for ; n < len(l.waiting) && len(batch) < most; n++ {
		if c := l.waiting[n]; c.waiting {
			c.waiting = false
			batch = append(batch, c)
		}
	}
	clear(l.waiting[:n])
	l.waiting = l.waiting[n:]
	l.gathering = false
	f := &flight{began: time.Now(), calls: batch}
	l.flights = append(l.flights, f)
	l.sent += len(batch)
	if l.claim() {
		go l.run()
	}
	return f
}
