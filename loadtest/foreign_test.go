package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/testkit"
)

// foreignShop is a service with another contract: POST /buy?sku=, 201 or 410, GET /shelf.
type foreignShop struct {
	mu    sync.Mutex
	stock int64
	reads int
	take  func(stock int64) (left int64, ok bool)
	lose  func() bool // whether to lose the answer
	blind bool        // the stock cannot be read after the run
	keys  map[string]int
}

func (s *foreignShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var body struct {
		N   int64  `json:"n"`
		Key string `json:"key"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.N != 1 || r.URL.Query().Get("sku") != "7" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.keys[body.Key]++
	left, ok := s.take(s.stock)
	s.stock = left
	if s.lose != nil && s.lose() {
		panic(http.ErrAbortHandler)
	}
	if !ok {
		w.WriteHeader(http.StatusGone)
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, "thank you")
}

// ledger reads the stock as Foreign.Ledger does.
func (s *foreignShop) ledger(_ context.Context, product, initial int64) (*api.Ledger, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads++; s.blind && s.reads > 1 {
		return nil, errTorn
	}
	return shelfOf(product, initial, s.stock), nil
}

func shelfOf(product, initial, stock int64) *api.Ledger {
	return &api.Ledger{ProductID: product, Initial: map[api.Store]int64{"service": initial},
		Stock: map[api.Store]int64{"service": stock}}
}

// byStatus classifies answers: one status is sold, another sold out.
func byStatus(sold, out int) func(int, []byte) judge.Op {
	return func(status int, _ []byte) judge.Op {
		outcome, known := map[int]judge.Outcome{sold: judge.OK, out: judge.Refused}[status]
		if !known {
			outcome = judge.Unknown
		}
		return judge.Op{Outcome: outcome}
	}
}

func TestRunForeign(t *testing.T) {
	t.Parallel()
	right := func(stock int64) (int64, bool) {
		if stock < 1 {
			return stock, false
		}
		return stock - 1, true
	}
	var calls, losable int
	tests := []struct {
		name    string
		shop    *foreignShop
		verdict judge.Verdict
		found   string
	}{
		{"loses answers after the sale", &foreignShop{take: right, lose: func() bool {
			losable++
			return losable%10 == 0
		}}, judge.Inconclusive, ""},
		{"exact", &foreignShop{take: right}, judge.Exact, ""},
		{"oversells", &foreignShop{take: func(s int64) (int64, bool) { return max(0, s-1), true }}, judge.Broken, "O"},
		{"loses updates", &foreignShop{take: func(s int64) (int64, bool) {
			calls++
			if calls%5 == 0 && s > 0 {
				return s, true
			}
			return right(s)
		}}, judge.Broken, "O"},
		{"leaks", &foreignShop{take: func(s int64) (int64, bool) {
			if s > 1 && s%10 == 0 {
				return s - 2, true
			}
			return right(s)
		}}, judge.Broken, "L"},
		{"does not say", &foreignShop{take: right, blind: true}, judge.Inconclusive, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.shop.stock, tt.shop.keys = 50, map[string]int{}
			u := serve(t, tt.shop.ServeHTTP)
			res, err := RunForeign(t.Context(), Foreign{
				URL: u.String(), Request: `POST /buy?sku={{product}} {"n":{{quantity}},"key":"{{key}}"}`,
				Name: "theirs", Read: byStatus(201, 410), Ledger: tt.shop.ledger,
			}, Plan{VUs: 5, Requests: 80, Product: 7}, nil)
			testkit.Must(t, err)
			got := res.Verdicts[0]
			if got.Verdict != tt.verdict || got.Found != tt.found || res.Finding != judge.Unclaimed || res.Claim != "" ||
				res.Plan.Stock != 50 {
				t.Errorf("verdict %s, found %q, finding %s, claim %q, stock %d, want %s, %q, no claim, and the 50 that it had",
					got.Verdict, got.Found, res.Finding, res.Claim, res.Plan.Stock, tt.verdict, tt.found)
			}
			if hint := strings.Contains(strings.Join(res.Why, ""), "--ok-body"); hint != (tt.name == "oversells") {
				t.Errorf("why %q, want a hint only where nobody was refused", res.Why)
			}
			if len(tt.shop.keys) != 80 {
				t.Errorf("%d distinct keys, want 80", len(tt.shop.keys))
			}
			lost := res.Codes["eof"] + res.Codes["reset"]
			if res.Sent != 80 || res.Codes["ok"]+res.Codes["refused"]+lost != 80 || (lost == 8) != (tt.shop.lose != nil) {
				t.Errorf("sent %d, codes %v, want 80 read by their status, or lost", res.Sent, res.Codes)
			}
		})
	}
}

func TestRunForeignRefuses(t *testing.T) {
	t.Parallel()
	good := Foreign{URL: "http://127.0.0.1:1", Request: "POST /buy"}
	tests := []struct {
		name   string
		change func(*Foreign, *Plan)
		want   string
	}{
		{"url", func(f *Foreign, _ *Plan) { f.URL = "here" }, "--url must be a URL"},
		{"no request", func(f *Foreign, _ *Plan) { f.Request = "" }, "--request must be like"},
		{"no path", func(f *Foreign, _ *Plan) { f.Request = "POST" }, "--request must be like"},
		{"no method", func(f *Foreign, _ *Plan) { f.Request = "/buy" }, "--request must be like"},
		{"header", func(f *Foreign, _ *Plan) { f.Headers = []string{"X"} }, "--header"},
		{"retry without key", func(_ *Foreign, p *Plan) { p.Retry = 1 }, "--retry needs {{key}}"},
		{"plan", func(_ *Foreign, p *Plan) { p.Zipf = 0.5 }, "--zipf"},
	}
	for _, tt := range tests {
		f, p := good, Plan{}
		tt.change(&f, &p)
		if _, err := RunForeign(t.Context(), f, p, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: RunForeign() = %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A service may go on with a request after its client has left. A stock that was read before that is over proves
// nothing.
func TestForeignIsReadTooEarly(t *testing.T) {
	t.Parallel()
	f := Foreign{Lang: "en", Ledger: func(_ context.Context, product, initial int64) (*api.Ledger, error) {
		return shelfOf(product, initial, 4), nil
	}}
	before := map[int64]level{1: levelOf(shelfOf(1, 5, 5), nil)}
	history := []judge.Op{{Outcome: judge.OK, ProductID: 1, Quantity: 1, Return: 1},
		{Client: 1, Outcome: judge.Unknown, ProductID: 1, Quantity: 1, Return: int64(10 * time.Second)}}
	for ago, want := range map[time.Duration]judge.Verdict{20 * time.Second: judge.Inconclusive,
		time.Minute: judge.Exact} {
		res := Result{Mode: "foreign", Plan: Plan{Product: 1, Products: 1}, History: history, Started: time.Now().Add(-ago)}
		ctx, cancel := context.WithTimeout(t.Context(), (settleReads+2)*settleEvery)
		after := f.settleAll(ctx, &res, before)
		cancel()
		judgeForeign(&res, f, before, after)
		if v := res.Verdicts[0]; v.Verdict != want {
			t.Errorf("read %s after the start: %s (%q), want %s", ago, v.Verdict, v.Missing, want)
		}
	}
}

// The judge speaks the language of the user about a foreign service too.
func TestForeignInChinese(t *testing.T) {
	t.Parallel()
	han := regexp.MustCompile(`\p{Han}`)
	history := []judge.Op{{Outcome: judge.OK, ProductID: 1, Quantity: 1},
		{Outcome: judge.Unknown, ProductID: 1, Quantity: 1}}
	for name, after := range map[string]map[int64]level{
		"oversold": {1: levelOf(shelfOf(1, 5, 5), nil)}, "undecided": {1: levelOf(shelfOf(1, 5, 3), nil)}, "unread": {},
		"unreadable": {1: {err: errTorn}},
	} {
		res := Result{Mode: "foreign", Plan: Plan{Product: 1, Products: 1}, History: history}
		judgeForeign(&res, Foreign{Lang: "zh"}, map[int64]level{1: levelOf(shelfOf(1, 5, 5), nil)}, after)
		v := res.Verdicts[0]
		said := slices.Concat(res.Why, v.Missing, v.Violations, v.Unchecked)
		if len(said) == 0 {
			t.Errorf("%s: the judge says nothing about %+v", name, v)
		}
		for _, sentence := range said {
			if !han.MatchString(sentence) || strings.Contains(sentence, "the ") {
				t.Errorf("%s: %q is not Chinese", name, sentence)
			}
		}
	}
}

// The stock is reset before a run, and a run that would prove nothing sends nothing. Failures without another answer
// end it, and are shown.
func TestForeignIsReady(t *testing.T) {
	t.Parallel()
	stock, asked := int64(0), new(atomic.Int64)
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "Access denied for user", http.StatusInternalServerError)
	})
	f := Foreign{
		Name: "theirs", URL: u.String(), Request: "POST /buy", Read: byStatus(200, 409),
		Ledger: func(_ context.Context, product, initial int64) (*api.Ledger, error) {
			return shelfOf(product, initial, stock), nil
		},
	}
	long := Plan{VUs: 2, Requests: 100_000, Product: 7, Stock: 60}
	for _, tt := range []struct {
		name   string
		change func(f *Foreign)
		want   string
		sent   int64 // at most
	}{
		{"sold out before", func(*Foreign) {}, "the stock of product 7 is 0", 0},
		{"cannot be read", func(f *Foreign) {
			f.Ledger = func(context.Context, int64, int64) (*api.Ledger, error) { return nil, errTorn }
		}, "cannot be read", 0},
		{"cannot be reset", func(f *Foreign) {
			f.Reset = func(context.Context, int64, int64) error { return errTorn }
		}, "cannot be reset", 0},
		{"the reset does nothing", func(f *Foreign) {
			f.Reset = func(context.Context, int64, int64) error { return nil }
		}, "left a stock of 0, want 60", 0},
		{"fails for ever", func(f *Foreign) {
			f.Reset = func(_ context.Context, _, to int64) error { stock = to; return nil }
		}, "the first: http_500 Access denied for user", 2 * hopeless},
	} {
		service := f
		tt.change(&service)
		asked.Store(0)
		if _, err := RunForeign(t.Context(), service, long, nil); err == nil || !strings.Contains(err.Error(), tt.want) ||
			asked.Load() > tt.sent {
			t.Errorf("%s: %v after %d requests, want %q after at most %d", tt.name, err, asked.Load(), tt.want, tt.sent)
		}
	}
}
