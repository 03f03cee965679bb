package handler

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/contract/api"
	"lastitem/internal/handler/input"
	"lastitem/internal/shop"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/judge"
	"lastitem/testkit"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var steps step.Stream
		shop := &fakeShop{deduct: func(ctx context.Context, mode string, _ stock.Request) (stock.Receipt, error) {
			steps.At(ctx, step.Waiting, "k")
			time.Sleep(2 * time.Millisecond)
			steps.At(ctx, step.Locked, "k")
			time.Sleep(20 * time.Millisecond)
			steps.At(ctx, step.Released, "k")
			if mode == "setnx" {
				return stock.Receipt{}, &stock.SoldOutError{}
			}
			return stock.Receipt{}, nil
		}}
		h := newHandler(t, shop, func(o *Options) {
			o.Steps = &steps
			o.PoolStats = func() []Pool {
				return []Pool{{Name: "redis", Total: 10, Idle: 4, Waits: 3, Waited: 1500 * time.Millisecond, Timeouts: 1},
					{Name: "sql", Total: 2}}
			}
		})
		ask(t, h, "POST", "/deduct_stock/mutex", "")
		ask(t, h, "POST", "/deduct_stock/mutex/", "")
		ask(t, h, "POST", "/deduct_stock/setnx", "")
		ask(t, h, "POST", "/deduct_stock/mutex?quantity=0", "")
		ask(t, h, "POST", "/deduct_stock", "")
		ask(t, h, "POST", "/deduct_stock/made-up-1", "")
		ask(t, h, "POST", "/deduct_stock/made-up-2", "")
		ask(t, h, "GET", "/made-up", "")
		ask(t, h, "GET", "/products/101", "")
		page := ask(t, h, "GET", "/metrics", "").body
		for _, line := range []string{
			`shop_http_requests_total{mode="mutex",outcome="ok",route="/deduct_stock/{mode}"} 2`,
			`shop_http_requests_total{mode="setnx",outcome="sold_out",route="/deduct_stock/{mode}"} 1`,
			`shop_http_requests_total{mode="mutex",outcome="invalid_request",route="/deduct_stock/{mode}"} 1`,
			`shop_http_requests_total{mode="lease-seq",outcome="ok",route="/deduct_stock"} 1`,
			`shop_http_requests_total{mode="",outcome="unknown_mode",route="/deduct_stock/{mode}"} 2`,
			`shop_http_requests_total{mode="",outcome="not_found",route="unmatched"} 1`,
			`shop_http_requests_total{mode="",outcome="ok",route="/products/{id}"} 1`,
			`shop_http_request_duration_seconds_count{mode="setnx",result="refused",route="/deduct_stock/{mode}"} 1`,
			`shop_http_request_duration_seconds_bucket{mode="mutex",result="ok",route="/deduct_stock/{mode}",le="0.01"} 0`,
			`shop_http_request_duration_seconds_bucket{mode="mutex",result="ok",route="/deduct_stock/{mode}",le="0.025"} 2`,
			`shop_lock_wait_seconds_sum{mode="mutex"} 0.004`,
			`shop_lock_hold_seconds_sum{mode="mutex"} 0.04`,
			`shop_lock_hold_seconds_count{mode="setnx"} 1`,
			`shop_http_requests_in_flight 1`,
			`shop_pool_connections{pool="redis"} 10`,
			`shop_pool_connections_idle{pool="redis"} 4`,
			`shop_pool_waits_total{pool="redis"} 3`,
			`shop_pool_wait_seconds_total{pool="redis"} 1.5`,
			`shop_pool_timeouts_total{pool="redis"} 1`,
			`shop_pool_connections{pool="sql"} 2`,
		} {
			if !strings.Contains(page, line+"\n") {
				t.Errorf("/metrics lacks %s", line)
			}
		}
		if strings.Contains(page, "made-up") {
			t.Error("a made-up name became a label")
		}
		if !strings.Contains(page, "go_goroutines") {
			t.Error("/metrics lacks the Go runtime")
		}
	})
}

func TestResultOfEveryCode(t *testing.T) {
	t.Parallel()
	want := map[api.Code]judge.Outcome{"": judge.OK, api.SoldOut: judge.Refused, api.OutcomeUnknown: judge.Unknown,
		api.Internal: judge.Unknown}
	for code := range api.Codes {
		if _, ok := want[code]; !ok {
			want[code] = judge.Declined
		}
	}
	for code, w := range want {
		testkit.Is(t, result(code), w, "result(%q)", code)
	}
}

