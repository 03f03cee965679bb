package wire

import (
	"slices"
	"sync"
	"time"
)

// Recorder keeps the calls of its proxies. It leaves out commands that make connections or keep them alive. The
// commands of a transaction are calls of their own. The beginning of a Redis subscription and its messages are kept
// too. The zero value is ready. It is safe for concurrent use.
type Recorder struct {
	mu    sync.Mutex
	calls []*Call
}

// Tap starts a proxy whose calls are kept. The caller closes it.
func (r *Recorder) Tap(server, target string, codec Codec) (*Proxy, error) {
	return newProxy(server, target, codec, extra{recorder: r})
}

// Between returns the calls whose [Call.At] lies between two times, both included, in that order.
func (r *Recorder) Between(from, to time.Time) []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Call
	for _, c := range r.calls {
		if at := c.At(); !at.Before(from) && !at.After(to) {
			found = append(found, *c)
		}
	}
	slices.SortStableFunc(found, func(a, b Call) int { return a.At().Compare(b.At()) })
	return found
}

// Add notes a call that passed no proxy, as to a database in a file.
func (r *Recorder) Add(c Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, &c)
}

// sent notes a call that has passed. A poll is noted when it is answered.
func (r *Recorder) sent(k *Command) {
	if k.Setup || k.Quiet && !k.Listens {
		return
	}
	noted := k.Call
	noted.Poll = k.Poll && !k.Listens
	if k.Own != nil {
		noted.Words, noted.Text, noted.Pattern = k.Own.Words, k.Own.Text, k.Own.Pattern
	}
	k.noted = &noted
	if !noted.Poll {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, k.noted)
	}
}

// pushed notes a message of a Redis subscription, as a call that is its own answer.
func (r *Recorder) pushed(k *Command, now time.Time) {
	if len(k.Words) == 0 {
		return
	}
	noted := k.Call
	noted.Sent, noted.Answered, noted.Push = now, now, true
	r.Add(noted)
}

func (r *Recorder) answered(k *Command) {
	if k.noted == nil || k.Quiet && !k.Listens {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k.noted.Answered, k.noted.Failed = k.Answered, k.Failed
	if k.noted.Poll {
		r.calls = append(r.calls, k.noted)
	}
}
