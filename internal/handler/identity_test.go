package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"lastitem/internal/api"
	"lastitem/internal/step"
	"lastitem/internal/stock"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// An operator finds a request by one word: in the answer, in the problem, in the log, and in what the modes log below.
func TestRequestIsNamedEverywhere(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(step.LogHandler(slog.NewJSONHandler(&out, nil)))
	shop := &fakeShop{deduct: func(ctx context.Context, _ string, _ stock.Request) (stock.Receipt, error) {
		log.WarnContext(ctx, "below")
		return stock.Receipt{}, stock.ErrUnavailable
	}}
	h := newHandler(t, shop, func(o *Options) { o.Log = log })
	a := ask(t, h, "POST", "/deduct_stock/mutex", "", api.HeaderRequestID, "order-4711.a", "Traceparent", parent)
	p := problem(t, a)
	if got := a.Header.Get(api.HeaderRequestID); got != "order-4711.a" || p.RequestID != got || p.TraceParent != parent {
		t.Errorf("answer %q, problem %q and %q, want order-4711.a and %s", got, p.RequestID, p.TraceParent, parent)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines logged, want that of the mode and that of the handler: %s", len(lines), out.String())
	}
	for _, line := range lines {
		var l struct {
			Msg         string `json:"msg"`
			RequestID   string `json:"request_id"`
			TraceParent string `json:"traceparent"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.RequestID != "order-4711.a" || l.TraceParent != parent {
			t.Errorf("logged %s: %v", line, err)
		}
		if n := strings.Count(line, "request_id"); n != 1 {
			t.Errorf("request_id stands %d times in %s", n, line)
		}
	}
}

// A name that a log would have to escape, or that is no name, is replaced; a traceparent that is none is left out.
func TestRequestIDIsReplaced(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{})
	seen := map[string]bool{}
	for _, bad := range []string{"", " ", "a b", "a\"b", "a\nb", "naïve", strings.Repeat("a", 129), "<script>"} {
		a := ask(t, h, "GET", "/products/x", "", api.HeaderRequestID, bad, "Traceparent", "00-xyz")
		id := a.Header.Get(api.HeaderRequestID)
		if len(id) != 32 || seen[id] {
			t.Errorf("X-Request-Id %q was answered with %q, want a new one of 32 digits", bad, id)
		}
		seen[id] = true
		if p := problem(t, a); p.RequestID != id || p.TraceParent != "" {
			t.Errorf("problem of %q has %q and %q", bad, p.RequestID, p.TraceParent)
		}
	}
	for _, good := range []string{"a", strings.Repeat("a", 128), "Root=1-67891233-abcdef012345678912345678"} {
		if got := ask(t, h, "GET", "/modes", "", api.HeaderRequestID, good).Header.Get(api.HeaderRequestID); got != good {
			t.Errorf("X-Request-Id %q was answered with %q", good, got)
		}
	}
}
