package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
func watch(n news, ping func(context.Context) error, closing func() error) *health {
	ctx, stop := context.WithCancel(context.Background())
	h := &health{stop: stop}
	first := errNotAsked
	h.last.Store(&first)
	h.done.Go(func() {
		defer func() { _ = closing() }()
		n.since = time.Now()
		for wait := pingFirst; ; wait = min(2*wait, pingEvery) {
			err := h.ask(ctx, ping)
			if err == nil {
				wait = pingEvery
			}
			if ctx.Err() == nil { // else it is we who end
				n.hear(err)
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
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer in %s: %w", pingTimeout, err)
	}
	h.last.Store(&err)
	return err
}

// newsAfter is how long a backend may take to answer for the first time, since things that start together do not answer at once.
const newsAfter = time.Second

// news logs what changes, not what is: that a backend does not answer, and that it does again.
type news struct {
	log     *slog.Logger
	backend string
	since   time.Time // of the silence; zero while it answers
	met     bool      // it has answered once
	told    bool      // of the silence
}

// hear takes the outcome of a ping.
func (n *news) hear(err error) {
	now := time.Now()
	switch {
	case err == nil:
		if n.told {
			n.log.Info("backend answers", "backend", n.backend, "after", now.Sub(n.since).Round(time.Millisecond))
		}
		n.since, n.met, n.told = time.Time{}, true, false
		return
	case n.since.IsZero():
		n.since = now
	}
	if n.told || !n.met && now.Sub(n.since) < newsAfter {
		return
	}
	n.told = true
	n.log.Warn("backend does not answer", "backend", n.backend, "err", err)
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
