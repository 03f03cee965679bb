package lock

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// wire sends the engine's scripts. A call goes at once while there is a slot; those that come while all are taken wait for
// the next answer, and go together, in one write. So a busy process shares system calls and an idle one waits for nobody.
type wire struct {
	e       *Engine
	mu      sync.Mutex
	idle    sync.Cond // busy is 0
	waiting []*call
	busy    int
	trip    time.Duration // how long a batch takes that meets no other: falls at once, and rises slowly
	heard   time.Duration // when the last one was answered
}

// call is one script on its way. done is told of the answer on the wire's goroutine; where it is nil, somebody waits for ready.
type call struct {
	script *redis.Script
	keys   []string
	args   []any
	limit  time.Duration // where not 0: it goes alone, and may take so long
	done   func()
	ready  chan struct{}

	sent  time.Duration // on the engine's clock
	tries int
	reply any
	err   error
}

// The slots are as many as keep sends slotGap apart, so that calls gather where an answer comes within a few of them, and do
// not wait where the server is far away or a connection is stuck. A batch has at most batchSize calls: that holds the server
// up for about 0.3 ms.
const (
	slotGap   = 50 * time.Microsecond
	minSlots  = 2
	maxSlots  = 16
	batchSize = 64
)

func (w *wire) init(e *Engine) { w.e, w.idle.L = e, &w.mu }

// batch adds c to what waits and, where there is a slot, returns what to send in it now. The wire's mutex is held.
func (w *wire) batch(c *call) []*call {
	w.waiting = append(w.waiting, c)
	now := w.e.now()
	if w.busy == 0 {
		w.heard = now
	}
	if w.busy >= min(max(int(max(w.trip, now-w.heard)/slotGap), minSlots), maxSlots) {
		return nil
	}
	w.busy++
	return w.gathered()
}

// gathered takes out what goes together next. The wire's mutex is held.
func (w *wire) gathered() []*call {
	n := min(len(w.waiting), batchSize)
	if w.e.publish == "SPUBLISH" {
		n = min(n, 1) // in a cluster a batch would be as slow as its slowest node
	}
	batch := w.waiting[:n:n]
	if w.waiting = w.waiting[n:]; len(w.waiting) == 0 {
		w.waiting = nil
	}
	return batch
}

// send sends c, and returns before it is answered.
func (w *wire) send(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if batch := w.batch(c); batch != nil {
		go w.run(batch)
	}
}

// do sends c, on the caller's goroutine where it goes at once, and returns when it is answered.
func (w *wire) do(c *call) {
	if c.limit > 0 {
		w.exec([]*call{c}, c.limit)
		return
	}
	c.ready = make(chan struct{})
	w.mu.Lock()
	batch := w.batch(c)
	w.mu.Unlock()
	if batch != nil {
		w.answer(batch)
		if batch = w.next(); batch != nil {
			go w.run(batch)
		}
	}
	<-c.ready
}

// run sends a batch, and what has gathered meanwhile, until nothing has.
func (w *wire) run(batch []*call) {
	for batch != nil {
		w.answer(batch)
		batch = w.next()
	}
}

// answer sends a batch, and tells everybody in it.
func (w *wire) answer(batch []*call) {
	w.exec(batch, cleanupTimeout)
	for _, c := range batch {
		if c.done != nil {
			c.done()
		} else {
			close(c.ready)
		}
	}
}

// next takes the batch for a slot that has become free, or gives the slot back.
func (w *wire) next() []*call {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) > 0 {
		return w.gathered()
	}
	if w.busy--; w.busy == 0 {
		w.idle.Broadcast()
	}
	return nil
}

// wait returns when nothing is under way. What is, is bounded by cleanupTimeout, and by the client's own time-outs.
func (w *wire) wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.busy > 0 {
		w.idle.Wait()
	}
}

// exec sends a batch and reads its answers.
func (w *wire) exec(batch []*call, limit time.Duration) {
	ctx := deadline{context.Background(), time.Now().Add(limit)}
	sent := w.e.now()
	if len(batch) == 1 {
		c := batch[0]
		c.take(c.script.EvalSha(ctx, w.e.c, c.keys, c.args...), sent)
	} else {
		w.pipeline(ctx, batch, sent)
	}
	for _, c := range batch {
		if redis.HasErrorPrefix(c.err, "NOSCRIPT") {
			sent := w.e.now()
			c.take(c.script.Eval(ctx, w.e.c, c.keys, c.args...), sent)
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
	p := w.e.c.Pipeline()
	cmds := make([]*redis.Cmd, len(batch))
	for i, c := range batch {
		cmds[i] = c.script.EvalSha(ctx, p, c.keys, c.args...)
	}
	_, _ = p.Exec(ctx) // every command has its own error, also where none was read for it
	for i, c := range batch {
		c.take(cmds[i], sent)
	}
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
