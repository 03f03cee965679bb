package handler

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/step"
	"lastitem/internal/stock"
)

// TestExperimentNeedsTheToken: each field alone, wherever it stands and even if it asks for nothing, is refused with 403 without the admin
// token, and then the mode is not called.
func TestExperimentNeedsTheToken(t *testing.T) {
	t.Parallel()
	bearer := []string{"Authorization", "Bearer " + adminToken}
	for _, c := range []struct {
		query, body string
		headers     []string
		want        stock.Hold
	}{
		{"?lease_ms=500", "", nil, stock.Hold{Lease: 500 * time.Millisecond}},
		{"?depth=3", "", nil, stock.Hold{Depth: 3}},
		{"?hold_ms=800", "", nil, stock.Hold{Work: 800 * time.Millisecond}},
		{"?hold_ms=0", "", nil, stock.Hold{}},
		{"", "lease_ms=60000&depth=10&hold_ms=30000", []string{"Content-Type", formType}, stock.Hold{Lease: time.Minute, Depth: 10, Work: 30 * time.Second}},
		{"?depth=0", `{"lease_ms":500,"hold_ms":800}`, []string{"Content-Type", jsonType}, stock.Hold{Lease: 500 * time.Millisecond, Work: 800 * time.Millisecond}},
	} {
		for _, without := range [][]string{nil, {"Authorization", "Bearer wrong"}} {
			got, a := taken(t, "/deduct_stock/watchdog"+c.query, c.body, slices.Concat(c.headers, without)...)
			if p := problem(t, a); got != nil || a.StatusCode != http.StatusForbidden || p.Code != api.Forbidden || !strings.Contains(p.Detail, "admin token") {
				t.Errorf("%s %s with %v = %d %s, and the mode was called: %t", c.query, c.body, without, a.StatusCode, a.body, got != nil)
			}
		}
		got, a := taken(t, "/deduct_stock/watchdog"+c.query, c.body, slices.Concat(c.headers, bearer)...)
		if got == nil || got.Hold != c.want {
			t.Errorf("%s %s with the token = %d %s, the mode got %+v, want %+v", c.query, c.body, a.StatusCode, a.body, got, c.want)
		}
	}
	nobody := newHandler(t, &fakeShop{}, func(o *Options) { o.AdminToken = "" })
	if a := ask(t, nobody, "POST", "/deduct_stock/watchdog?depth=1", "", bearer...); a.StatusCode != http.StatusForbidden {
		t.Errorf("with no token configured = %d %s, want 403", a.StatusCode, a.body)
	}
	if a := ask(t, newHandler(t, &fakeShop{}), "POST", "/deduct_stock/watchdog", ""); a.StatusCode != http.StatusOK {
		t.Errorf("without the fields = %d %s, want that no token is asked for", a.StatusCode, a.body)
	}
}

// The limits stand in the document as the code has them.
func TestOpenAPIHasTheLimitsOfAHold(t *testing.T) {
	t.Parallel()
	limits := map[string]float64{
		"lease_ms": float64(stock.MaxLease.Milliseconds()), "depth": stock.MaxDepth, "hold_ms": float64(stock.MaxWork.Milliseconds()),
	}
	for name, most := range limits {
		for _, schema := range []string{"Deduct", "DeductForm"} {
			if got := document.Components.Schemas[schema].Value.Properties[name].Value.Max; got == nil || *got != most {
				t.Errorf("%s.%s: maximum %v, want %v", schema, name, got, most)
			}
		}
		if got := document.Components.Parameters[name].Value.Schema.Value.Max; got == nil || *got != most {
			t.Errorf("parameter %s: maximum %v, want %v", name, got, most)
		}
	}
}

func TestModesListWhatTheyHold(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"watchdog": {"lease_ms", "depth", "hold_ms"}, "lua-lock": {"lease_ms", "hold_ms"}, "mutex": {"hold_ms"}, "sql-atomic": {},
	} {
		var m api.Mode
		a := ask(t, newHandler(t, &fakeShop{}), "GET", "/modes/"+name, "")
		if err := json.Unmarshal([]byte(a.body), &m); err != nil || m.Holds == nil || !slices.Equal(m.Holds, want) {
			t.Errorf("%s holds %v, %v, want %v", name, m.Holds, err, want)
		}
	}
}

// A lock that its holder has entered twice was held once.
func TestServerTimingCountsAReentryOnce(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.UnixMilli(int64(1000 + ms)) }
	outer := step.Span{Key: "a", Waiting: at(0), Locked: at(10), Released: at(110)}
	inner := step.Span{Key: "a", Waiting: at(10), Locked: at(12), Released: at(100)}
	other := step.Span{Key: "b", Waiting: at(20), Locked: at(25), Released: at(50)}
	again := step.Span{Key: "a", Waiting: at(200), Locked: at(201), Released: at(203)}
	want := "lock_wait;dur=16.000, lock_hold;dur=127.000"
	if got := serverTiming([]step.Span{outer, inner, other, again})[0]; got != want {
		t.Errorf("Server-Timing: %s, want %s", got, want)
	}
}
