package handler

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
	"lastitem/internal/handler/input"
	"lastitem/internal/idempotency"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/testkit"
)

func TestDeductionAnswer(t *testing.T) {
	t.Parallel()
	a := ask(t, newHandler(t, &fakeShop{}), "POST", "/deduct_stock/mutex?product_id=7&quantity=2", "")
	want := `{"mode":"mutex","product_id":7,"quantity":2,"remaining":41,"order_id":"order-1","fence":7}` + "\n"
	if a.StatusCode != http.StatusOK || a.body != want || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("answer = %d %s, want %s", a.StatusCode, a.body, want)
	}
	bare := &fakeShop{deduct: func(context.Context, string, stock.Request) (stock.Receipt, error) {
		return stock.Receipt{OrderID: "order-1"}, nil
	}}
	a = ask(t, newHandler(t, bare), "POST", "/deduct_stock", "")
	want = `{"mode":"lease-seq","product_id":101,"quantity":1,"order_id":"order-1"}` + "\n"
	testkit.Is(t, a.body, want, "answer of the default mode")
}

// The answer to a cart lists what was charged, and the client's lines where the mode has merged nothing.
func TestCartAnswer(t *testing.T) {
	t.Parallel()
	merged := []stock.Item{{ProductID: 7, Quantity: 3}, {ProductID: 9, Quantity: 1}}
	for _, c := range []struct {
		items []stock.Item
		want  string
	}{
		{merged, `[{"product_id":7,"quantity":3},{"product_id":9,"quantity":1}]`},
		{nil, `[{"product_id":9,"quantity":1},{"product_id":7,"quantity":2},{"product_id":7,"quantity":1}]`},
	} {
		shop := &fakeShop{deduct: func(context.Context, string, stock.Request) (stock.Receipt, error) {
			return stock.Receipt{OrderID: "order-1", Items: c.items}, nil
		}}
		body := `{"items":[{"product_id":9},{"product_id":7,"quantity":2},{"product_id":7}]}`
		a := ask(t, newHandler(t, shop), "POST", "/deduct_stock/mutex", body, "Content-Type", jsonType)
		testkit.Is(t, a.body, `{"mode":"mutex","items":`+c.want+`,"order_id":"order-1"}`+"\n", "answer")
	}
}

func TestModeGetsTheRequestsContextAndItsTrace(t *testing.T) {
	t.Parallel()
	type mark struct{}
	var traces []*step.Trace
	shop := &fakeShop{deduct: func(ctx context.Context, _ string, _ stock.Request) (stock.Receipt, error) {
		if ctx.Value(mark{}) != true || ctx.Done() == nil {
			t.Error("the context is not the request's")
		}
		traces = append(traces, step.FromContext(ctx))
		return stock.Receipt{}, nil
	}}
	h := newHandler(t, shop)
	for range 2 {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), mark{}, true))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/deduct_stock?product_id=7",
			nil))
		cancel()
	}
	if tr := traces[0]; tr.Mode != "lease-seq" || tr.ProductID != 7 || tr.Request == "" ||
		tr.Request == traces[1].Request {
		t.Errorf("traces = %+v, %+v", tr, traces[1])
	}
}