func TestSampledRequestLog(t *testing.T) {
	t.Parallel()
	for every, want := range map[uint64]int{0: 0, 1: 6, 3: 2} {
		var buf bytes.Buffer
		h := newHandler(t, &fakeShop{}, func(o *Options) {
			o.LogEvery = every
			o.Log = slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		for range 6 {
			ask(t, h, "POST", "/deduct_stock", "")
		}
		if got := strings.Count(buf.String(), "msg=request"); got != want {
			t.Errorf("every %d: %d of 6 requests logged, want %d", every, got, want)
		}
	}
}

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

func TestHealthWhileDraining(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{}, func(o *Options) {
		o.Ready = func([]string) ([]string, error) { return nil, errors.New("down") }
	})
	h.Drain()
	a := ask(t, h, "GET", "/healthz", "")
	if want := `{"status":"ok","replica":"2"}` + "\n"; a.StatusCode != http.StatusOK || a.body != want {
		t.Errorf("/healthz = %d %s", a.StatusCode, a.body)
	}
	a = ask(t, h, "GET", "/readyz", "")
	if p := problem(t, a); p.Code != api.BackendUnavailable || !strings.Contains(p.Detail, "draining") {
		t.Errorf("/readyz while draining = %s", a.body)
	}
	if a := ask(t, h, "POST", "/deduct_stock", ""); a.StatusCode != http.StatusOK {
		t.Errorf("a deduction while draining = %d", a.StatusCode)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	var log *bytes.Buffer
	down := map[string]error{}
	var out []string
	h := newHandler(t, &fakeShop{}, func(o *Options) {
		log = logged(o)
		o.Ready = func(exclude []string) ([]string, error) {
			for name, err := range down {
				if !slices.Contains(exclude, name) {
					return out, fmt.Errorf("%s: %w", name, err)
				}
			}
			return out, nil
		}
	})
	ready := func(query string, want int, detail string) {
		t.Helper()
		a := ask(t, h, "GET", "/readyz"+query, "")
		if a.StatusCode != want || !strings.Contains(a.body, detail) {
			t.Errorf("/readyz%s = %d %s, want %d with %q", query, a.StatusCode, a.body, want, detail)
		}
		if want == http.StatusServiceUnavailable && problem(t, a).Code != api.BackendUnavailable {
			t.Errorf("/readyz%s = %s", query, a.body)
		}
	}
	ready("", http.StatusOK, `"ready","replica":"2"}`)
	out = []string{"redis: 10.0.0.1:6379: refused"}
	ready("", http.StatusOK, `"out":["redis: 10.0.0.1:6379: refused"]`)
	down["redis"] = errors.New("OOM command not allowed")
	ready("", http.StatusServiceUnavailable, "redis: OOM command not allowed")
	ready("?exclude=sql", http.StatusServiceUnavailable, "redis: OOM command not allowed")
	ready("?exclude=redis", http.StatusOK, `"ready"`)
	ready("?exclude=sql,redis", http.StatusOK, `"ready"`)
	ready("?exclude=kafka", http.StatusBadRequest, "must be redis or sql")
	ready("?exclude=", http.StatusBadRequest, "must be redis or sql")
	ready("?without=redis", http.StatusBadRequest, "unknown field")
	if log.Len() > 0 {
		t.Errorf("logged: %s", log)
	}
}

// paged is a shop with three pages, the second of which begins where the first one says.
func paged(t *testing.T) *fakeShop {
	return &fakeShop{page: func(p shop.Page) (shop.Ledger, error) {
		l, _ := soldOnce(101)
		at := p.After[stock.SQL]
		switch {
		case p.After == nil:
			at.Order = "first"
			l.Next = shop.Cursor{stock.SQL: at}
		case at.Order == "first":
			at.Order = "second"
			l.Next = shop.Cursor{stock.SQL: at}
		case at.Order != "second":
			t.Errorf("page after %+v", p.After)
		}
		return l, nil
	}}
}

func TestPages(t *testing.T) {
	t.Parallel()
	h := newHandler(t, paged(t))
	for _, path := range []string{"/products/101/ledger", "/products/101/orders"} {
		cursor, pages := "", 0
		for {
			var page api.Ledger // an api.Orders has fewer fields of the same names
			a := ask(t, h, "GET", path+"?limit=7"+cursor, "")
			decode(t, a.body, &page)
			first := page.Initial != nil && page.Stock != nil && page.Totals != nil && !page.AsOf.IsZero()
			rest := page.Initial == nil && page.Stock == nil && page.Totals == nil && page.AsOf.IsZero()
			if pages == 0 && !first || pages > 0 && !rest || len(page.Orders) != 2 {
				t.Errorf("page %d of %s = %s", pages, path, a.body)
			}
			if pages++; page.NextCursor == "" || pages > 3 {
				break
			}
			cursor = "&cursor=" + url.QueryEscape(page.NextCursor)
		}
		if pages != 3 {
			t.Errorf("%s has %d pages, want 3", path, pages)
		}
	}
}

func TestPageRefusesItsQuery(t *testing.T) {
	t.Parallel()
	h := newHandler(t, paged(t))
	code := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=1001": "limit", "limit=-1": "limit", "limit=": "limit", "limit=1.0": "limit",
		"limit=x":         "limit",
		"limit=1&limit=1": "limit", "Limit=1": "Limit", "cursor=": "cursor", "cursor=a&cursor=a": "cursor",
		"cursor=%21":                            "cursor",
		"cursor=AAAA":                           "cursor",
		"cursor=" + code(`{}`):                  "cursor",
		"cursor=" + code(`{"p":101,"at":{}}`):   "cursor",
		"cursor=" + code(`{"p":101,"at":null}`): "cursor",
		"cursor=" + code(`{"p":102,"at":{"sql":{"o":"first"}}}`):       "cursor",
		"cursor=" + code(`{"p":101,"at":{"sql":{"o":"first","z":1}}}`): "cursor",
		"cursor=" + code(`{"p":101,"at":{"sql":{"o":"first"}}}{}`):     "cursor",
		"cursor=" + code(`{"p":101,"at":{"sql":{"o":1}}}`):             "cursor",
		"cursor=" + strings.Repeat("A", input.MaxCursor+1):             "cursor",
	} {
		for _, path := range []string{"/products/101/ledger", "/products/101/orders"} {
			a := ask(t, h, "GET", path+"?"+query, "")
			if p := problem(t, a); a.StatusCode != http.StatusBadRequest || p.Code != api.InvalidRequest || p.Field != field {
				t.Errorf("%s?%s = %d %s, want it to refuse %s", path, query, a.StatusCode, a.body, field)
			}
		}
	}
}

// A read beyond the limit is told to come again, and nothing is read for it; when a read ends, the next one may begin.
func TestReadsAreBounded(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{})
	h.books.pages, h.books.audits, h.scrapes = newGate(1, time.Millisecond), newGate(1, time.Millisecond), newGate(1, 0)
	for path, g := range map[string]gate{
		"/products/101/ledger": h.books.pages, "/products/101/orders": h.books.pages,
		"/products/101/audit": h.books.audits,
		"/metrics":            h.scrapes,
	} {
		testkit.Must(t, g.enter(t.Context()))
		a := ask(t, h, "GET", path, "")
		if p := problem(t, a); a.StatusCode != http.StatusTooManyRequests || p.Code != api.RateLimited ||
			p.Happened != api.NoForNow || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s beyond the bound = %d %s", path, a.StatusCode, a.body)
		}
		g.leave()
		for range 3 {
			if a := ask(t, h, "GET", path, ""); a.StatusCode != http.StatusOK {
				t.Errorf("%s after that = %d %s", path, a.StatusCode, a.body)
			}
		}
	}
}

