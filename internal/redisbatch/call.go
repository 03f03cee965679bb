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

	// Set when the call is answered.
	Reply any
	// of this call alone: the server's error, or the reason why no answer was read; then the script may have run
	Err   error
	Began time.Time // when it was first sent
	Sent  time.Time // when it was last sent: again if the server did not have the script

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

// send sends a batch once, in one write, and reads its answers.
func (b *Batcher) send(ctx context.Context, batch []*Call, how text) {
	sent := time.Now()
	if len(batch) == 1 {
		batch[0].take(batch[0].command(ctx, b.c, how != noText), sent)
		return
	}
	pipe := b.c.Pipeline()
	cmds := make([]*redis.Cmd, len(batch))
	loaded := map[*redis.Script]bool{}
	for i, c := range batch {
		full := how == everyText || how == firstText && !loaded[c.Script]
		cmds[i] = c.command(ctx, pipe, full)
		if full {
			loaded[c.Script] = true
		}
	}
	_, _ = pipe.Exec(ctx) // every command has its own error, also if no answer was read for it
	for i, c := range batch {
		c.take(cmds[i], sent)
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
