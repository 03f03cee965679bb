package spans

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"lastitem/internal/step"
)

// BenchmarkDeduction measures the cost of a deduction's steps and its end. "off" has no collector; "on" is the cost to the request's own
// goroutine; "spans" is the cost to the exporter's goroutines of creating and sending six spans.
func BenchmarkDeduction(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	b.Cleanup(s.Close)
	points := []step.Point{step.Waiting, step.Locked, step.Read, step.Written, step.Ordered, step.Releasing, step.Released}
	deduct := func(ctx context.Context, steps *step.Stream, e *Exporter) step.Answered {
		a := step.Answered{Trace: &step.Trace{Mode: "lua-lock"}, Begun: time.Now(), Status: 200}
		ctx = step.NewContext(ctx, a.Trace)
		for _, p := range points {
			steps.At(ctx, p, "stock:7")
		}
		a.Ended = time.Now()
		e.Answered(a)
		return a
	}
	start := func(b *testing.B, steps *step.Stream) *Exporter {
		e, err := New(steps, Options{Endpoint: s.URL})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_ = e.Close(ctx)
		})
		return e
	}
	b.Run("off", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			deduct(b.Context(), &step.Stream{}, nil)
		}
	})
	b.Run("on", func(b *testing.B) {
		steps := &step.Stream{}
		e := start(b, steps)
		e.stop() // so that the exporter's goroutine is not measured
		<-e.ended
		b.ReportAllocs()
		for b.Loop() {
			deduct(b.Context(), steps, e)
			select {
			case <-e.queue: // in place of the exporter
			default:
			}
		}
	})
	b.Run("spans", func(b *testing.B) {
		steps := &step.Stream{}
		e := start(b, steps)
		a := deduct(b.Context(), steps, nil)
		b.ReportAllocs()
		for b.Loop() {
			e.build(a)
		}
	})
}
