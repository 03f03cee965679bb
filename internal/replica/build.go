package replica

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

// stored maps the steps of a store to the names of their spans.
var stored = map[step.Point]string{
	step.Read: "read stock", step.Written: "write stock", step.Ordered: "append order", step.Committed: "commit",
}

// build creates the spans of a deduction:
//
//	POST /deduct_stock/{mode}          the route; server; its parent is the span in the request's traceparent
//	├─ lock wait                       from the request for the lock until it is granted
//	└─ lock hold                       from the grant to the release
//	   ├─ read stock                   client of the store; each span begins at the step before
//	   ├─ write stock
//	   └─ append order
//
// In a mode without a lock the store's spans are children of the server's span.
func (e *Exporter) build(a step.Answered) {
	ctx := remote(context.Background(), a.Trace.TraceParent)
	ctx, root := e.tracer.Start(ctx, "POST "+a.Route, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithTimestamp(a.Begun),
		trace.WithAttributes(semconv.HTTPRequestMethodPost, semconv.HTTPRoute(a.Route),
			semconv.HTTPResponseStatusCode(a.Status),
			attr("lastitem.mode", a.Trace.Mode), attribute.Int64("lastitem.product_id", a.Trace.ProductID),
			attr("lastitem.request_id", a.Trace.RequestID), attr("lastitem.replica", e.options.Replica)))
	if !root.IsRecording() { // not sampled
		return
	}
	if a.Code != "" {
		root.SetAttributes(attr("lastitem.code", a.Code))
	}
	if a.Status >= 500 { // by the convention for servers, a client's mistake (4xx) is not an error
		root.SetAttributes(semconv.ErrorTypeKey.String(a.Code))
		root.SetStatus(codes.Error, a.Code)
	}
	b := builder{tracer: e.tracer, system: e.options.System(a.Trace.Mode, a.Store), last: a.Begun,
		at: []context.Context{ctx}}
	for _, p := range a.Trace.Passed() {
		b.pass(p)
	}
	b.end(a.Ended)
	root.End(trace.WithTimestamp(a.Ended))
	if c := root.SpanContext(); c.IsSampled() { // a recorded span may still stay here
		e.options.Sampled(a, c.TraceID().String())
	}
}

// builder creates the children of the server's span from the steps, in order.
type builder struct {
	tracer trace.Tracer
	system string
	last   time.Time         // when the step before was passed
	at     []context.Context // the contexts of the open spans, innermost last
	open   []opened
}

// opened is a lock's span that has not ended.
type opened struct {
	key  string
	hold bool
	span trace.Span
}

// pass handles the next step.
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
		_, span := b.tracer.Start(b.at[len(b.at)-1], stored[p.Point], trace.WithSpanKind(trace.SpanKindClient),
			trace.WithTimestamp(b.last),
			trace.WithAttributes(semconv.DBSystemNameKey.String(b.system), semconv.DBQuerySummary(stored[p.Point])))
		span.End(trace.WithTimestamp(p.At))
	}
	b.last = p.At
}

// start opens a lock's span.
func (b *builder) start(name, key string, hold bool, at time.Time) {
	ctx, span := b.tracer.Start(b.at[len(b.at)-1], name, trace.WithTimestamp(at),
		trace.WithAttributes(attr("lastitem.lock.key", key)))
	b.at, b.open = append(b.at, ctx), append(b.open, opened{key: key, hold: hold, span: span})
}

// finish ends the newest open span with this key and kind, and all spans inside it.
func (b *builder) finish(key string, hold bool, at time.Time) {
	for i := len(b.open) - 1; i >= 0; i-- {
		if b.open[i].key == key && b.open[i].hold == hold {
			b.close(i, at)
			return
		}
	}
}

// end ends all spans that are still open: of a lock that was not granted, or not released before the answer.
func (b *builder) end(at time.Time) { b.close(0, at) }

// close ends the open spans from index i on.
func (b *builder) close(i int, at time.Time) {
	for _, o := range b.open[i:] {
		o.span.End(trace.WithTimestamp(at))
	}
	b.open, b.at = b.open[:i], b.at[:i+1]
}

// remote returns a context with the span that a traceparent names, or ctx if there is none. The handler has checked the
// traceparent.
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
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(c)) // an invalid span context starts a new trace
}
