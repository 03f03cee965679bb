package backend

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	pingTimeout = 2 * time.Second
	pingEvery   = time.Second
	pingFirst   = 20 * time.Millisecond // and twice as long after each failure: who starts is soon told of what has just come up
)

var errNotAsked = errors.New("not asked yet")

// health pings a backend every second, more often until its first answer, over a connection of its own: a pool that is busy deducting says nothing about the
// server behind it.
type health struct {
	last atomic.Pointer[error]
	stop context.CancelFunc
	done sync.WaitGroup
}

// watch starts the pings; closing ends the connection that they use.
func watch(ping func(context.Context) error, closing func() error) *health {
	ctx, stop := context.WithCancel(context.Background())
	h := &health{stop: stop}
	first := errNotAsked
	h.last.Store(&first)
	h.done.Go(func() {
		defer func() { _ = closing() }()
		for wait := pingFirst; ; wait = min(2*wait, pingEvery) {
			if h.ask(ctx, ping) == nil {
				wait = pingEvery
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
	})
	return h
}

func (h *health) ask(ctx context.Context, ping func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	err := ping(ctx)
	h.last.Store(&err)
	return err
}

// check returns the last answer, without waiting. A nil health is a backend that is not configured: nothing to say.
func (h *health) check() error {
	if h == nil {
		return nil
	}
	return *h.last.Load()
}

func (h *health) close() {
	if h != nil {
		h.stop()
		h.done.Wait()
	}
}
