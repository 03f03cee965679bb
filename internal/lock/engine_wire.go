package lock

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// wire sends the engine's scripts in batches, each a write and a read, several of them under way at a time. So a busy process
// shares system calls, while the server works at one batch this process reads another, and what is alone goes at once.
type wire struct {
	e         *Engine
	mu        sync.Mutex
	idle      sync.Cond // nothing is under way
	work      sync.Cond // orders has something, or closed
	waiting   []*call
	sent      int           // calls that are under way,
	busy      int           // in so many batches
	gathering bool          // a runner is about to take what waits
	parked    int           // runners that wait for orders
	orders    [][]*call     // for them: a batch to send, or none: then to gather one
	closed    bool          // no runner waits any more
	trip      time.Duration // how long a batch takes that meets no other: falls at once, and rises slowly
	heard     time.Duration // when the last one was answered
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

// So many batches may be under way: few where an answer comes soon, and as many as keep sends slotGap apart where the server
// is far away or a connection is stuck, so that calls do not wait for each other. A batch is a share of all calls, of which
// there are spare fewer than slots: an incomplete one finds room too. It has at most batchSize calls: that holds the server
// up for about 0.3 ms.
const (
	slotGap   = 50 * time.Microsecond
	minSlots  = 6
	maxSlots  = 16
	spare     = 2
	batchSize = 64
)

func (w *wire) init(e *Engine) { w.e, w.idle.L, w.work.L = e, &w.mu, &w.mu }

// send sends c, and returns before it is answered.
func (w *wire) send(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, c)
	if batch := w.next(false); batch != nil {
		w.order(batch)
	}
}

// do sends c, on the caller's goroutine where it completes a batch, and returns when it is answered.
func (w *wire) do(c *call) {
	if c.limit > 0 {
		w.exec([]*call{c}, c.limit)
		return
	}
	c.ready.Add(1)
	w.mu.Lock()
	w.waiting = append(w.waiting, c)
	if batch := w.next(false); batch != nil {
		w.mu.Unlock()
		w.answer(batch)
		w.mu.Lock()
		if batch = w.next(false); batch != nil {
			w.order(batch)
		}
	}
	w.mu.Unlock()
	c.ready.Wait()
}

// next returns a batch that the caller is to send now, or nil. A complete share goes at once, less only when it has gathered;
// where something is left that could go, a runner gathers. The mutex is held.
func (w *wire) next(gathered bool) []*call {
	slots := w.slots()
	n := min((w.sent+len(w.waiting)-1)/(slots-spare)+1, batchSize)
	if w.e.publish == "SPUBLISH" {
		n = 1 // in a cluster a batch would be as slow as its slowest node
	}
	if gathered {
		n = min(n, len(w.waiting))
	}
	var batch []*call
	if n > 0 && len(w.waiting) >= n && w.busy < slots {
		batch = slices.Clone(w.waiting[:n])
		w.waiting = slices.Delete(w.waiting, 0, n)
		w.busy++
		w.sent += n
	}
	if len(w.waiting) > 0 && w.busy < slots && !w.gathering {
		w.gathering = true
		w.order(nil)
	}
	return batch
}

// slots is how many batches may be under way now. The mutex is held.
func (w *wire) slots() int {
	if w.busy == 0 {
		w.heard = w.e.now()
	}
	n := max(int(w.trip/slotGap), minSlots)
	if w.busy >= n {
		n = max(n, int((w.e.now()-w.heard)/slotGap))
	}
	return min(n, maxSlots)
}

// order has a runner send batch, or gather one where it is nil. The mutex is held.
func (w *wire) order(batch []*call) {
	if w.parked == len(w.orders) {
		go w.run(batch)
		return
	}
	w.orders = append(w.orders, batch)
	w.work.Signal()
}

// run carries out an order, what there is to send after it, and the next orders: a new goroutine would have to grow its stack
// first.
func (w *wire) run(batch []*call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ok := true; ok; batch, ok = w.park() {
		if batch == nil {
			batch = w.gather()
		}
		for batch != nil {
			w.mu.Unlock()
			w.answer(batch)
			w.mu.Lock()
			batch = w.next(false)
		}
	}
}

// gather lets everybody add a call who can: an answer wakes several at once. The mutex is held.
func (w *wire) gather() []*call {
	w.mu.Unlock()
	runtime.Gosched()
	w.mu.Lock()
	w.gathering = false
	w.rest()
	return w.next(true)
}

// park waits for an order. It is false where the runner is to end. The mutex is held.
func (w *wire) park() (batch []*call, ok bool) {
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
	batch = w.orders[0]
	w.orders = slices.Delete(w.orders, 0, 1)
	return batch, true
}

// answer sends a batch, and tells everybody in it.
func (w *wire) answer(batch []*call) {
	w.exec(batch, cleanupTimeout)
	for _, c := range batch {
		if c.asks != nil {
			w.e.replied(c)
		} else {
			c.ready.Done()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent -= len(batch)
	w.busy--
	w.rest()
}

// rest tells who waits for the end of it all. The mutex is held.
func (w *wire) rest() {
	if w.resting() {
		w.idle.Broadcast()
	}
}

func (w *wire) resting() bool { return w.busy == 0 && !w.gathering && len(w.waiting) == 0 }

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
	w.heard = w.e.now()
	if trip := w.heard - sent; w.trip == 0 || trip < w.trip {
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

// command is the call as the client takes it: pointers to the words, because a string in an interface is an allocation.
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
