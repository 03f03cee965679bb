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
	// Every is the time between two probes of a backend; default 1 s. Negative: no probes; every backend counts as healthy, and a
	// request to one that is down runs into its own time-out.
	Every time.Duration
	// Within is the time-out of one probe; default 900 ms. A backend that stops answering is reported down after at most Every plus
	// two time-outs.
	Within time.Duration
}

func (h Health) orDefault() Health {
	h.Every = cmp.Or(h.Every, time.Second)
	h.Within = cmp.Or(h.Within, 900*time.Millisecond)
	return h
}

const (
	probeFirst = 20 * time.Millisecond  // pause after the first failed probe at the start; doubled up to probeDown
	probeAgain = 100 * time.Millisecond // pause before the second probe of a backend that did not answer
	probeDown  = 250 * time.Millisecond // pause while a backend is down, short, so that its return is noticed soon
)

var errNotAsked = errors.New("not asked yet")

// health probes one backend over its own connection, since waiting for a connection of a busy pool says nothing about the server.
//
// A backend that refuses a probe is down at once. A backend that does not answer, or cannot be reached, is probed a second time over
// a new connection, and is down if that fails as well: one lost packet, one cut connection or a busy moment must not disable a
// backend that works.
type health struct {
	probing Health
	probe   probe
	last    atomic.Pointer[error]
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// probe asks a backend whether it does what it is needed for.
type probe struct {
	ask     func(context.Context) error
	refused func(error) bool // reports whether the server answered with err; nil = it never does
	close   func() error     // closes the probe's connection; nil = it has none
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
	silent := false // the last probe got no answer
	for first := probeFirst; ; {
		err := h.ask(ctx)
		if ctx.Err() != nil { // the probes were stopped
			return
		}
		was, wait := h.check(), h.probing.Every
		switch {
		case err == nil:
			silent = false
		case was == nil && !silent && !errors.Is(err, store.ErrRefused):
			silent, err, wait = true, nil, probeAgain
		default:
			silent, wait = true, min(first, h.probing.Every)
			first = min(2*first, probeDown)
		}
		h.last.Store(&err)
		n.hear(err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// ask probes once.
func (h *health) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.probing.Within)
	defer cancel()
	err := h.probe.ask(ctx)
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

// newsAfter is how long a backend may take for its first answer before its silence is logged: when everything starts together, some
// backends are a moment late.
const newsAfter = time.Second

// news logs a backend's changes only: that it stopped answering, and that it answers again.
type news struct {
	log     *slog.Logger
	backend string
	since   time.Time // begin of the silence; zero while it answers
	met     bool      // it has answered at least once
	told    bool      // the silence is logged
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

// check returns the result of the last probe, without waiting; nil for a nil health, which stands for a backend that is not
// configured or not probed.
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