func TestReadsMayBeProtected(t *testing.T) {
	t.Parallel()
	var paths []string
	open := newHandler(t, &fakeShop{})
	shut := newHandler(t, &fakeShop{}, func(o *Options) { o.ProtectReads = true })
	for route, right := range Rights { // a stranger gets 401 where only the operator may, whatever is set
		method, path, _ := strings.Cut(strings.NewReplacer("{id}", "101", "{order_id}", "0").Replace(route), " ")
		if right != Operator {
			paths = append(paths, path)
		} else if a := ask(t, open, method, path, ""); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without the token = %d %s", route, a.StatusCode, a.body)
		}
	}
	for _, path := range paths {
		if a := ask(t, open, "GET", path, ""); a.StatusCode != http.StatusOK {
			t.Errorf("GET %s = %d %s, want it open by default", path, a.StatusCode, a.body)
		}
		for _, method := range []string{"GET", "HEAD"} {
			if a := ask(t, shut, method, path, ""); a.StatusCode != http.StatusUnauthorized ||
				a.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s %s without the token = %d %s", method, path, a.StatusCode, a.body)
			}
			if a := ask(t, shut, method, path, "", "Authorization", "Bearer "+adminToken); a.StatusCode != http.StatusOK {
				t.Errorf("%s %s with the token = %d %s", method, path, a.StatusCode, a.body)
			}
		}
	}
	for _, path := range []string{"/products/101", "/modes", "/readyz", "/openapi.json"} {
		if a := ask(t, shut, "GET", path, ""); a.StatusCode != http.StatusOK {
			t.Errorf("GET %s = %d %s, want it open", path, a.StatusCode, a.body)
		}
	}
}