func TestStoredAnswersAreSentAsTheyAre(t *testing.T) {
	t.Parallel()
	sold := "{\"mode\" : \"mutex\",\"order_id\":\"order-0\",\"product_id\":1,\"quantity\":1}"
	refused := strings.ReplaceAll(strings.TrimSpace(string((&template{instance: "/deduct_stock/idempotent"}).
		answer(stock.Receipt{}, &stock.SoldOutError{ProductID: 101, Requested: 1}).Body)), `,"`, `, "`)
	for _, c := range []struct {
		name    string
		receipt stock.Receipt
		err     error
	}{
		{"first", stock.Receipt{Stored: &idempotency.Answer{Status: 200, Body: []byte(sold)}}, nil},
		{"replayed", stock.Receipt{Stored: &idempotency.Answer{Status: 200, Body: []byte(sold)}, Replayed: true}, nil},
		{"first refusal", stock.Receipt{Stored: &idempotency.Answer{Status: 409, Body: []byte(refused)}}, stock.ErrSoldOut},
		{"replayed refusal", stock.Receipt{Stored: &idempotency.Answer{Status: 409, Body: []byte(refused)}, Replayed: true},
			nil},
	} {
		shop := &fakeShop{deduct: func(context.Context, string, stock.Request) (stock.Receipt, error) {
			return c.receipt, c.err
		}}
		h := newHandler(t, shop)
		a := ask(t, h, "POST", "/deduct_stock/idempotent", "", api.HeaderKey, "k")
		if a.StatusCode != c.receipt.Stored.Status || a.body != string(c.receipt.Stored.Body) {
			t.Errorf("%s: %d %s", c.name, a.StatusCode, a.body)
		}
		replayed := ""
		if c.receipt.Replayed {
			replayed = "true"
		}
		if got := a.Header.Get(api.HeaderReplayed); got != replayed {
			t.Errorf("%s: Idempotent-Replayed = %q", c.name, got)
		}
		page := ask(t, h, "GET", "/metrics", "").body
		outcome := map[int]string{200: "ok", 409: "sold_out"}[a.StatusCode]
		if !strings.Contains(page, `shop_http_requests_total{mode="idempotent",outcome="`+outcome+
			`",route="/deduct_stock/{mode}"} 1`) {
			t.Errorf("%s is not counted as %s", c.name, outcome)
		}
		if got := strings.Contains(page, `shop_idempotent_replays_total{mode="idempotent"} 1`); got != c.receipt.Replayed {
			t.Errorf("%s: counted as a replay: %t", c.name, got)
		}
	}
}

// TestWhatIsStoredIsWhatIsSent renders as a mode does, inside its transaction, and compares with what goes out
// otherwise: the same, and in a problem the name of the request.
func TestWhatIsStoredIsWhatIsSent(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{nil, &stock.SoldOutError{ProductID: 101, Requested: 1}, stock.ErrKeyReused} {
		var rendered []idempotency.Answer
		shop := &fakeShop{deduct: func(_ context.Context, _ string, r stock.Request) (stock.Receipt, error) {
			receipt := stock.Receipt{OrderID: "order-1", Fence: 3}
			rendered = append(rendered, r.Answer(receipt, refusal), r.Answer(receipt, refusal))
			return receipt, refusal
		}}
		h, other := newHandler(t, shop), newHandler(t, shop, func(o *Options) { o.LogEvery = 1 })
		for _, a := range []answer{ask(t, h, "POST", "/deduct_stock/mutex", ""),
			ask(t, other, "POST", "/deduct_stock/mutex", "")} {
			a.body = strings.Replace(a.body, `,"request_id":"`+a.Header.Get(api.HeaderRequestID)+`"`, "", 1)
			for _, r := range rendered {
				if r.Status != a.StatusCode || string(r.Body) != a.body {
					t.Errorf("rendered %d %s, sent %d %s", r.Status, r.Body, a.StatusCode, a.body)
				}
			}
		}
	}
}

func TestStoredCode(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]api.Code{
		`{"code":"sold_out"}`: api.SoldOut, `{"code":"made_up"}`: api.Internal, `{}`: api.Internal, `not json`: api.Internal,
	} {
		testkit.Is(t, storedCode([]byte(body)), want, "storedCode(%s)", body)
	}
}

