package step

import (
	"context"
	"log/slog"
)

// LogHandler adds the names of the request to each line that is logged with the context of a deduction. Whoever logs passes ctx and
// need not know them.
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

// WithAttrs keeps the names on lines of the logger that it makes.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup does as well.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }

// LogAttrs are the attributes by which log lines name a request: request_id, and traceparent where it has one.
func LogAttrs(requestID, traceParent string) []slog.Attr {
	attrs := make([]slog.Attr, 0, 8) // room for what a caller adds
	attrs = append(attrs, slog.String("request_id", requestID))
	if traceParent != "" {
		attrs = append(attrs, slog.String("traceparent", traceParent))
	}
	return attrs
}
