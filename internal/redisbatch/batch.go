package redisbatch

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// slots is how many batches may be in flight, so that some get through while others are stuck on their connections. size is how many calls
// a batch may have; that many scripts occupy the server for about 0.3 ms.
const (
	slots = 16
	size  = 64
)

// Batcher sends calls; those that are made at the same time share one write. Make it with [New].
type Batcher struct {
	c      redis.UniversalClient
	limit  time.Duration
	direct bool // every call is sent by itself
	hasty  bool // a batch is sent without letting other callers run first; for the benchmark

	mu        sync.Mutex
	idle      sync.Cond // signalled when nothing is in flight
	waiting   []*Call   // and calls that were withdrawn
	gathering bool      // a goroutine is about to take the waiting calls
	busy      int       // batches in flight
	alone     int       // calls of Go in flight that share no write
}

// New returns a batcher on c. limit bounds the time from sending a call to its answer, including the wait for a connection; 0 leaves that
// to the time-outs of the client.
//
// Only calls to a single server share writes. In a cluster each call is sent by itself, and the connection pool of its node bounds how many
// are in flight. A batch would be as slow as its slowest node, and calls that wait for a slot would wait for a node that hangs.
func New(c redis.UniversalClient, limit time.Duration) *Batcher {
	b := &Batcher{c: c, limit: limit}
	b.idle.L = &b.mu
	_, single := c.(*redis.Client)
	b.direct = !single
	return b
}

// Do sends a call and returns when it is answered. The caller's goroutine may send other calls in the same batch, and then waits for their
// answers too.
func (b *Batcher) Do(c *Call) {
	if b.direct || c.Limit > 0 {
		b.single(c)
		return
	}
	c.ready.Add(1)
	if b.add(c) {
		b.round()
		if b.more() {
			go b.run()
		}
	}
	c.ready.Wait()
}

// Go sends a call and returns at once. When the call is answered, then runs on a goroutine that other calls need, so it must not block.
func (b *Batcher) Go(c *Call, then func()) {
	if b.direct || c.Limit > 0 {
		b.count(1)
		go func() {
			b.single(c)
			then()
			b.count(-1)
		}()
		return
	}
	c.then = then
	if b.add(c) {
		go b.run()
	}
}

// Withdraw takes back a call of Go, so that it is never sent, and returns true. It returns false if the call may have been sent; then the
// call goes on as if nothing had happened.
func (b *Batcher) Withdraw(c *Call) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := c.waiting
	c.waiting = false
	return was
}

// Wait returns when every call that was sent by Go, or in a batch, has been answered. Calls may be sent after that.
func (b *Batcher) Wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.resting() {
		b.idle.Wait()
	}
}

// resting says that nothing is in flight or waiting. The mutex is held.
func (b *Batcher) resting() bool {
	return b.busy == 0 && b.alone == 0 && !b.gathering && len(b.waiting) == 0
}

// add queues a call; true means that the caller must gather a batch.
func (b *Batcher) add(c *Call) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.waiting = true
	b.waiting = append(b.waiting, c)
	return b.claim()
}

// more says whether the caller must gather another batch.
func (b *Batcher) more() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claim()
}

// claim makes the caller gather the next batch, if calls wait, a slot is free and no other goroutine gathers. The mutex is held.
func (b *Batcher) claim() bool {
	if len(b.waiting) == 0 || b.gathering || b.busy == slots {
		return false
	}
	b.gathering = true
	return true
}

// run sends batches for as long as calls wait.
func (b *Batcher) run() {
	for again := true; again; again = b.more() {
		b.round()
	}
}

// round gathers a batch, sends it, and tells the callers that they are answered.
func (b *Batcher) round() {
	if !b.hasty {
		runtime.Gosched() // an answer wakes several callers at once: their next calls join this batch
	}
	batch := b.take()
	if len(batch) > 0 {
		b.exec(batch, b.limit)
	}
	for _, c := range batch {
		c.answered()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy--
	b.rest()
}

// take takes the batch that was gathered, without the calls that were withdrawn. If it leaves calls waiting and a slot is free, another
// goroutine gathers those.
func (b *Batcher) take() []*Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	batch := make([]*Call, 0, min(len(b.waiting), size))
	for ; n < len(b.waiting) && len(batch) < size; n++ {
		if c := b.waiting[n]; c.waiting {
			c.waiting = false
			batch = append(batch, c)
		}
	}
	clear(b.waiting[:n])
	b.waiting = b.waiting[n:]
	b.gathering = false
	b.busy++
	if b.claim() {
		go b.run()
	}
	return batch
}

// count adds n to the calls of Go that share no write.
func (b *Batcher) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alone += n
	b.rest()
}

// rest wakes the callers of Wait if nothing is in flight any more. The mutex is held.
func (b *Batcher) rest() {
	if b.resting() {
		b.idle.Broadcast()
	}
}

// single sends a call by itself.
func (b *Batcher) single(c *Call) { b.exec([]*Call{c}, cmp.Or(c.Limit, b.limit)) }

// exec sends a batch and reads its answers, in at most three round trips.
func (b *Batcher) exec(batch []*Call, limit time.Duration) {
	ctx := context.Background()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	for _, how := range []text{noText, firstText, everyText} {
		b.send(ctx, batch, how)
		if batch = unknown(batch); len(batch) == 0 {
			return
		}
	}
}
