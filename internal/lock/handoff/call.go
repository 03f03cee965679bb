package handoff

import (
	"time"

	"lastitem/internal/redisbatch"
)

// call is one call of an engine script.
type call struct {
	script *script
	keys   []string
	args   []any
	limit  time.Duration // if not 0, the call shares no write and has this limit
	asks   *line         // the line that an acquire is for; nil for any other script
	token  string        // the token of that acquire
	queue  bool          // whether that acquire queues

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

// send sends an acquire and returns before the answer arrives. The engine's mutex is held.
func (e *Engine) send(c *call) {
	sent := c.toBatch()
	e.batches.Go(sent, func() {
		c.answered(e, sent)
		e.replied(c)
	})
}

// do sends c and returns when it is answered. It may also wait for the other calls of its batch.
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
