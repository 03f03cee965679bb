package spans

import (
	"context"
	"encoding/hex"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"lastitem/internal/step"
)

// steps of a store, as the names of their spans.
var stored = map[step.Point]string{
	step.Read: "read stock", step.Written: "write stock", step.Ordered: "append order", step.Committed: "commit",
}

// build makes the spans of a deduction:
//
//	POST /deduct_stock/{mode}          server; its parent is the traceparent of the request
//	├─ lock wait                       from asking for the lock to having it
//	└─ lock hold                       from then to its release
//	   ├─ read stock                   client of the store; each begins at the step before it
//	   ├─ write stock
//	   └─ append order
//
// A mode without a lock has its store's spans below the server's.
func (e *Exporter) build(a step.Answered) {
	ctx := remote(context.Background(), a.Trace.TraceParent)
	ctx, root := e.tracer.Start(ctx, "POST /deduct_stock/{mode}", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(a.Begun),
		trace.WithAttributes(semconv.HTTPRequestMethodPost, semconv.HTTPRoute("/deduct_stock/{mode}"), semconv.HTTPResponseStatusCode(a.Status),
			attr("lastitem.mode", a.Trace.Mode), attribute.Int64("lastitem.product_id", a.Trace.ProductID),
			attr("lastitem.request_id", a.Trace.RequestID), attr("lastitem.replica", e.options.Replica)))
	if !root.IsRecording() { // not sampled
		return
	}
	if a.Code != "" {
		root.SetAttributes(attr("lastitem.code", a.Code))
	}
	if a.Status >= 500 { // the convention for servers: what the client did wrong is no error of the server's
		root.SetAttributes(semconv.ErrorTypeKey.String(a.Code))
		root.SetStatus(codes.Error, a.Code)
	}
	b := builder{tracer: e.tracer, system: e.options.System(a.Trace.Mode, a.Store), last: a.Begun, at: []context.Context{ctx}}
	for _, p := range a.Trace.Passed() {
		b.pass(p)
	}
	b.end(a.Ended)
	root.End(trace.WithTimestamp(a.Ended))
}

// builder makes the spans below the server's from the steps, in their order.
type builder struct {
	tracer trace.Tracer
	system string
	last   time.Time         // of the step before
	at     []context.Context // the spans that are open, the innermost last
	open   []opened
}

// opened is a span of a lock.
type opened struct {
	key  string
	hold bool
	span trace.Span
}

// pass takes in the next step.
func (b *builder) pass(p step.Passed) {
	switch p.Point {
	case step.Waiting:
		b.start("lock wait", p.Key, false, p.At)
	case step.Acquiring, step.Releasing:
		trace.SpanFromContext(b.at[len(b.at)-1]).AddEvent(p.Point.String(), trace.WithTimestamp(p.At))
	case step.Locked:
		b.finish(p.Key, false, p.At)
		b.start("lock hold", p.Key, true, p.At)
	case step.Released:
		b.finish(p.Key, true, p.At)
	case step.Read, step.Written, step.Ordered, step.Committed:
		_, span := b.tracer.Start(b.at[len(b.at)-1], stored[p.Point], trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(b.last),
			trace.WithAttributes(semconv.DBSystemNameKey.String(b.system), semconv.DBQuerySummary(stored[p.Point])))
		span.End(trace.WithTimestamp(p.At))
	}
	b.last = p.At
}

// start opens a span of a lock.
func (b *builder) start(name, key string, hold bool, at time.Time) {
	ctx, span := b.tracer.Start(b.at[len(b.at)-1], name, trace.WithTimestamp(at), trace.WithAttributes(attr("lastitem.lock.key", key)))
	b.at, b.open = append(b.at, ctx), append(b.open, opened{key: key, hold: hold, span: span})
}

// finish ends the newest span of a lock that fits, and those inside it.
func (b *builder) finish(key string, hold bool, at time.Time) {
	for i := len(b.open) - 1; i >= 0; i-- {
		if b.open[i].key == key && b.open[i].hold == hold {
			b.close(i, at)
			return
		}
	}
}

// end ends what is still open: a lock that was not got, or not released before the answer.
func (b *builder) end(at time.Time) { b.close(0, at) }

// close ends the open spans from i on.
func (b *builder) close(i int, at time.Time) {
	for _, o := range b.open[i:] {
		o.span.End(trace.WithTimestamp(at))
	}
	b.open, b.at = b.open[:i], b.at[:i+1]
}

// remote is a context with the span that a traceparent names, which the handler has checked; without one, ctx.
func remote(ctx context.Context, parent string) context.Context {
	if len(parent) < 55 {
		return ctx
	}
	var c trace.SpanContextConfig
	var flags [1]byte
	_, err1 := hex.Decode(c.TraceID[:], []byte(parent[3:35]))
	_, err2 := hex.Decode(c.SpanID[:], []byte(parent[36:52]))
	_, err3 := hex.Decode(flags[:], []byte(parent[53:55]))
	if err1 != nil || err2 != nil || err3 != nil {
		return ctx
	}
	c.TraceFlags, c.Remote = trace.TraceFlags(flags[0])&trace.FlagsSampled, true
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(c)) // an invalid one makes a new trace
}
