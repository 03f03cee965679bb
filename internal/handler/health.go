package handler

import (
	"fmt"

	"github.com/gin-gonic/gin"

	"lastitem/internal/handler/input"
)

// health is the body of /healthz and of a good /readyz.
type health struct {
	Status  string   `json:"status"`
	Replica string   `json:"replica"`
	Out     []string `json:"out,omitempty"` // the backends that are out, and the masters of a Redis Cluster
}

// healthz says that the process is alive, whatever its backends do: restarting it would not bring them back.
func (h *Handler) healthz(c *gin.Context) outcome {
	return h.send(c, health{Status: "ok", Replica: h.Replica})
}

// readyz says whether a balancer should send requests to this replica: not while it drains, nor while nothing can be
// served, or a backend that the operator has named is unreachable or refuses writes. All replicas share the backends,
// so taking them all out for one of these would end the modes without it too; the answer lists what is out.
//
// This is the only answer that shows an error's cause, since operators need it. Nothing is logged here: balancers ask
// all the time, and the health probes have already logged the state.
func (h *Handler) readyz(c *gin.Context) outcome {
	var exclude []string
	if err := input.ReadQuery(c.Request, input.ReadinessFields, &exclude); err != nil {
		return outcome{code: h.fail(c, err)}
	}
	if h.draining.Load() {
		return outcome{code: h.refuse(c, problemOf(errDraining, c.Request.URL.EscapedPath()))}
	}
	var out []string
	if h.Ready != nil {
		var err error
		if out, err = h.Ready(exclude); err != nil {
			err = fmt.Errorf("%w: %w", errNotReady, err)
			p := problemOf(errNotReady, c.Request.URL.EscapedPath())
			p.Detail = err.Error()
			return outcome{code: h.refuse(c, p)}
		}
	}
	return h.send(c, health{"ready", h.Replica, out})
}

// scrape serves GET /metrics, in the format and the compression that the scraper asks for.
func (h *Handler) scrape(c *gin.Context) outcome {
	if !h.scrapes.try() {
		return outcome{code: h.fail(c, errTooManyAnswers)}
	}
	defer h.scrapes.leave()
	beQuick(c)
	h.metrics.page(c)
	return outcome{}
}

// events serves GET /events until the client leaves or the replica drains. It is there only with Options.Events, and
// wants the admin token.
func (h *Handler) events(c *gin.Context) outcome {
	err := h.admin.authorize(c.Request)
	if err == nil {
		err = h.tap.Serve(c.Writer, c.Request, h.draining.Load)
	}
	switch {
	case err == nil:
	case c.Writer.Written():
		h.metrics.cutOff.Inc()
	default:
		return outcome{code: h.fail(c, err)}
	}
	return outcome{}
}
