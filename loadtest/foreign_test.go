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
	"testing"
	"time"

	"lastitem/internal/audit"
)

// foreignShop is a service with another contract: POST /buy?sku=, 201 or 410, GET /shelf.
type foreignShop struct {
	mu    sync.Mutex
	stock int64
	take  func(stock int64) (left int64, ok bool)
	lose  func() bool // whether to lose the answer
	blind bool        // the stock cannot be read
	keys  map[string]int
}

func (s *foreignShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodGet {
		if s.blind {
			fmt.Fprint(w, `{"data":[]}`)
			return
		}
		fmt.Fprintf(w, `{"data":[{"sku":7,"left":"%d"}]}`, s.stock)
		return
	}
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
		verdict audit.Verdict
		found   string
		finding audit.Finding
	}{
		{"loses answers after the sale", &foreignShop{take: right, lose: func() bool {
			losable++
			return losable%10 == 0
		}}, audit.Inconclusive, "", audit.Undecided},
		{"exact", &foreignShop{take: right}, audit.Exact, "", audit.Confirmed},
		{"oversells", &foreignShop{take: func(s int64) (int64, bool) { return max(0, s-1), true }}, audit.Broken, "O", audit.Contradicted},
		{"loses updates", &foreignShop{take: func(s int64) (int64, bool) {
			calls++
			if calls%5 == 0 && s > 0 {
				return s, true
			}
			return right(s)
		}}, audit.Broken, "O", audit.Contradicted},
		{"leaks", &foreignShop{take: func(s int64) (int64, bool) {
			if s > 1 && s%10 == 0 {
				return s - 2, true
			}
			return right(s)
		}}, audit.Broken, "L", audit.Contradicted},
		{"does not say", &foreignShop{take: right, blind: true}, audit.Inconclusive, "", audit.Undecided},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.shop.stock, tt.shop.keys = 50, map[string]int{}
			u := serve(t, tt.shop.ServeHTTP)
			res, err := RunForeign(t.Context(), Foreign{
				URL: u.String(), Request: `POST /buy?sku={{product}} {"n":{{quantity}},"key":"{{key}}"}`,
				OKStatus: []int{201}, RefusedStatus: []int{410},
				StockURL: "/shelf?sku={{product}}", StockJSONPath: "data[0].left",
			}, Plan{VUs: 5, Requests: 80, Product: 7}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := res.Verdicts[0]
			if got.Verdict != tt.verdict || got.Found != tt.found || res.Finding != tt.finding {
				t.Errorf("verdict %s, found %q, finding %s (%q), want %s, %q, %s", got.Verdict, got.Found, res.Finding, res.Why, tt.verdict, tt.found, tt.finding)
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
		{"both", func(f *Foreign, _ *Plan) { f.OKStatus, f.RefusedStatus = []int{200, 409}, []int{409} }, "status 409 is in --ok-status and in --refused-status"},
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

// A service may go on with a request after its client has left. A stock that was read before that is over proves nothing.
func TestForeignIsReadTooEarly(t *testing.T) {
	t.Parallel()
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, 4) })
	shelf := newShelf(Foreign{StockURL: "/stock"}, u)
	defer shelf.close()
	history := []audit.Op{{Outcome: audit.OK, ProductID: 1, Quantity: 1, Return: 1}, {Client: 1, Outcome: audit.Unknown, ProductID: 1, Quantity: 1, Return: int64(10 * time.Second)}}
	for ago, want := range map[time.Duration]audit.Verdict{20 * time.Second: audit.Inconclusive, time.Minute: audit.Exact} {
		res := Result{Mode: "foreign", Plan: Plan{Product: 1, Products: 1}, History: history, Started: time.Now().Add(-ago)}
		ctx, cancel := context.WithTimeout(t.Context(), (settleReads+2)*settleEvery)
		after := shelf.settleAll(ctx, &res)
		cancel()
		judgeForeign(&res, map[int64]level{1: {stock: 5, read: true}}, after, "en")
		if v := res.Verdicts[0]; v.Verdict != want {
			t.Errorf("read %s after the start: %s (%q), want %s", ago, v.Verdict, v.Missing, want)
		}
	}
}

// The judge speaks the language of the user about a foreign service too.
func TestForeignInChinese(t *testing.T) {
	t.Parallel()
	han := regexp.MustCompile(`\p{Han}`)
	history := []audit.Op{{Outcome: audit.OK, ProductID: 1, Quantity: 1}, {Outcome: audit.Unknown, ProductID: 1, Quantity: 1}}
	for name, after := range map[string]map[int64]level{
		"oversold": {1: {stock: 5, read: true}}, "undecided": {1: {stock: 3, read: true}}, "unread": {}, "unreadable": {1: {err: errTorn}},
	} {
		res := Result{Mode: "foreign", Plan: Plan{Product: 1, Products: 1}, History: history}
		judgeForeign(&res, map[int64]level{1: {stock: 5, read: true}}, after, "zh")
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

func TestNumberAt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		body, path string
		want       int64
		ok         bool
	}{
		{`7`, "", 7, true},
		{` "7" `, "", 7, true},
		{`{"a":{"b":[{"c":-3}]}}`, "a.b[0].c", -3, true},
		{`{"a":{"b":[{"c":-3}]}}`, "$.a.b[0].c", -3, true},
		{`[[1,2],[3,9007199254740993]]`, "[1][1]", 9007199254740993, true},
		{`{"stock":{"redis":5}}`, "stock.redis", 5, true},
		{`{"a":1.5}`, "a", 0, false},
		{`{"a":null}`, "a", 0, false},
		{`{"a":"many"}`, "a", 0, false},
		{`{"a":[1]}`, "a[1]", 0, false},
		{`{"a":[1]}`, "a[x]", 0, false},
		{`{"a":[1]}`, "a.0", 0, false},
		{`{"a":1}`, "b", 0, false},
		{`{"a":1}`, "a.b", 0, false},
		{`<html>`, "", 0, false},
	}
	for _, tt := range tests {
		got, err := numberAt([]byte(tt.body), tt.path)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("numberAt(%s, %q) = %d, %v, want %d", tt.body, tt.path, got, err, tt.want)
		}
	}
}
