package redisbatch

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Call is one call of a script. Script, Keys and Args are what [redis.Script.Run] takes.
type Call struct {
	Script *redis.Script
	Keys   []string
	Args   []any
	Limit  time.Duration // if not 0, the call shares no write and has this limit
	// Replicas of the server are awaited, this many and for at most [ReplicasTimeout], until they have what the call has
	// written. It must write: WAIT counts the writes of its own connection only.
	Replicas int

	// Set when the call is answered.
	Reply any
	// of this call alone: the server's error, or the reason why no answer was read; then the script may have run
	Err   error
	Began time.Time // when it was first sent
	Sent  time.Time // when it was last sent: again if the server did not have the script
	Acked int       // the replicas that have it, if it has awaited any

	then    func()
	ready   sync.WaitGroup
	lane    *lane // nil = the call is sent by itself
	waiting bool  // for a batch; the lane's mutex guards it
}

func (c *Call) answered() {
	if c.then != nil {
		c.then()
	} else {
		c.ready.Done()
	}
}

// text says which calls of a batch carry the text of their script, and not only its hash.
type text int

const (
	noText    text = iota
	firstText      // the first call of each script; then the server knows the script for the calls after it
	everyText
)

// ReplicasTimeout bounds how long replicas are awaited.
const ReplicasTimeout = time.Second

// awaited is how many replicas a batch awaits: all of its calls share one WAIT.
func awaited(batch []*Call) (n int) {
	for _, c := range batch {
		n = max(n, c.Replicas)
	}
	return n
}

// send sends a batch once, in one write, and reads its answers.
func (b *Batcher) send(ctx context.Context, batch []*Call, how text) {
	sent, replicas, to := time.Now(), awaited(batch), b.c
	if len(batch) == 1 && replicas == 0 {
		batch[0].take(batch[0].command(ctx, b.c, how != noText), sent)
		return
	}
	if b.cluster != nil && replicas > 0 { // WAIT has no key that leads it to the node of the others
		node, err := b.cluster.MasterForKey(ctx, batch[0].Keys[0])
		if err != nil {
			for _, c := range batch {
				c.Began, c.Sent, c.Err = sent, sent, err
			}
			return
		}
		to = node
	}
	pipe := to.Pipeline()
	cmds := make([]*redis.Cmd, len(batch))
	loaded := map[*redis.Script]bool{}
	for i, c := range batch {
		full := how == everyText || how == firstText && !loaded[c.Script]
		cmds[i] = c.command(ctx, pipe, full)
		if full {
			loaded[c.Script] = true
		}
	}
	acked := &redis.Cmd{} // 0
	if replicas > 0 {
		acked = pipe.Do(ctx, "WAIT", replicas, ReplicasTimeout.Milliseconds())
	}
	_, _ = pipe.Exec(ctx) // every command has its own error, also if no answer was read for it
	for i, c := range batch {
		c.take(cmds[i], sent)
		c.Acked, _ = acked.Int()
		if to != b.c && redis.HasErrorPrefix(c.Err, "MOVED") {
			b.cluster.ReloadState(ctx)
		}
	}
}

func (c *Call) command(ctx context.Context, to redis.Scripter, full bool) *redis.Cmd {
	if full {
		return c.Script.Eval(ctx, to, c.Keys, c.Args...)
	}
	return c.Script.EvalSha(ctx, to, c.Keys, c.Args...)
}

func (c *Call) take(cmd *redis.Cmd, sent time.Time) {
	if c.Began.IsZero() {
		c.Began = sent
	}
	c.Sent = sent
	c.Reply, c.Err = cmd.Result()
}

// unknown returns the calls whose script the server does not have: they have not run.
func unknown(batch []*Call) (missing []*Call) {
	for _, c := range batch {
		if c.Err != nil && redis.HasErrorPrefix(c.Err, "NOSCRIPT") {
			missing = append(missing, c)
		}
	}
	return missing
}