func TestServerTiming(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var steps step.Stream
		shop := &fakeShop{deduct: func(ctx context.Context, mode string, _ stock.Request) (stock.Receipt, error) {
			if mode == "noop" {
				return stock.Receipt{}, nil
			}
			steps.At(ctx, step.Waiting, "a")
			time.Sleep(1234 * time.Microsecond)
			if mode == "setnx" {
				return stock.Receipt{}, stock.ErrLockBusy
			}
			steps.At(ctx, step.Locked, "a")
			time.Sleep(100 * time.Microsecond)
			steps.At(ctx, step.Waiting, "b")
			steps.At(ctx, step.Locked, "b")
			time.Sleep(200 * time.Microsecond)
			if mode == "watchdog" { // holds b on
				steps.At(ctx, step.Released, "a")
				time.Sleep(time.Millisecond)
				return stock.Receipt{}, nil
			}
			steps.At(ctx, step.Released, "b")
			steps.At(ctx, step.Released, "a")
			time.Sleep(time.Second)
			return stock.Receipt{}, nil
		}}
		h := newHandler(t, shop, func(o *Options) { o.Steps = &steps })
		for mode, want := range map[string]string{
			"noop":     "lock_wait;dur=0.000, lock_hold;dur=0.000",
			"mutex":    "lock_wait;dur=1.234, lock_hold;dur=0.500",
			"setnx":    "lock_wait;dur=1.234, lock_hold;dur=0.000",
			"watchdog": "lock_wait;dur=1.234, lock_hold;dur=1.500",
		} {
			testkit.Is(t, ask(t, h, "POST", "/deduct_stock/"+mode, "").Header.Get("Server-Timing"), want,
				"%s: Server-Timing", mode)
		}
	})
}

func BenchmarkDeduct(b *testing.B) {
	var steps step.Stream
	h := newHandler(b, &fakeShop{}, func(o *Options) { o.Steps = &steps })
	for name, c := range map[string]struct{ query, body string }{
		"query": {"?product_id=101&quantity=1", ""},
		"json":  {"", `{"product_id":101,"quantity":1}`},
	} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodPost, "/deduct_stock/mutex"+c.query, nil)
			body := strings.NewReader(c.body)
			if c.body != "" {
				r = httptest.NewRequest(http.MethodPost, "/deduct_stock/mutex", body)
				r.Header.Set("Content-Type", jsonType)
			}
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(c.body)
				w := httptest.ResponseRecorder{}
				h.ServeHTTP(&w, r)
				if w.Code != 200 {
					b.Fatal(w.Code)
				}
			}
		})
	}
}

// BenchmarkParts has what every deduction pays, one by one: the way to a handler that does nothing, reading the
// request, and rendering the answer.
func BenchmarkParts(b *testing.B) {
	h := newHandler(b, &fakeShop{})
	health := httptest.NewRequest(http.MethodGet, "/healthz", nil)
	request := httptest.NewRequest(http.MethodPost, "/deduct_stock/noop?product_id=101&quantity=1", nil)
	answer := &template{mode: "noop", items: []stock.Item{{ProductID: 101, Quantity: 1}}}
	left := int64(7)
	for name, part := range map[string]func() error{
		"route": func() error {
			h.ServeHTTP(&httptest.ResponseRecorder{}, health)
			return nil
		},
		"decode": func() error {
			_, err := input.ReadDeduction(request, nil, input.DeductionFields)
			return err
		},
		"encode": func() error {
			answer.answer(stock.Receipt{OrderID: "01a21e1f-b0c1-7335-9928-63936f0ff1b0", Remaining: &left}, nil)
			return nil
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				testkit.Must(b, part())
			}
		})
	}
}

// The function that was registered is told of each deduction with its answer, a refusal included, and of nothing else.
func TestAnswered(t *testing.T) {
	t.Parallel()
	var told []step.Answered
	refusing := &fakeShop{deduct: func(_ context.Context, mode string, _ stock.Request) (stock.Receipt, error) {
		if mode == "unsafe" {
			return stock.Receipt{}, &stock.SoldOutError{}
		}
		return stock.Receipt{OrderID: "o"}, nil
	}}
	h := newHandler(t, refusing, func(o *Options) { o.Answered = func(a step.Answered) { told = append(told, a) } })
	ask(t, h, "POST", "/deduct_stock/mutex?store=sql", "")
	ask(t, h, "POST", "/deduct_stock/unsafe", "")
	ask(t, h, "GET", "/modes", "")
	if len(told) != 2 {
		t.Fatalf("told of %d requests, want the two deductions", len(told))
	}
	if a := told[0]; a.Status != 200 || a.Code != "" || a.Store != "sql" || a.Trace.Mode != "mutex" || a.Begun.IsZero() ||
		a.Ended.Before(a.Begun) {
		t.Errorf("told %+v of a sale", a)
	}
	if a := told[1]; a.Status != 409 || a.Code != string(api.SoldOut) || a.Store != "" {
		t.Errorf("told %+v of a refusal", a)
	}
}

