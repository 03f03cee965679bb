package handoff

import (
	"time"

	"lastitem/internal/redisbatch"
)

// request is one request to run an engine script, and its outcome.
type request struct {
	script    *script
	keys      []string
	args      []any
	limit     time.Duration // if not 0, the request goes alone and has this limit
	contender *contender    // the contender that an acquire is for; nil for any other script
	token     string        // the token of that acquire
	queue     bool          // whether that acquire queues

	sent  time.Duration // on the engine's clock
	tries int
	reply any
	err   error
	late  bool // a copy of it may arrive after its answer
}

// newRequest is a request to run s with keys.
func newRequest(s *script, keys ...string) *request { return (&request{script: s}).key(keys...) }

// key adds keys.
func (r *request) key(keys ...string) *request {
	r.keys = append(r.keys, keys...)
	return r
}

// add adds arguments.
func (r *request) add(args ...string) *request {
	for _, arg := range args {
		r.args = append(r.args, arg)
	}
	return r
}

// send sends an acquire and returns before the reply arrives. The engine's mutex is held.
func (e *Engine) send(r *request) *redisbatch.Call {
	sent := r.toBatch()
	e.batches.Go(sent, func() {
		r.complete(e, sent)
		e.onAcquireReply(r)
	})
	return sent
}

// doOnce sends r once and returns when it is answered. It may also wait for the other requests of its batch.
func (e *Engine) doOnce(r *request) {
	sent := r.toBatch()
	e.batches.Do(sent)
	r.complete(e, sent)
}

func (r *request) toBatch() *redisbatch.Call {
	return &redisbatch.Call{Script: r.script.Script, Keys: r.keys, Args: r.args, Limit: r.limit}
}

func (r *request) complete(e *Engine, sent *redisbatch.Call) {
	r.reply, r.err, r.sent = sent.Reply, versionError(sent.Err), sent.Sent.Sub(e.epoch)
	r.late = r.late || r.tries > 1 || time.Since(sent.Began) >= e.repeatsAfter
}
