package store

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// pipeline sends scripts, those that come at the same time in one write. A call goes at once while few are under way; what comes
// meanwhile waits for the next answer, and then goes together. So a busy process shares system calls and an idle one waits
// for nobody.
type pipeline struct {
	c     redis.UniversalClient
	most  int // calls in one write
	mu    sync.Mutex
	queue []*call
	busy  int
	heard time.Time // when the last write was answered
}

// call is one script on its way.
type call struct {
	script *redis.Script
	keys   []string
	args   []any
	reply  any
	err    error
	ready  sync.WaitGroup
}

// Two writes under way keep server and process busy at the same time. Where answers take longer than slotGap, because the server is
// far away or a connection is stuck, there are more of them. together bounds what holds the server up at a time.
const (
	minSlots = 2
	maxSlots = 16
	slotGap  = time.Millisecond
	together = 128
)

func newPipeline(c redis.UniversalClient) *pipeline {
	p := &pipeline{c: c, most: together}
	if _, ok := c.(*redis.ClusterClient); ok {
		p.most = 1 // a write to several nodes would be as slow as the slowest
	}
	return p
}

// eval runs a script and returns its reply. It does not end with the caller's context: what is sent may happen. The client's
// time-outs bound it.
func (p *pipeline) eval(script *redis.Script, keys []string, args []any) (any, error) {
	c := &call{script: script, keys: keys, args: args}
	c.ready.Add(1)
	if p.add(c) {
		runtime.Gosched() // who can run now, and would come a moment later, comes along
		if batch := p.next(); batch != nil {
			p.send(batch)
			if batch = p.next(); batch != nil {
				go p.run(batch)
			}
		}
	}
	c.ready.Wait()
	return c.reply, c.err
}

// add queues c, and takes a slot where there is one.
func (p *pipeline) add(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, c)
	slots := minSlots
	switch {
	case p.busy == 0:
		p.heard = time.Now()
	case p.busy >= minSlots:
		slots = min(minSlots+int(time.Since(p.heard)/slotGap), maxSlots)
	}
	if p.busy >= slots {
		return false
	}
	p.busy++
	return true
}

// run sends a batch, and what has gathered meanwhile, until nothing has.
func (p *pipeline) run(batch []*call) {
	for batch != nil {
		p.send(batch)
		batch = p.next()
	}
}

// next takes what goes together next, or gives the slot back.
func (p *pipeline) next() []*call {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = time.Now()
	n := min(len(p.queue), p.most)
	if n == 0 {
		p.busy--
		return nil
	}
	batch := p.queue[:n:n]
	if p.queue = p.queue[n:]; len(p.queue) == 0 {
		p.queue = nil
	}
	return batch
}

// send sends a batch, reads its answers, and tells everybody in it. A script that the server does not have yet has not run: it
// goes again, as a whole.
func (p *pipeline) send(batch []*call) {
	ctx := context.Background()
	if len(batch) == 1 {
		batch[0].take(batch[0].script.EvalSha(ctx, p.c, batch[0].keys, batch[0].args...))
	} else {
		p.exec(ctx, batch)
	}
	for _, c := range batch {
		if c.err != nil && redis.HasErrorPrefix(c.err, "NOSCRIPT") {
			c.take(c.script.Eval(ctx, p.c, c.keys, c.args...))
		}
		c.ready.Done()
	}
}

func (p *pipeline) exec(ctx context.Context, batch []*call) {
	pipe := p.c.Pipeline()
	cmds := make([]*redis.Cmd, len(batch))
	for i, c := range batch {
		cmds[i] = c.script.EvalSha(ctx, pipe, c.keys, c.args...)
	}
	_, _ = pipe.Exec(ctx) // every command has its own error, also where none was read for it
	for i, c := range batch {
		c.take(cmds[i])
	}
}

func (c *call) take(cmd *redis.Cmd) { c.reply, c.err = cmd.Result() }
