package step

import (
	"context"
	"log/slog"
)

// LogHandler adds the request's names to each line that is logged with the context of a deduction. The logging code
// only has to pass ctx.
func LogHandler(h slog.Handler) slog.Handler { return logHandler{h} }

type logHandler struct{ slog.Handler }

// Handle adds request_id and traceparent.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if t := FromContext(ctx); t != nil {
		r = r.Clone()
		r.AddAttrs(LogAttrs(t.RequestID, t.TraceParent)...)
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a LogHandler too, so that derived loggers add the names as well.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup does the same.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }

// LogAttrs are the attributes that name a request in log lines: request_id, and traceparent if it has one.
func LogAttrs(requestID, traceParent string) []slog.Attr {
	attrs := make([]slog.Attr, 0, 8) // capacity for the caller's own
	attrs = append(attrs, slog.String("request_id", requestID))
	if traceParent != "" {
		attrs = append(attrs, slog.String("traceparent", traceParent))
	}
	return attrs
}
