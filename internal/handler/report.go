package handler

import (
	"log/slog"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
)

// levels says how loudly the cause of a code is logged; the others are normal: the client's mistakes, and what the lab
// shows.
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
	if skipped, ok := h.throttle.Allow(string(code), time.Now()); ok {
		h.Log.LogAttrs(ctx, level, "request failed", append(names(c.Writer, r), slog.Any("code", code),
			slog.String("path", r.URL.Path), slog.Any("err", err), slog.Int("not_logged", skipped))...)
	}
}