// A client is told to come back soon while the first request may be alive, later the longer nothing was heard of it,
// and when its key is free at the latest.
func TestRetryAfterOfAKeyInFlight(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		held, left time.Duration
		want       string
	}{
		{0, 10 * time.Second, "1"}, {3 * time.Millisecond, 10 * time.Second, "1"},
		{2100 * time.Millisecond, 8 * time.Second, "3"},
		{8 * time.Second, 2 * time.Second, "2"}, {9500 * time.Millisecond, 500 * time.Millisecond, "1"},
		{10 * time.Second, 0, "1"},
	} {
		w := httptest.NewRecorder()
		c, _ := gin.CreateTestContext(w)
		c.Request = httptest.NewRequest(http.MethodPost, "/deduct_stock/idempotent", nil)
		(&answers{log: slog.New(slog.DiscardHandler)}).fail(c,
			fmt.Errorf("wrapped: %w", &idempotency.InFlightError{Held: row.held, Left: row.left, Cause: stock.ErrLockBusy}))
		if got := w.Header().Get("Retry-After"); w.Code != 409 || got != row.want {
			t.Errorf("held for %s, %s left: %d, Retry-After %q, want 409 and %q", row.held, row.left, w.Code, got, row.want)
		}
	}
}

// TestExperimentNeedsTheToken: each field alone, wherever it stands and even if it asks for nothing, is refused with
// 403 without the admin token, and then the mode is not called.
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
		{"", "lease_ms=60000&depth=10&hold_ms=30000", []string{"Content-Type", formType},
			stock.Hold{Lease: time.Minute, Depth: 10, Work: 30 * time.Second}},
		{"?depth=0", `{"lease_ms":500,"hold_ms":800}`, []string{"Content-Type", jsonType},
			stock.Hold{Lease: 500 * time.Millisecond, Work: 800 * time.Millisecond}},
	} {
		for _, without := range [][]string{nil, {"Authorization", "Bearer wrong"}} {
			got, a := taken(t, "/deduct_stock/watchdog"+c.query, c.body, slices.Concat(c.headers, without)...)
			if p := problem(t, a); got != nil || a.StatusCode != http.StatusForbidden || p.Code != api.Forbidden ||
				!strings.Contains(p.Detail, "admin token") {
				t.Errorf("%s %s with %v = %d %s, and the mode was called: %t", c.query, c.body, without, a.StatusCode, a.body,
					got != nil)
			}
		}
		got, a := taken(t, "/deduct_stock/watchdog"+c.query, c.body, slices.Concat(c.headers, bearer)...)
		if got == nil || got.Hold != c.want {
			t.Errorf("%s %s with the token = %d %s, the mode got %+v, want %+v", c.query, c.body, a.StatusCode, a.body, got,
				c.want)
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
		"lease_ms": float64(stock.MaxLease.Milliseconds()), "depth": stock.MaxDepth,
		"hold_ms": float64(stock.MaxWork.Milliseconds()),
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

// A lock that its holder has entered twice was held once.
func TestServerTimingCountsAReentryOnce(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.UnixMilli(int64(1000 + ms)) }
	outer := step.Span{Key: "a", Waiting: at(0), Locked: at(10), Released: at(110)}
	inner := step.Span{Key: "a", Waiting: at(10), Locked: at(12), Released: at(100)}
	other := step.Span{Key: "b", Waiting: at(20), Locked: at(25), Released: at(50)}
	again := step.Span{Key: "a", Waiting: at(200), Locked: at(201), Released: at(203)}
	want := "lock_wait;dur=16.000, lock_hold;dur=127.000"
	testkit.Is(t, serverTiming([]step.Span{outer, inner, other, again})[0], want, "Server-Timing")
}
