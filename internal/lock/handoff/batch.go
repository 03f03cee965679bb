package handoff

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock/lease"
)

// wire sends the engine's scripts in batches, each a write and a read, several of them under way at a time. So a busy process
// shares system calls, while the server works at one batch this process reads another, and what is alone goes at once.
type wire struct {
	e         *Engine
	mu        sync.Mutex
	idle      sync.Cond // nothing is under way
	work      sync.Cond // orders has something, or closed
	waiting   []*call
	under     []*batch      // under way, the oldest first
	sent      int           // calls in them
	gathering bool          // a runner is about to take what waits
	parked    int           // runners that wait for orders
	orders    []*batch      // for them: a batch to send, or nil: then to gather one
	closed    bool          // no runner waits any more
	trip      time.Duration // how long a batch takes that meets no other: falls at once, and rises slowly
	timer     *time.Timer   // looks again when batches may be late
	watched   bool          // it is set
}

// batch is what goes in one write.
type batch struct {
	calls []*call
	began time.Duration
}

// call is one script on its way. Where asks is set it is told of the answer, on a runner's goroutine, else ready is.
type call struct {
	script *script
	texts  []string      // the keys, and the arguments
	keys   int           // how many of them are keys
	limit  time.Duration // where not 0: it goes alone, and may take so long
	asks   *line
	token  string // that it asks with
	queue  bool   // whether it queues
	ready  sync.WaitGroup

	sent  time.Duration // on the engine's clock
	tries int
	reply any
	err   error

	// What texts and the command are made of: so most calls are one allocation.
	buffer [11]string
	words  [14]any
}

// newCall is a call of s with keys.
func newCall(s *script, keys ...string) *call {
	c := &call{script: s}
	c.texts = c.buffer[:0]
	return c.key(keys...)
}

// key adds keys; the arguments come after them.
func (c *call) key(keys ...string) *call {
	c.texts = append(c.texts, keys...)
	c.keys += len(keys)
	return c
}

// add adds arguments.
func (c *call) add(args ...string) *call {
	c.texts = append(c.texts, args...)
	return c
}

// The constants bound the batches in flight. There are few if answers come soon; if the server is far away, there are as many as keep sends
// slotGap apart. For each batch that is late, as on a connection that is stuck, there is one more, so that calls do not wait for it. The calls
// are divided into spare fewer batches than there are slots, so that an incomplete batch finds a slot too. A batch has at most batchSize calls:
// that occupies the server for about 0.3 ms.
const (
	slotGap   = 50 * time.Microsecond
	minSlots  = 6
	maxSlots  = 16
	spare     = 2
	batchSize = 64
)

// late is after how long a batch counts as late.
func (w *wire) late() time.Duration { return max(4*w.trip, time.Millisecond) }

func (w *wire) init(e *Engine) { w.e, w.idle.L, w.work.L = e, &w.mu, &w.mu }

// direct says whether calls are sent one by one and not in batches. That is so in a cluster: a batch would be as slow as its slowest node, and
// calls that wait for a slot would wait for nodes that hang. There the client's pools bound the calls in flight, for each node separately.
func (w *wire) direct() bool { return w.e.publish == "SPUBLISH" }

// send sends c, and returns before it is answered. The engine's mutex is held.
func (w *wire) send(c *call) {
	if w.direct() {
		w.e.spawn(func() {
			w.exec([]*call{c}, lease.CleanupTimeout)
			w.e.replied(c)
		})
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, c)
	if b := w.next(false); b != nil {
		w.order(b)
	}
}

// do sends c, on the caller's goroutine where it completes a batch, and returns when it is answered, as is what went with it.
func (w *wire) do(c *call) {
	if c.limit > 0 || w.direct() {
		w.exec([]*call{c}, cmp.Or(c.limit, lease.CleanupTimeout))
		return
	}
	c.ready.Add(1)
	w.mu.Lock()
	w.waiting = append(w.waiting, c)
	if b := w.next(false); b != nil {
		w.mu.Unlock()
		w.answer(b)
		w.mu.Lock()
		if b = w.next(false); b != nil {
			w.order(b)
		}
	}
	w.mu.Unlock()
	c.ready.Wait()
}

// next returns a batch that the caller is to send now, or nil. A complete share goes at once, less only when it has gathered;
// where something is left that could go, a runner gathers. The mutex is held.
func (w *wire) next(gathered bool) (b *batch) {
	slots := w.slots()
	n := min((w.sent+len(w.waiting)-1)/(slots-spare)+1, batchSize)
	if gathered {
		n = min(n, len(w.waiting))
	}
	if n > 0 && len(w.waiting) >= n && len(w.under) < slots {
		b = &batch{slices.Clone(w.waiting[:n]), w.e.now()}
		w.under = append(w.under, b)
		w.sent += n
		clear(w.waiting[:n])
		if rest := w.waiting[n:]; len(rest) > 0 {
			w.waiting = rest
		} else {
			w.waiting = w.waiting[:0]
		}
	}
	switch {
	case len(w.waiting) == 0:
	case len(w.under) < slots && !w.gathering:
		w.gathering = true
		w.order(nil)
	case len(w.under) >= slots && slots < maxSlots && !w.watched:
		w.watch()
	}
	return b
}

// watch looks again when batches may be late: nobody else does where all callers wait. The mutex is held.
func (w *wire) watch() {
	w.watched = true
	if w.timer != nil {
		w.timer.Reset(w.late())
		return
	}
	w.timer = time.AfterFunc(w.late(), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watched = false
		if b := w.next(false); b != nil {
			w.order(b)
		}
	})
}

