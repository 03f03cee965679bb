package handler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
)

const (
	readyFor     = time.Second     // how long an answer of Ready is good for
	readyTimeout = 2 * time.Second // how long it may take
)

// health is the body of /healthz and of a good /readyz.
type health struct {
	Status  string `json:"status"`
	Replica string `json:"replica"`
}

// healthz says that the process is alive, whatever its backends do: restarting it would not bring them back.
func (h *Handler) healthz(c *gin.Context) outcome {
	return h.send(c, health{"ok", h.Replica})
}

// readyz says whether this replica should be sent requests: not while it drains, nor while a backend is away. This is the one
// answer that shows a cause, since who asks it wants to know which. Nothing is logged: probes ask all the time, and who pings the
// backends has told the log already.
func (h *Handler) readyz(c *gin.Context) outcome {
	if h.draining.Load() {
		return outcome{code: h.refuse(c, problemOf(errDraining, c.Request.URL.EscapedPath()))}
	}
	if err := h.ready.check(c.Request.Context()); err != nil {
		err = fmt.Errorf("%w: %w", errNotReady, err)
		p := problemOf(errNotReady, c.Request.URL.EscapedPath())
		p.Detail = err.Error()
		return outcome{code: h.refuse(c, p)}
	}
	return h.send(c, health{"ready", h.Replica})
}

// readiness asks whether the backends can be used, at most once a second however many ask, so that a probe cannot become a
// load of its own.
type readiness struct {
	ask func(context.Context) error

	mu    sync.Mutex
	asked time.Time
	err   error
}

// check returns the answer of now or of the last second. The one who asks does not take his own hurry into it: a probe
// that gives up must not be remembered as a backend that is down.
func (r *readiness) check(ctx context.Context) error {
	if r.ask == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked.IsZero() && time.Since(r.asked) < readyFor {
		return r.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	r.err = r.ask(ctx)
	r.asked = time.Now()
	return r.err
}
