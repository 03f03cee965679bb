package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/loadtest/plan"
	"lastitem/target"
	"lastitem/testkit"
	"lastitem/testkit/habits"
)

// foreignShop is a service with another contract: POST /buy?sku=, 201 or 410, GET /shelf.
type foreignShop struct {
	mu    sync.Mutex
	stock int64
	take  func(stock int64) (left int64, ok bool)
	lose  func() bool // whether to lose the answer
	blind bool        // the stock cannot be read after the first purchase of a run
	keys  map[string]int
}

func (s *foreignShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodGet {
		s.shelf(w)
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

// shelf answers GET /shelf, by which the stock is read.
func (s *foreignShop) shelf(w http.ResponseWriter) {
	if s.blind && len(s.keys) > 1 {
		w.WriteHeader(http.StatusTeapot)
	}
	fmt.Fprint(w, s.stock)
}

// theirs is a foreign service at an address, described as a foreignShop and then changed.
func theirs(t *testing.T, address string, change func(*target.Foreign)) Foreign {
	t.Helper()
	d := &target.Foreign{
		Request: `POST /buy?sku={{product}} {"n":{{quantity}},"key":"{{key}}"}`, Stock: target.Source{URL: "/shelf"},
		OK: target.Meaning{Statuses: []int{201}}, Refused: target.Meaning{Statuses: []int{410}},
	}
	if change != nil {
		change(d)
	}
	r, err := d.At(address, "", "")
	testkit.Must(t, err)
	return Foreign{Remote: r, Name: "theirs", Lang: "en", Settle: 300 * time.Millisecond}
}

func shelfOf(product, initial, stock int64) *api.Ledger {
	return &api.Ledger{ProductID: product, Initial: map[api.Store]int64{"service": initial},
		Stock: map[api.Store]int64{"service": stock}}
}

func TestRunForeign(t *testing.T) {
	t.Parallel()
	right := func(stock int64) (int64, bool) {
		if stock < 1 {
			return stock, false
		}
		return stock - 1, true
	}
	losable, sold := 0, 0
	tests := []struct {
		name    string
		shop    *foreignShop
		verdict judge.Verdict
		found   string
	}{
		{"loses answers after the sale", &foreignShop{take: right, lose: func() bool {
			losable++
			return losable%10 == 2 // and not the purchase that is tried
		}}, judge.Inconclusive, ""},
		{"exact", &foreignShop{take: right}, judge.Exact, ""},
		{"loses updates", &foreignShop{take: func(s int64) (int64, bool) {
			if sold++; s < 1 || sold%4 == 0 {
				return s, s >= 1
			}
			return s - 1, true
		}}, judge.Broken, "O"},
		{"does not say", &foreignShop{take: right, blind: true}, judge.Inconclusive, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.shop.stock, tt.shop.keys = 51, map[string]int{}
			u := serve(t, tt.shop.ServeHTTP)
			res, err := RunForeign(t.Context(), theirs(t, u.String(), nil), plan.Plan{VUs: 5, Requests: 80, Product: 7}, nil)
			testkit.Must(t, err)
			got := res.Verdicts[0]
			if got.Verdict != tt.verdict || got.Found != tt.found || res.Finding != judge.Unclaimed || res.Claim != "" ||
				res.Plan.Stock != 50 {
				t.Errorf("verdict %s, found %q, finding %s, claim %q, stock %d, want %s, %q, no claim, and the 50 that it had",
					got.Verdict, got.Found, res.Finding, res.Claim, res.Plan.Stock, tt.verdict, tt.found)
			}
			if len(tt.shop.keys) != 81 {
				t.Errorf("%d distinct keys, want 80 and that of the trial", len(tt.shop.keys))
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
	f := theirs(t, "http://127.0.0.1:1", func(d *target.Foreign) { d.Request = "POST /buy" })
	for want, p := range map[string]plan.Plan{"--retry needs {{key}}": {Retry: 1}, "--zipf": {Zipf: 0.5}} {
		if _, err := RunForeign(t.Context(), f, p, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("RunForeign() = %v, want %q", err, want)
		}
	}
}

// A certificate that nobody knows ends the run with the option that takes it, and then all clients do.
func TestForeignOverTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(habits.New("").Handler())
	t.Cleanup(server.Close)
	for _, engine := range plan.EngineNames {
		for _, insecure := range []bool{false, true} {
			d := &target.Foreign{Request: `POST /buy/{{product}} {"n":1}`,
				ResetURL: []string{"POST /reset/{{product}}/{{stock}}"},
				Stock:    target.Source{URL: server.URL + "/stock/{{product}}#/qty"}, Insecure: insecure,
				OK: target.Meaning{Statuses: []int{201}}, Refused: target.Meaning{Statuses: []int{409}}}
			r, err := d.At(server.URL, "", "")
			testkit.Must(t, err)
			p := plan.Plan{VUs: 4, Requests: 30, Product: 7, Stock: 20, Engine: engine}
			res, err := RunForeign(t.Context(), Foreign{Remote: r, Lang: "en", Settle: time.Second}, p, nil)
			if v, _ := res.Verdict(); insecure != (err == nil && v == judge.Exact) ||
				!insecure && !strings.Contains(err.Error(), "with --insecure") {
				t.Errorf("%s, --insecure %t: %s, %v", engine, insecure, v, err)
			}
		}
	}
}

// A service may go on with a request after its client has left. A stock that was read before that is over proves
// nothing.
func TestForeignIsReadTooEarly(t *testing.T) {
	t.Parallel()
	svc := theirs(t, "http://127.0.0.1:1", nil).newService(map[int64]int64{1: 5}, newWitness())
	svc.ledger = func(_ context.Context, product int64) (*api.Ledger, error) { return shelfOf(product, 5, 4), nil }
	for _, tt := range []struct {
		ago, purchase, cancel time.Duration // since the start, and the ends of two unanswered requests
		want                  judge.Verdict
	}{
		{20 * time.Second, 10 * time.Second, 1, judge.Inconclusive},
		{20 * time.Second, 1, 10 * time.Second, judge.Inconclusive},
		{time.Minute, 10 * time.Second, 10 * time.Second, judge.Exact},
	} {
		res := Result{Mode: "foreign", Plan: plan.Plan{Product: 1, Products: 1}, Started: time.Now().Add(-tt.ago),
			History: []judge.Op{{Outcome: judge.OK, ProductID: 1, Quantity: 1, Return: 1},
				{Client: 1, Outcome: judge.Unknown, ProductID: 1, Quantity: 1, Return: int64(tt.purchase)}},
			Cancels: map[int64][]judge.ReservationOp{1: {{Kind: judge.Cancel, Outcome: judge.Unknown,
				Return: int64(tt.cancel)}}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		judgeAll(&res, svc, settleAll(ctx, svc, &res))
		cancel()
		if v := res.Verdicts[0]; v.Verdict != tt.want {
			t.Errorf("%+v: %s (%q)", tt, v.Verdict, v.Missing)
		}
	}
}

// Books that add up are read on for as long as the user says, since a queue may deliver again.
func TestForeignIsWatched(t *testing.T) {
	t.Parallel()
	for watch, left := range map[time.Duration]int64{0: 4, 3 * time.Second: 3} {
		synctest.Test(t, func(t *testing.T) {
			f := theirs(t, "http://127.0.0.1:1", nil)
			f.Watch = watch
			svc := f.newService(map[int64]int64{1: 5}, newWitness())
			res := Result{Plan: plan.Plan{Product: 1}, Started: time.Now(),
				History: []judge.Op{{Outcome: judge.OK, ProductID: 1, Quantity: 1}}}
			svc.ledger = func(_ context.Context, product int64) (*api.Ledger, error) {
				return shelfOf(product, 5, 4-int64(time.Since(res.Started)/(2*time.Second))), nil
			}
			b := settleAll(t.Context(), svc, &res)[1]
			testkit.Is(t, b.ledger.Stock[target.ForeignStore], left, "stock, watched for %v", watch)
		})
	}
}

// A status that comes only after the last sale may mean sold out.
func TestUnknownStatus(t *testing.T) {
	t.Parallel()
	for sold, want := range map[int64]bool{1: true, 9: false} {
		w := newWitness()
		w.note(client.Failed, "http_422", target.Reply{Status: 422})
		ops := []judge.Op{{Outcome: judge.OK, Call: sold}, {Outcome: judge.Unknown, Code: "http_422", Return: 5}}
		said := w.strange(ops, "en")
		if strings.Contains(said[0], "give --refused 422") != want {
			t.Errorf("sold at %d: %q, want the option named: %t", sold, said, want)
		}
	}
}

// A list that has as many orders as a page may be a part of all; those that were cancelled are not on it.
func TestListed(t *testing.T) {
	t.Parallel()
	for rows, want := range map[int]int{9: 0, 10: 1} {
		in := judge.Input{Ledger: &api.Ledger{}, Cancels: []judge.ReservationOp{
			{Kind: judge.Cancel, Outcome: judge.OK, OrderID: "3"}}}
		for i := range int64(rows + 2) { // 3 was cancelled, and 5 is missing
			o := api.Order{OrderID: fmt.Sprint(i)}
			in.History = append(in.History, judge.Op{Outcome: judge.OK, OrderID: o.OrderID, Call: i, Return: i + 1})
			if i != 3 && i != 5 {
				in.Ledger.Orders = append(in.Ledger.Orders, o)
			}
		}
		_, n := listed(in)
		testkit.Is(t, n, want, "orders that a list of %d may lack", rows)
	}
}

// Units that come back some time after a cancel excuse no refusal before the first cancel.
func TestRefusedBeforeACancel(t *testing.T) {
	t.Parallel()
	op := func(outcome judge.Outcome, order string, call int64) judge.Op {
		return judge.Op{Outcome: outcome, OrderID: order, ProductID: 1, Quantity: 1, Call: call, Return: call + 9}
	}
	for at, want := range map[int64]judge.Verdict{10: judge.Broken, 40: judge.Inconclusive} {
		l := shelfOf(1, 2, 0)
		for _, id := range []string{"b", "c"} {
			l.Orders = append(l.Orders, api.Order{OrderID: id, ProductID: 1, Quantity: 1, Store: target.ForeignStore})
		}
		in := judge.Input{Store: target.ForeignStore, Ledger: l, Cancels: []judge.ReservationOp{{Kind: judge.Cancel,
			OrderID: "a", Outcome: judge.OK, Quantity: 1, Call: 20, Return: 30}}, History: []judge.Op{op(judge.OK, "a", 0),
			op(judge.Refused, "", at), op(judge.OK, "b", 50), op(judge.OK, "c", 55)}}
		f := theirs(t, "http://127.0.0.1:1", nil)
		r := excuse(judgeRows(in), readings(f.Remote, in, bookkeeping{ledger: l}, newWitness()), judgeRows)
		testkit.Is(t, r.Verdict, want, "a refusal at %d: %q", at, r.Violations)
	}
}

// Two requests about one order race if they overlap and both are decided.
func TestRaced(t *testing.T) {
	t.Parallel()
	first := judge.ReservationOp{Kind: judge.Cancel, OrderID: "a", Outcome: judge.OK, Call: 0, Return: 10}
	for _, tt := range []struct {
		second judge.ReservationOp
		twice  bool // cancelled twice at once
		ships  bool // shipped while it was cancelled
	}{
		{judge.ReservationOp{Kind: judge.Cancel, OrderID: "a", Outcome: judge.Refused, Call: 9, Return: 12}, true, false},
		{judge.ReservationOp{Kind: judge.Ship, OrderID: "a", Outcome: judge.OK, Call: 9, Return: 12}, false, true},
		{judge.ReservationOp{Kind: judge.Cancel, OrderID: "a", Outcome: judge.Refused, Call: 11, Return: 12}, false, false},
		{judge.ReservationOp{Kind: judge.Cancel, OrderID: "a", Outcome: judge.Unknown, Call: 9, Return: 12}, false, false},
		{judge.ReservationOp{Kind: judge.Cancel, OrderID: "b", Outcome: judge.OK, Call: 9, Return: 12}, false, false},
	} {
		ops := []judge.ReservationOp{tt.second, first}
		if twice, ships := raced(ops, judge.Cancel), raced(ops, judge.Ship); twice != tt.twice || ships != tt.ships {
			t.Errorf("with %+v: cancelled twice %t, shipped %t, want %t, %t", tt.second, twice, ships, tt.twice, tt.ships)
		}
	}
}

// The judge speaks the language of the user about a foreign service too.
func TestForeignInChinese(t *testing.T) {
	t.Parallel()
	han := regexp.MustCompile(`\p{Han}`)
	history := []judge.Op{{Outcome: judge.OK, ProductID: 1, Quantity: 1},
		{Outcome: judge.Unknown, ProductID: 1, Quantity: 1}}
	f := theirs(t, "http://127.0.0.1:1", nil)
	f.Lang = "zh"
	for name, after := range map[string]bookkeeping{
		"oversold": {ledger: shelfOf(1, 5, 5)}, "undecided": {ledger: shelfOf(1, 5, 3)}, "unread": {},
		"unreadable": {err: target.ErrUnauthorized},
	} {
		res := Result{Mode: "foreign", Plan: plan.Plan{Product: 1, Products: 1}, History: history}
		judgeAll(&res, f.newService(map[int64]int64{1: 5}, newWitness()), map[int64]bookkeeping{1: after})
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
	var stock, asked atomic.Int64
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			fmt.Fprint(w, stock.Load())
		case r.URL.Path == "/set":
			stock.Store(60)
		case r.URL.Path == "/buy" && asked.Add(1) == 1:
			stock.Add(-1)
			w.WriteHeader(http.StatusCreated)
		case r.URL.Path != "/no-op":
			http.Error(w, "Access denied for user", http.StatusInternalServerError)
		}
	})
	long := plan.Plan{VUs: 2, Requests: 100_000, Product: 7, Stock: 60}
	for _, tt := range []struct {
		name, reset, want string
		sent              int64 // at most
	}{
		{"cannot be reset", "POST /nowhere", "cannot be reset", 0},
		{"the reset does nothing", "POST /no-op", "left a stock of 0, want 60", 0},
		{"fails for ever", "POST /set", "the first: http_500 Access denied for user", 2 * hopeless},
	} {
		f := theirs(t, u.String(), func(d *target.Foreign) { d.ResetURL = []string{tt.reset} })
		asked.Store(0)
		if _, err := RunForeign(t.Context(), f, long, nil); err == nil || !strings.Contains(err.Error(), tt.want) ||
			asked.Load() > tt.sent {
			t.Errorf("%s: %v after %d requests, want %q after at most %d", tt.name, err, asked.Load(), tt.want, tt.sent)
		}
	}
}
