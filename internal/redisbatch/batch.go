package redisbatch

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Batcher sends calls; those that are made at the same time to the same server share one write. Make it with [New].
type Batcher struct {
	c     redis.UniversalClient
	limit time.Duration
	hasty bool // a batch is sent without letting other callers run first; for the benchmark
	whole bool // a batch takes all calls that wait; for the benchmark

	server  *lane                // the lane of the only server; nil in a cluster
	cluster *redis.ClusterClient // nil where there is one server
	mapped  atomic.Bool          // the client of the cluster knows the slots of the nodes, so asking it does not block
	nodes   sync.Map             // address of a master -> its *lane
	sent    atomic.Int64         // calls of Go

	mu    sync.Mutex
	idle  sync.Cond // signalled when alone is 0
	alone int       // calls of Go in flight that share no write
}

// New returns a batcher on c. limit bounds the time from sending a call to its answer, including the wait for a
// connection; 0 leaves that to the time-outs of the client. A client without ContextTimeoutEnabled waits for an answer
// for as long as its own time-outs, whatever limit is.
//
// In a cluster each master has batches of its own: a batch with calls for several nodes would be as slow as the
// slowest, and a node that hangs holds up its own calls only.
func New(c redis.UniversalClient, limit time.Duration) *Batcher {
	b := &Batcher{c: c, limit: limit}
	b.idle.L = &b.mu
	switch c := c.(type) {
	case *redis.Client:
		b.server = newLane(b)
	case *redis.ClusterClient:
		b.cluster = c
	}
	return b
}

// Do sends a call and returns when it is answered. The caller's goroutine may send other calls in the same batch, and
// then waits for their answers too.
func (b *Batcher) Do(c *Call) {
	l := b.lane(c)
	if l == nil {
		b.single(c)
		return
	}
	c.ready.Add(1)
	if l.add(c) {
		l.round()
		if l.more() {
			go l.run()
		}
	}
	c.ready.Wait()
}

// Go sends a call and returns at once. When the call is answered, then runs on a goroutine that other calls need, so it
// must not block.
func (b *Batcher) Go(c *Call, then func()) {
	defer b.sent.Add(1) // last: Wait must not count the call before it can see it
	l := b.lane(c)
	if l == nil {
		b.count(1)
		go func() {
			b.single(c)
			then()
			b.count(-1)
		}()
		return
	}
	c.then = then
	if l.add(c) {
		go l.run()
	}
}

// Withdraw takes back a call of Go, so that it is never sent, and returns true. It returns false if the call may have
// been sent; then the call goes on as if nothing had happened.
func (b *Batcher) Withdraw(c *Call) bool { return c.lane != nil && c.lane.withdraw(c) }

// Wait returns when every call that was sent by Go, or in a batch, has been answered, as well as the calls of Go that
// their answers have led to. Calls may be sent after that.
func (b *Batcher) Wait() {
	for sent := int64(-1); sent != b.sent.Load(); { // a call of Go may have come to a lane after the wait for that lane
		sent = b.sent.Load()
		if b.server != nil {
			b.server.wait()
		}
		b.nodes.Range(func(_, l any) bool { l.(*lane).wait(); return true })
		b.waitAlone()
	}
}

func (b *Batcher) waitAlone() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.alone > 0 {
		b.idle.Wait()
	}
}

// lane returns the lane of the server that c is for; nil = c is sent by itself.
func (b *Batcher) lane(c *Call) *lane {
	switch {
	case c.Limit > 0:
		return nil
	case b.server != nil:
		return b.server
	case !b.mapped.Load() || len(c.Keys) == 0:
		return nil
	}
	node, err := b.cluster.MasterForKey(context.Background(), c.Keys[0])
	if err != nil {
		return nil
	}
	addr := node.Options().Addr
	if l, ok := b.nodes.Load(addr); ok {
		return l.(*lane)
	}
	l, _ := b.nodes.LoadOrStore(addr, newLane(b))
	return l.(*lane)
}

// count adds n to the calls that share no write.
func (b *Batcher) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alone += n
	if b.alone == 0 {
		b.idle.Broadcast()
	}
}

// single sends a call by itself.
func (b *Batcher) single(c *Call) {
	b.exec([]*Call{c}, cmp.Or(c.Limit, b.limit))
	if b.cluster != nil && c.Err == nil {
		b.mapped.Store(true)
	}
}

// exec sends a batch and reads its answers, in at most three round trips.
func (b *Batcher) exec(batch []*Call, limit time.Duration) {
	ctx := context.Background()
	if limit > 0 && awaited(batch) > 0 {
		limit += ReplicasTimeout
	}
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
