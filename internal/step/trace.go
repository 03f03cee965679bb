package step

import (
	"context"
	"sync"
	"time"
)

// Trace is one deduction: who it is, and how long it waited for and held each lock.
type Trace struct {
	// Request names the deduction uniquely within its process.
	Request string
	// RequestID is the X-Request-Id of the answer; clients may repeat it. TraceParent is the W3C traceparent of the
	// request; "" = none.
	RequestID, TraceParent string

	Mode      string
	ProductID int64

	mu     sync.Mutex
	spans  []Span
	passed []Passed
}

// Span is one lock of a deduction. A zero Locked means that it was never acquired, a zero Released that it is still
// held.
type Span struct {
	Key                       string
	Waiting, Locked, Released time.Time
}

// Wait is how long the lock was waited for; 0 while that is unknown.
func (s Span) Wait() time.Duration { return between(s.Waiting, s.Locked) }

// Hold is how long the lock was held; 0 while that is unknown.
func (s Span) Hold() time.Duration { return between(s.Locked, s.Released) }

func between(a, b time.Time) time.Duration {
	if a.IsZero() || b.IsZero() {
		return 0
	}
	return b.Sub(a)
}

type traceKey struct{}

// NewContext returns a context that carries t.
func NewContext(ctx context.Context, t *Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// FromContext returns the trace of ctx, or nil.
func FromContext(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}

// Record enters an event into the spans of its trace. For [Locked] and [Released] it returns the span of that lock so
// far; ok is false for other points, and where no span waits for the event.
func Record(e Event) (s Span, ok bool) {
	if e.Trace == nil || e.Key == "" {
		return Span{}, false
	}
	t := e.Trace
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Point {
	case Waiting:
		t.spans = append(t.spans, Span{Key: e.Key, Waiting: e.At})
	case Locked:
		if sp := t.last(e.Key, func(s *Span) bool { return s.Locked.IsZero() }); sp != nil {
			sp.Locked = e.At
			return *sp, true
		}
	case Released:
		if sp := t.last(e.Key, func(s *Span) bool { return !s.Locked.IsZero() && s.Released.IsZero() }); sp != nil {
			sp.Released = e.At
			return *sp, true
		}
	}
	return Span{}, false
}

// last finds the newest span of key that fits; t.mu is held.
func (t *Trace) last(key string, fits func(*Span) bool) *Span {
	for i := len(t.spans) - 1; i >= 0; i-- {
		if sp := &t.spans[i]; sp.Key == key && fits(sp) {
			return sp
		}
	}
	return nil
}

// Spans returns a copy of the locks so far.
func (t *Trace) Spans() []Span {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Span(nil), t.spans...)
}
