package handoff

import (
	"time"

	"lastitem/internal/redisbatch"
)

// call is one of the engine's scripts on its way.
type call struct {
	script *script
	keys   []string
	args   []any
	limit  time.Duration // where not 0: it shares no write, and may take so long
	asks   *line         // which line the answer is for, of an acquire
	token  string        // that it asks with
	queue  bool          // whether it queues

	sent  time.Duration // on the engine's clock
	tries int
	reply any
	err   error
}

// newCall is a call of s with keys.
func newCall(s *script, keys ...string) *call { return (&call{script: s}).key(keys...) }

// key adds keys.
func (c *call) key(keys ...string) *call {
	c.keys = append(c.keys, keys...)
	return c
}

// add adds arguments.
func (c *call) add(args ...string) *call {
	for _, arg := range args {
		c.args = append(c.args, arg)
	}
	return c
}

// send sends an acquire, and returns before it is answered. The engine's mutex is held.
func (e *Engine) send(c *call) {
	sent := c.toBatch()
	e.batches.Go(sent, func() {
		c.answered(e, sent)
		e.replied(c)
	})
}

// do sends c, and returns when it is answered, as is what went with it.
func (e *Engine) do(c *call) {
	sent := c.toBatch()
	e.batches.Do(sent)
	c.answered(e, sent)
}

func (c *call) toBatch() *redisbatch.Call {
	return &redisbatch.Call{Script: c.script.Script, Keys: c.keys, Args: c.args, Limit: c.limit}
}

func (c *call) answered(e *Engine, sent *redisbatch.Call) {
	c.reply, c.err, c.sent = sent.Reply, sent.Err, sent.Sent.Sub(e.epoch)
}
