package handler

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
)

// run puts around an endpoint what all of them need: metrics, the sampled log, and an answer where it panics. It stands
// in for a chain of middleware: one frame and one deferred call per request, and what to count is a result instead of a
// value looked up in a map.
func (h *Handler) run(path string, serve endpoint) gin.HandlerFunc {
	return func(c *gin.Context) {
		start, out := time.Now(), outcome{code: api.Internal} // unless serve returns: then it panicked
		h.metrics.inFlight.Inc()
		defer func() {
			h.metrics.inFlight.Dec()
			h.metrics.observe(path, out, time.Since(start))
			h.rescue(c, recover())
			h.sample(c, out, start)
		}()
		if err := h.door.admit(c.Request); err != nil {
			out = outcome{code: h.fail(c, err)}
			return
		}
		out = serve(c)
	}
}

// rescue answers for an endpoint that panicked. Where an answer has begun the connection is cut instead: half a body
// must not look like a whole one.
func (h *Handler) rescue(c *gin.Context, reason any) {
	if reason == nil {
		return
	}
	if err, ok := reason.(error); c.Writer.Written() || ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler) // the server closes the connection, and logs nothing
	}
	h.fail(c, fmt.Errorf("handler: panic: %v\n%s", reason, debug.Stack()))
}

// sample logs each n-th request where it was asked for.
func (h *Handler) sample(c *gin.Context, out outcome, start time.Time) {
	if h.LogEvery == 0 || h.requests.Add(1)%h.LogEvery != 0 {
		return
	}
	h.Log.LogAttrs(c.Request.Context(), slog.LevelDebug, "request", append(names(c.Writer, c.Request),
		slog.String("method", c.Request.Method), slog.String("path", c.Request.URL.Path),
		slog.Int("status", c.Writer.Status()),
		slog.String("mode", out.mode), slog.Any("code", out.code), slog.Duration("took", time.Since(start)))...)
}
