package redisbatch

import (
	"runtime"
	"sync"
)

// slots is how many batches of a server may be in flight, so that some get through while others are stuck on their connections. size is how
// many calls a batch may have; that many scripts occupy the server for about 0.3 ms.
const (
	slots = 16
	size  = 64
)

// lane sends the calls for one server.
type lane struct {
	b *Batcher

	mu        sync.Mutex
	idle      sync.Cond // signalled when nothing is in flight
	waiting   []*Call   // and calls that were withdrawn
	gathering bool      // a goroutine is about to take the waiting calls
	busy      int       // batches in flight
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
	for l.busy > 0 || l.gathering || len(l.waiting) > 0 {
		l.idle.Wait()
	}
}

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

// claim makes the caller gather the next batch, if calls wait, a slot is free and no other goroutine gathers. The mutex is held.
func (l *lane) claim() bool {
	if len(l.waiting) == 0 || l.gathering || l.busy == slots {
		return false
	}
	l.gathering = true
	return true
}

// run sends batches for as long as calls wait.
func (l *lane) run() {
	for again := true; again; again = l.more() {
		l.round()
	}
}

// round gathers a batch, sends it, and tells the callers that they are answered.
func (l *lane) round() {
	if !l.b.hasty {
		runtime.Gosched() // an answer wakes several callers at once: their next calls join this batch
	}
	batch := l.take()
	if len(batch) > 0 {
		l.b.exec(batch, l.b.limit)
	}
	for _, c := range batch {
		c.answered()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy--
	if l.busy == 0 && !l.gathering && len(l.waiting) == 0 {
		l.idle.Broadcast()
	}
}

// take takes the batch that was gathered, without the calls that were withdrawn. If it leaves calls waiting and a slot is free, another
// goroutine gathers those.
func (l *lane) take() []*Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	batch := make([]*Call, 0, min(len(l.waiting), size))
	for ; n < len(l.waiting) && len(batch) < size; n++ {
		if c := l.waiting[n]; c.waiting {
			c.waiting = false
			batch = append(batch, c)
		}
	}
	clear(l.waiting[:n])
	l.waiting = l.waiting[n:]
	l.gathering = false
	l.busy++
	if l.claim() {
		go l.run()
	}
	return batch
}
