package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"lastitem/internal/store"
)

// Health is how the backends are probed. The zero value of a field is its default.
type Health struct {
	// Every is the time between two probes of a backend, 1 s; negative = there are none: every backend counts as healthy,
	// and requests find out by themselves.
	Every time.Duration
	// Within is how long a probe may take, 900 ms: a backend that does not answer is known after Every and two of these.
	Within time.Duration
}

func (h Health) orDefault() Health {
	h.Every = cmp.Or(h.Every, time.Second)
	h.Within = cmp.Or(h.Within, 900*time.Millisecond)
	return h
}

const (
	// and twice as long after each failure: a process that starts soon sees a server that has just come up
	probeFirst = 20 * time.Millisecond
	probeAgain = 100 * time.Millisecond // before the second probe, which decides
	probeDown  = 250 * time.Millisecond // while a backend is down: it is used again soon after its return
)

var errNotAsked = errors.New("not asked yet")

// health probes a backend, over a connection of its own: a pool that is busy deducting says nothing about its server.
//
// A server that refuses is down at once: that is an answer. One that does not answer, or that there is no connection
// to, is asked again at once over another connection, and is down when that fails too: a packet that was lost, a
// connection that was cut, or a moment in which a machine was busy must not take a healthy backend out of use.
type health struct {
	probing Health
	probe   probe
	last    atomic.Pointer[error]
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// probe asks a backend whether it can do what the modes need.
type probe struct {
	ask     func(context.Context) error
	refused func(error) bool // says that err is an answer of the server; nil = none is
	close   func() error     // ends its connection; nil = it has none of its own
}

// watch starts the probes.
func watch(n news, how Health, p probe) *health {
	ctx, stop := context.WithCancel(context.Background())
	h := &health{probing: how.orDefault(), probe: p, stop: stop}
	first := errNotAsked
	h.last.Store(&first)
	n.since = time.Now()
	h.done.Go(func() {
		if p.close != nil {
			defer func() { _ = p.close() }()
		}
		h.run(ctx, n)
	})
	return h
}

func (h *health) run(ctx context.Context, n news) {
	silent := false // the last probe was not answered
	for first := probeFirst; ; {
		err := h.ask(ctx)
		if ctx.Err() != nil { // the set is closing
			return
		}
		again := err != nil && !errors.Is(err, store.ErrRefused) && !silent && !h.down()
		silent = err != nil
		wait := h.probing.Every
		switch {
		case again:
			wait = probeAgain
		case err != nil:
			wait = min(first, h.probing.Every)
			first = min(2*first, probeDown)
		}
		if !again {
			h.last.Store(&err)
			n.hear(err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// down says whether the backend is known not to answer; before the first answer, or the second silence, nothing is
// known.
func (h *health) down() bool {
	err := h.check()
	return err != nil && !errors.Is(err, errNotAsked)
}

// ask probes once.
func (h *health) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.probing.Within)
	defer cancel()
	err := explained(h.probe.ask(ctx))
	switch {
	case err == nil:
		return nil
	case h.probe.refused != nil && h.probe.refused(err):
		return fmt.Errorf("%w: %w", store.ErrRefused, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer in %s: %w", h.probing.Within, err)
	}
	return err
}

// newsAfter is how long a backend may take to answer for the first time, since things that start together do not answer
// at once.
const newsAfter = time.Second

// news logs changes only: that a backend stops answering, and that it answers again.
type news struct {
	log     *slog.Logger
	backend string
	since   time.Time // of the silence; zero while it answers
	met     bool      // it has answered once
	told    bool      // of the silence
}

// hear takes the outcome of a probe.
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
	if errors.Is(err, store.ErrRefused) {
		n.log.Warn("backend refuses", "backend", n.backend, "err", err)
		return
	}
	n.log.Warn("backend does not answer", "backend", n.backend, "err", err)
}

// check returns the last answer, without waiting. A nil health is a backend that is not configured, or not probed:
// nothing to say.
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
