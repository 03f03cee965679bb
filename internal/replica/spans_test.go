package replica_test

import (
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	wire "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"lastitem/internal/replica"
	"lastitem/internal/step"
	"lastitem/testkit"
)

// fakeCollector keeps the spans that it receives.
type fakeCollector struct {
	url string

	mu       sync.Mutex
	spans    []*wire.Span
	resource map[string]string
	header   http.Header
	answers  []int // status codes for the next requests; then 200
	asked    int
}

func newCollector(t *testing.T, answers ...int) *fakeCollector {
	t.Helper()
	c := &fakeCollector{answers: answers}
	s := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked++
		if len(c.answers) > 0 {
			w.WriteHeader(c.answers[0])
			c.answers = c.answers[1:]
			return
		}
		var got collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &got); err != nil || r.URL.Path != "/v1/traces" ||
			r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("the collector was sent %s %s: %v", r.URL.Path, r.Header.Get("Content-Type"), err)
		}
		c.header = r.Header
		for _, rs := range got.ResourceSpans {
			c.resource = texts(rs.Resource.Attributes)
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	}))
	c.url = s.URL
	return c
}

func texts(all []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range all {
		m[a.Key] = a.Value.GetStringValue()
		if n, ok := a.Value.Value.(*common.AnyValue_IntValue); ok {
			m[a.Key] = time.Duration(n.IntValue).String()
		}
	}
	return m
}

// start creates an exporter and a function that closes it, which sends all remaining spans.
func start(t *testing.T, steps *step.Stream, o replica.SpanOptions) (e *replica.Exporter, closing func()) {
	t.Helper()
	e, err := replica.NewSpans(steps, o)
	testkit.Must(t, err)
	closing = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		testkit.Check(t, e.Close(ctx))
	}
	t.Cleanup(closing)
	return e, closing
}

const parent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"

// pass reports the steps of a deduction under a lock, one millisecond apart.
func pass(t *testing.T, steps *step.Stream, traceParent string) step.Answered {
	t.Helper()
	trace := &step.Trace{Request: "1-a", RequestID: "id", TraceParent: traceParent, Mode: "lua-lock", ProductID: 7}
	ctx := step.NewContext(t.Context(), trace)
	a := step.Answered{Trace: trace, Route: "/deduct_stock/{mode}", Begun: time.Now(), Status: 200}
	for _, p := range []step.Point{step.Waiting, step.Locked, step.Read, step.Written, step.Ordered, step.Releasing,
		step.Released} {
		key := ""
		if p == step.Waiting || p == step.Locked || p > step.Committed {
			key = "stock:7"
		}
		time.Sleep(time.Millisecond)
		steps.At(ctx, p, key)
	}
	a.Ended = time.Now()
	return a
}

// A deduction is one trace below the client's span: the request, the wait for the lock and its hold, and inside the
// hold the steps at the store.
func TestDeductionIsATrace(t *testing.T) {
	t.Parallel()
	c, steps := newCollector(t), &step.Stream{}
	e, closing := start(t, steps, replica.SpanOptions{
		Endpoint: c.url, Headers: "authorization=Basic%20eDp5, x-tenant=a", Replica: "2", Version: "v1",
		System: func(mode, store string) string {
			return mode + "/" + store
		},
	})
	a := pass(t, steps, parent)
	a.Store = "redis"
	e.Answered(a)
	closing()
	byID := map[string]*wire.Span{}
	for _, s := range c.spans {
		byID[hex.EncodeToString(s.SpanId)] = s
	}
	var tree []string
	for _, s := range c.spans {
		path := s.Name
		spanOf := func(id []byte) *wire.Span { return byID[hex.EncodeToString(id)] }
		for above := spanOf(s.ParentSpanId); above != nil; above = spanOf(above.ParentSpanId) {
			path = above.Name + " > " + path
			if s.StartTimeUnixNano < above.StartTimeUnixNano || s.EndTimeUnixNano > above.EndTimeUnixNano {
				t.Errorf("%s is not within its parent", path)
			}
		}
		if s.EndTimeUnixNano < s.StartTimeUnixNano || hex.EncodeToString(s.TraceId) != parent[3:35] {
			t.Errorf("%s: %d to %d in trace %x", path, s.StartTimeUnixNano, s.EndTimeUnixNano, s.TraceId)
		}
		tree = append(tree, path)
	}
	const root = "POST /deduct_stock/{mode}"
	slices.Sort(tree)
	if diff := cmp.Diff([]string{
		root, root + " > lock hold", root + " > lock hold > append order", root + " > lock hold > read stock",
		root + " > lock hold > write stock", root + " > lock wait",
	}, tree); diff != "" {
		t.Fatalf("spans (-want +got):\n%s", diff)
	}
	for _, s := range c.spans {
		attributes := texts(s.Attributes)
		switch s.Name {
		case root:
			if hex.EncodeToString(s.ParentSpanId) != parent[36:52] || s.Kind != wire.Span_SPAN_KIND_SERVER ||
				s.StartTimeUnixNano != uint64(a.Begun.UnixNano()) ||
				attributes["lastitem.mode"] != "lua-lock" || attributes["http.request.method"] != "POST" ||
				attributes["http.response.status_code"] != "200ns" {
				t.Errorf("%s: parent %x, %v, %v", s.Name, s.ParentSpanId, s.Kind, attributes)
			}
		case "lock wait", "lock hold":
			if attributes["lastitem.lock.key"] != "stock:7" || (s.Name == "lock hold") != (len(s.Events) == 1) {
				t.Errorf("%s: %v, events %v", s.Name, attributes, s.Events)
			}
		default:
			if s.Kind != wire.Span_SPAN_KIND_CLIENT || attributes["db.system.name"] != "lua-lock/redis" ||
				attributes["db.query.summary"] != s.Name {
				t.Errorf("%s: %v, %v", s.Name, s.Kind, attributes)
			}
		}
	}
	if c.header.Get("Authorization") != "Basic eDp5" || c.header.Get("X-Tenant") != "a" ||
		c.resource["service.name"] != "lastitem" || c.resource["service.instance.id"] != "2" {
		t.Errorf("headers %v, resource %v", c.header, c.resource)
	}
}