// slots is how many batches may be under way now. The mutex is held.
func (w *wire) slots() int {
	n := max(int(w.trip/slotGap), minSlots)
	if len(w.under) >= n {
		began := w.e.now() - w.late()
		for _, b := range w.under {
			if b.began <= began {
				n++
			}
		}
	}
	return min(n, maxSlots)
}

// order has a runner send b, or gather a batch where it is nil. The mutex is held.
func (w *wire) order(b *batch) {
	if w.parked == len(w.orders) {
		go w.run(b)
		return
	}
	w.orders = append(w.orders, b)
	w.work.Signal()
}

// run carries out an order, what there is to send after it, and the next orders: a new goroutine would have to grow its stack
// first.
func (w *wire) run(b *batch) {
	w.mu.Lock()
	for ok := true; ok; b, ok = w.park() {
		if b == nil {
			b = w.gather()
		}
		for b != nil {
			w.mu.Unlock()
			w.answer(b)
			w.mu.Lock()
			b = w.next(false)
		}
	}
	w.mu.Unlock()
}

// gather lets everybody add a call who can: an answer wakes several at once. The mutex is held.
func (w *wire) gather() *batch {
	w.mu.Unlock()
	runtime.Gosched()
	w.mu.Lock()
	w.gathering = false
	w.rest()
	return w.next(true)
}

// park waits for an order. It is false where the runner is to end. The mutex is held.
func (w *wire) park() (b *batch, ok bool) {
	if w.parked-len(w.orders) >= minSlots {
		return nil, false
	}
	w.parked++
	for len(w.orders) == 0 && !w.closed {
		w.work.Wait()
	}
	w.parked--
	if len(w.orders) == 0 {
		return nil, false
	}
	b = w.orders[0]
	w.orders = slices.Delete(w.orders, 0, 1)
	return b, true
}

// answer sends a batch, and tells everybody in it.
func (w *wire) answer(b *batch) {
	w.exec(b.calls, lease.CleanupTimeout)
	for _, c := range b.calls {
		if c.asks != nil {
			w.e.replied(c)
		} else {
			c.ready.Done()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent -= len(b.calls)
	w.under = slices.DeleteFunc(w.under, func(other *batch) bool { return other == b })
	w.rest()
}

// rest tells who waits for the end of it all. The mutex is held.
func (w *wire) rest() {
	if w.resting() {
		w.idle.Broadcast()
	}
}

func (w *wire) resting() bool { return len(w.under) == 0 && !w.gathering && len(w.waiting) == 0 }

// close returns when nothing is under way. What is, is bounded by cleanupTimeout, and by the client's own time-outs. What is
// sent afterwards still goes.
func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.resting() {
		w.idle.Wait()
	}
	w.closed = true
	w.work.Broadcast()
	if w.timer != nil {
		w.timer.Stop()
	}
}

// exec sends a batch and reads its answers.
func (w *wire) exec(batch []*call, limit time.Duration) {
	ctx := deadline{context.Background(), time.Now().Add(limit)}
	sent := w.e.now()
	if len(batch) == 1 {
		c, cmd := batch[0], batch[0].byHash(ctx)
		_ = w.e.c.Process(ctx, cmd) // which has the error
		c.take(cmd, sent)
	} else {
		w.pipeline(ctx, batch, sent)
	}
	for _, c := range batch {
		if c.err != nil && redis.HasErrorPrefix(c.err, "NOSCRIPT") {
			sent, cmd := w.e.now(), c.inFull(ctx)
			_ = w.e.c.Process(ctx, cmd)
			c.take(cmd, sent)
		}
	}
	w.mu.Lock()
	if trip := w.e.now() - sent; w.trip == 0 || trip < w.trip {
		w.trip = trip
	} else {
		w.trip += (trip - w.trip) / 256
	}
	w.mu.Unlock()
}

func (w *wire) pipeline(ctx context.Context, batch []*call, sent time.Duration) {
	cmds := make([]redis.Cmder, len(batch))
	for i, c := range batch {
		cmds[i] = c.byHash(ctx)
	}
	p := w.e.c.Pipeline()
	_ = p.BatchProcess(ctx, cmds...)
	_, _ = p.Exec(ctx) // every command has its own error, also where none was read for it
	for i, c := range batch {
		if cmd, ok := cmds[i].(*redis.Cmd); ok {
			c.take(cmd, sent)
		}
	}
}

// byHash is the call for a server that has the script.
func (c *call) byHash(ctx context.Context) *redis.Cmd {
	return c.command(ctx, &evalSHA, &c.script.hash)
}

// inFull is the call with the text of its script.
func (c *call) inFull(ctx context.Context) *redis.Cmd {
	return c.command(ctx, &eval, &c.script.text)
}

var evalSHA, eval = "evalsha", "eval"

// command is the call as the client takes it: pointers to the words, because a string in an interface is an allocation. A hook
// of the client sees the pointers.
func (c *call) command(ctx context.Context, name, script *string) *redis.Cmd {
	words := append(c.words[:0], name, script, c.keys)
	for i := range c.texts {
		words = append(words, &c.texts[i])
	}
	return redis.NewCmd(ctx, words...)
}

func (c *call) take(cmd *redis.Cmd, sent time.Duration) {
	c.sent = sent
	c.reply, c.err = cmd.Result()
}

// deadline is a context with a deadline and no timer: the client takes its connection's deadlines from it.
type deadline struct {
	context.Context
	at time.Time
}

func (d deadline) Deadline() (time.Time, bool) { return d.at, true }
