package step_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/internal/step"
	"lastitem/testkit"
)

func TestStreamCarriesToItsReaders(t *testing.T) {
	t.Parallel()
	var s step.Stream
	var a, b []step.Event
	cancelA := s.Subscribe(func(_ context.Context, e step.Event) { a = append(a, e) })
	cancelB := s.Subscribe(func(_ context.Context, e step.Event) { b = append(b, e) })
	trace := &step.Trace{Request: "r"}
	ctx := step.NewContext(t.Context(), trace)
	s.At(ctx, step.Locked, "k")
	cancelA()
	cancelA()
	s.At(t.Context(), step.Read, "")
	cancelB()
	s.At(ctx, step.Written, "")
	if len(a) != 1 || len(b) != 2 {
		t.Fatalf("readers saw %d and %d steps, want 1 and 2", len(a), len(b))
	}
	if e := a[0]; e.Point != step.Locked || e.Key != "k" || e.Trace != trace || time.Since(e.At) > time.Minute {
		t.Errorf("event = %+v, want locked, k, the trace, now", e)
	}
	if e := b[1]; e.Point != step.Read || e.Key != "" || e.Trace != nil {
		t.Errorf("event = %+v, want read, no key, no trace", e)
	}
}

func TestNilStream(t *testing.T) {
	t.Parallel()
	var s *step.Stream
	s.At(t.Context(), step.Locked, "k")
}

// A reader may subscribe and cancel while others are being called, itself among them.
func TestSubscribeUnderWay(t *testing.T) {
	t.Parallel()
	var s step.Stream
	var always, others atomic.Int64
	defer s.Subscribe(func(context.Context, step.Event) { always.Add(1) })()
	var wg sync.WaitGroup
	const goroutines, times = 8, 200
	for range goroutines {
		wg.Go(func() {
			for range times {
				cancel := s.Subscribe(func(context.Context, step.Event) { others.Add(1) })
				s.At(t.Context(), step.Read, "")
				cancel()
			}
		})
	}
	wg.Wait()
	if got := always.Load(); got != goroutines*times {
		t.Errorf("the lasting reader saw %d steps, want %d", got, goroutines*times)
	}
	if got := others.Load(); got < goroutines*times {
		t.Errorf("the passing readers saw %d steps, want at least their own %d", got, goroutines*times)
	}
	before := others.Load()
	s.At(t.Context(), step.Read, "")
	if got := others.Load(); got != before {
		t.Errorf("cancelled readers saw %d more steps, want 0", got-before)
	}
}

func TestCancelFromWithin(t *testing.T) {
	t.Parallel()
	var s step.Stream
	seen := 0
	var cancel func()
	cancel = s.Subscribe(func(context.Context, step.Event) { seen++; cancel() })
	s.At(t.Context(), step.Read, "")
	s.At(t.Context(), step.Read, "")
	if seen != 1 {
		t.Errorf("a reader that cancels itself saw %d steps, want 1", seen)
	}
}

func TestPointNames(t *testing.T) {
	t.Parallel()
	var got []string
	for p := step.Waiting; p <= step.Released; p++ {
		got = append(got, p.String())
	}
	want := []string{"waiting", "acquiring", "locked", "read", "written", "ordered", "committed", "releasing", "released"}
	testkit.Same(t, got, want, "points")
}

func TestRecordFillsSpans(t *testing.T) {
	t.Parallel()
	trace := &step.Trace{}
	begin := time.Now()
	at := func(ms int, p step.Point, key string) (step.Span, bool) {
		return step.Record(step.Event{Point: p, Key: key, At: begin.Add(time.Duration(ms) * time.Millisecond), Trace: trace})
	}
	at(0, step.Waiting, "a")
	at(5, step.Waiting, "b")
	at(6, step.Read, "")
	if sp, ok := at(10, step.Locked, "a"); !ok || sp.Wait() != 10*time.Millisecond || sp.Hold() != 0 {
		t.Errorf("Record(locked a) = wait %v, hold %v, %t, want 10ms, 0, true", sp.Wait(), sp.Hold(), ok)
	}
	at(20, step.Waiting, "a") // re-entered
	at(20, step.Locked, "a")
	if sp, ok := at(30, step.Released, "a"); !ok || sp.Hold() != 10*time.Millisecond {
		t.Errorf("Record(released a) = hold %v, %t, want the inner 10ms", sp.Hold(), ok)
	}
	if sp, ok := at(40, step.Released, "a"); !ok || sp.Hold() != 30*time.Millisecond {
		t.Errorf("Record(released a) = hold %v, %t, want the outer 30ms", sp.Hold(), ok)
	}
	if _, ok := at(50, step.Released, "b"); ok {
		t.Error("Record(released b), which was never locked, completed a span")
	}
	if _, ok := step.Record(step.Event{Point: step.Locked, Key: "a"}); ok {
		t.Error("Record() without a trace completed a span")
	}
	var waits, holds []time.Duration
	for _, sp := range trace.Spans() {
		waits, holds = append(waits, sp.Wait()), append(holds, sp.Hold())
	}
	ms := time.Millisecond
	if !slices.Equal(waits, []time.Duration{10 * ms, 0, 0}) || !slices.Equal(holds, []time.Duration{30 * ms, 0, 10 * ms}) {
		t.Errorf("waits %v, holds %v, want [10ms 0s 0s], [30ms 0s 10ms]", waits, holds)
	}
}

func TestSpansIsACopy(t *testing.T) {
	t.Parallel()
	trace := &step.Trace{}
	step.Record(step.Event{Point: step.Waiting, Key: "a", At: time.Now(), Trace: trace})
	trace.Spans()[0].Key = "changed"
	testkit.Is(t, trace.Spans()[0].Key, "a", "key")
}

func BenchmarkAtOff(b *testing.B) {
	var s step.Stream
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		s.At(ctx, step.Read, "")
	}
}

func BenchmarkAtOn(b *testing.B) {
	var s step.Stream
	defer s.Subscribe(func(_ context.Context, e step.Event) { step.Record(e) })()
	ctx := step.NewContext(b.Context(), &step.Trace{})
	b.ReportAllocs()
	for b.Loop() {
		s.At(ctx, step.Read, "")
	}
}

// With two callers of Keep each point is noted once, and the last one to stop ends it.
func TestKeepNotesOnce(t *testing.T) {
	t.Parallel()
	var s step.Stream
	trace := &step.Trace{}
	ctx := step.NewContext(t.Context(), trace)
	first, second := s.Keep(), s.Keep()
	s.At(ctx, step.Read, "")
	first()
	first()
	s.At(ctx, step.Written, "")
	second()
	s.At(ctx, step.Ordered, "")
	if got := trace.Passed(); len(got) != 2 || got[0].Point != step.Read || got[1].Point != step.Written {
		t.Errorf("passed %v, want read and written, once each", got)
	}
}
