package handler

import (
	"log/slog"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/internal/api"
)

// levels says how loudly the cause of a code is logged; the others are normal: the client's mistakes, and what the lab shows.
var levels = map[api.Code]slog.Level{
	api.Internal:           slog.LevelError,
	api.OutcomeUnknown:     slog.LevelWarn,
	api.BackendUnavailable: slog.LevelWarn,
}

// report logs the cause of a problem: at most one line per second and code, so that a dead backend under load does not
// fill the disk. A client that went away is no error of the service.
func (h *Handler) report(c *gin.Context, code api.Code, err error) {
	r := c.Request
	ctx := r.Context()
	level, loud := levels[code]
	if !loud || ctx.Err() != nil {
		level = slog.LevelDebug
	}
	if !h.Log.Enabled(ctx, level) {
		return
	}
	if skipped, ok := h.throttle.allow(code, time.Now()); ok {
		h.Log.LogAttrs(ctx, level, "request failed", append(names(c.Writer, r), slog.Any("code", code),
			slog.String("path", r.URL.Path), slog.Any("err", err), slog.Int("not_logged", skipped))...)
	}
}

// throttle lets one line per second and code through and counts the others.
type throttle struct {
	mu    sync.Mutex
	codes map[api.Code]*quiet
}

type quiet struct {
	until   time.Time
	skipped int
}

// allow reports whether to log now, and how many were held back since the last time.
func (t *throttle) allow(code api.Code, now time.Time) (skipped int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.codes == nil {
		t.codes = map[api.Code]*quiet{}
	}
	q := t.codes[code]
	if q == nil {
		q = &quiet{}
		t.codes[code] = q
	}
	if now.Before(q.until) {
		q.skipped++
		return 0, false
	}
	skipped, q.skipped, q.until = q.skipped, 0, now.Add(time.Second)
	return skipped, true
}
