package handler

import (
	"fmt"

	"github.com/gin-gonic/gin"
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
	if err := readQuery(c.Request, readinessFields, &exclude); err != nil {
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
