package redisbatch

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// size is how many calls a batch may have: that many scripts occupy the server for about 0.3 ms.
const size = 64

// tuning bounds the batches under way. Few keep a server nearby and this process busy at the same time, and leave calls time to gather. A batch
// that has no answer after late counts no more, because the server is far away or its connection is stuck, until there are most of them.
type tuning struct {
	few, most int
	late      time.Duration
	yield     bool // the goroutine that gathers lets others run first
}

var tuned = tuning{few: 4, most: 16, late: time.Millisecond, yield: true}

// Batcher sends calls, those that come at the same time in one write. Make it with [New].
type Batcher struct {
	c      redis.UniversalClient
	limit  time.Duration
	direct bool // every call goes by itself
	tuning

	mu        sync.Mutex
	idle      sync.Cond // nothing is under way
	waiting   []*Call
	gathering bool        // somebody is about to take what waits
	busy      []time.Time // when the batches under way were sent
	alone     int         // calls of Go under way that share no write
	timer     *time.Timer // looks again when a batch is late
	watched   bool        // it is set
}

// New returns a batcher on c. limit bounds how long a call takes from the moment in which it is sent, with its wait for a connection; 0 leaves
// that to the time-outs of the client.
//
// Only calls to a single server share writes. In a cluster each call goes by itself, and the pools of its node bound what is under way: a batch
// would be as slow as its slowest node, and calls that wait for a slot would wait for a node that hangs.
func New(c redis.UniversalClient, limit time.Duration) *Batcher {
	b := &Batcher{c: c, limit: limit, tuning: tuned}
	b.idle.L = &b.mu
	_, single := c.(*redis.Client)
	b.direct = !single
	return b
}

// Do sends a call and returns when it is answered. The caller's goroutine may carry other calls as well, and then waits for their answers too.
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

// Go sends a call and returns at once. When it is answered, then is called on a goroutine that other calls need: it must not block.
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

// Wait returns when every call that was sent by Go, or in a batch, has been answered. Calls may be sent after that.
func (b *Batcher) Wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.resting() {
		b.idle.Wait()
	}
}

// resting says that nothing is under way. The mutex is held.
func (b *Batcher) resting() bool {
	return len(b.busy) == 0 && b.alone == 0 && !b.gathering && len(b.waiting) == 0
}

// add queues a call; true means that the caller must gather a batch.
func (b *Batcher) add(c *Call) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, c)
	return b.claim()
}

// more says whether the caller must gather another batch.
func (b *Batcher) more() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claim()
}

// claim makes the caller the one that gathers the next batch, if calls wait, there may be another batch and nobody gathers. The mutex is held.
func (b *Batcher) claim() bool {
	if len(b.waiting) == 0 || b.gathering || len(b.busy) >= b.most {
		return false
	}
	if len(b.busy) >= b.few && !b.busy[len(b.busy)-b.few].Before(time.Now().Add(-b.late)) {
		b.watch()
		return false
	}
	b.gathering = true
	return true
}

// watch looks again when a batch is late, since no caller does while all of them wait. The mutex is held.
func (b *Batcher) watch() {
	switch {
	case b.watched:
		return
	case b.timer == nil:
		b.timer = time.AfterFunc(b.late, b.look)
	default:
		b.timer.Reset(b.late)
	}
	b.watched = true
}

func (b *Batcher) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watched = false
	if b.claim() {
		go b.run()
	}
}

// run sends batches for as long as calls wait.
func (b *Batcher) run() {
	for again := true; again; again = b.more() {
		b.round()
	}
}

// round gathers a batch, sends it, and tells everybody in it.
func (b *Batcher) round() {
	if b.yield {
		runtime.Gosched() // an answer wakes several callers at once: their next calls come along
	}
	batch, began := b.take()
	b.exec(batch, b.limit)
	for _, c := range batch {
		c.answered()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.busy, began)
	b.busy = slices.Delete(b.busy, i, i+1)
	b.rest()
}

// take takes the batch that was gathered, and has another goroutine gather the calls that are too many for it.
func (b *Batcher) take() (batch []*Call, began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), size)
	batch, began = slices.Clone(b.waiting[:n]), time.Now()
	clear(b.waiting[:n])
	if rest := b.waiting[n:]; len(rest) > 0 {
		b.waiting = rest
	} else {
		b.waiting = b.waiting[:0]
	}
	b.gathering = false
	b.busy = append(b.busy, began)
	if b.claim() {
		go b.run()
	}
	return batch, began
}

// count counts a call of Go that shares no write.
func (b *Batcher) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alone += n
	b.rest()
}

// rest tells those that wait for the end of it all. The mutex is held.
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