// Without a traceparent a deduction starts its own trace; if the caller's trace is not sampled, there is no trace.
func TestSampling(t *testing.T) {
	t.Parallel()
	for traceParent, want := range map[string]int{"": 6, strings.TrimSuffix(parent, "1") + "0": 0} {
		c, steps := newCollector(t), &step.Stream{}
		e, closing := start(t, steps, replica.SpanOptions{Endpoint: c.url})
		e.Answered(pass(t, steps, traceParent))
		closing()
		if len(c.spans) != want {
			t.Errorf("traceparent %q: %d spans, want %d", traceParent, len(c.spans), want)
		}
	}
}

// A server error marks the span as an error, a refusal does not; the span of a lock that was never granted ends with
// the request.
func TestFailures(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]wire.Status_StatusCode{409: wire.Status_STATUS_CODE_UNSET,
		503: wire.Status_STATUS_CODE_ERROR} {
		c, steps := newCollector(t), &step.Stream{}
		e, closing := start(t, steps, replica.SpanOptions{Endpoint: c.url})
		trace := &step.Trace{Mode: "lua-lock"}
		begun := time.Now()
		steps.At(step.NewContext(t.Context(), trace), step.Waiting, "k")
		e.Answered(step.Answered{Trace: trace, Begun: begun, Ended: begun.Add(time.Second), Status: status,
			Code: "some_code"})
		closing()
		if len(c.spans) != 2 {
			t.Fatalf("%d: %d spans, want 2", status, len(c.spans))
		}
		for _, s := range c.spans {
			if s.EndTimeUnixNano != uint64(begun.Add(time.Second).UnixNano()) {
				t.Errorf("%d: %s does not end with the request", status, s.Name)
			}
			if s.Name != "lock wait" && (s.Status.Code != want || texts(s.Attributes)["lastitem.code"] != "some_code") {
				t.Errorf("%d: status %v, %v", status, s.Status, s.Attributes)
			}
		}
	}
}

// The exporter retries if the collector says "later"; spans that the collector refuses are counted, and the refusal is
// logged once.
func TestRetriesAndLosses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		answers     []int
		spans, lost int
		asked       int
	}{{[]int{503}, 6, 0, 2}, {[]int{400}, 0, 6, 1}, {[]int{503, 503, 503}, 0, 6, 3}} {
		c, steps := newCollector(t, tt.answers...), &step.Stream{}
		var lost atomic.Int64
		var said strings.Builder
		e, closing := start(t, steps, replica.SpanOptions{
			Endpoint: c.url, Lost: func(n int) { lost.Add(int64(n)) }, Log: slog.New(slog.NewTextHandler(&said, nil)),
		})
		e.Answered(pass(t, steps, ""))
		closing()
		if len(c.spans) != tt.spans || int(lost.Load()) != tt.lost || c.asked != tt.asked ||
			strings.Contains(said.String(), "takes no spans") != (tt.lost > 0) {
			t.Errorf("answers %v: %d spans, %d lost, asked %d times, said %q; want %+v", tt.answers, len(c.spans), lost.Load(),
				c.asked, said.String(), tt)
		}
	}
}

// If the collector hangs, no request waits, deductions that do not fit into the queue are counted, and Close returns in
// time.
func TestNothingWaitsForTheCollector(t *testing.T) {
	t.Parallel()
	let := make(chan struct{})
	s := testkit.Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-let }))
	t.Cleanup(func() { close(let) })
	steps := &step.Stream{}
	var lost atomic.Int64
	e, err := replica.NewSpans(steps, replica.SpanOptions{Endpoint: s.URL, Lost: func(n int) { lost.Add(int64(n)) }})
	testkit.Must(t, err)
	a, slowest := pass(t, steps, ""), time.Duration(0)
	const deductions = 20_000
	for range deductions {
		begun := time.Now()
		e.Answered(a)
		slowest = max(slowest, time.Since(begun))
	}
	if slowest > 20*time.Second || lost.Load() < deductions/2 {
		t.Errorf("the slowest of %d deductions waited %v, %d were lost; want no waiting, and most of them lost", deductions,
			slowest, lost.Load())
	}
	ctx := testkit.Within(t, 300*time.Millisecond)
	begun := time.Now()
	if err := e.Close(ctx); err == nil || time.Since(begun) > 20*time.Second {
		t.Errorf("Close = %v after %v, want an error after 300ms", err, time.Since(begun))
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, o := range []replica.SpanOptions{
		{Endpoint: "localhost:4318"}, {Endpoint: ""}, {Endpoint: "grpc://x:1"}, {Endpoint: "http://x", Headers: "s3cret"},
		{Endpoint: "http://x", Headers: "a=%zz"},
	} {
		if e, err := replica.NewSpans(&step.Stream{}, o); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("New(%+v) = %v, %v; want an error without the value", o, e, err)
		}
	}
}
