package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/testkit"
	"lastitem/testkit/fakeshop"
)

// slowConnect is an engine that takes its time to connect, and notes when it has.
type slowConnect struct {
	client.Engine
	connected *atomic.Int64
}

func (e slowConnect) Connect() error {
	time.Sleep(20 * time.Millisecond)
	e.connected.Store(time.Now().UnixNano())
	return e.Engine.Connect()
}

// A run starts when the connections of its burst are open: settling adds the times of the history to it.
func TestRunStartsAfterConnecting(t *testing.T) {
	t.Parallel()
	plan := Plan{VUs: 1, Requests: 1, Burst: true}.WithDefaults()
	d, err := newDriver(plan, client.Target{URL: serve(t, answerOK)}, shopScript(plan, testMode), true)
	testkit.Must(t, err)
	defer d.close()
	var connected atomic.Int64
	d.workers[0].engine = slowConnect{d.workers[0].engine, &connected}
	var res Result
	testkit.Must(t, d.load(t.Context(), &res, Progress{}, nil))
	if at := time.Unix(0, connected.Load()); res.Started.Before(at) {
		t.Errorf("Started = %v, want it after the connection was opened at %v", res.Started, at)
	}
}

// reading returns a read that takes d, and that returns how many reads there have been.
func reading(d time.Duration) func(context.Context) (int, error) {
	n := 0
	return func(ctx context.Context) (int, error) {
		n++
		if !rest(ctx, d) {
			return 0, context.Cause(ctx)
		}
		return n, nil
	}
}

// A read that the deadline cuts off does not replace the one before it, and the result tells whether it is of a time at
// which no unanswered request can change it.
func TestSettleKeepsWhatItHasRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		takes, within time.Duration
		quiet         time.Duration // from now; 0 = long ago
		want          int
		late          bool
	}{
		"the deadline cuts off the second read":       {4 * time.Second, 6 * time.Second, 0, 1, true},
		"the deadline comes before the quiet time":    {4 * time.Second, 6 * time.Second, 20 * time.Second, 1, false},
		"a read that began before the quiet time":     {5 * time.Second, time.Minute, 9 * time.Second, 3, true},
		"a read takes longer than the wait for quiet": {20 * time.Second, time.Minute, 9 * time.Second, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := testkit.Within(t, tt.within)
				quiet := time.Time{}
				if tt.quiet > 0 {
					quiet = time.Now().Add(tt.quiet)
				}
				got, late, err := settle(ctx, reading(tt.takes), func(a, b int) bool { return a == b }, quiet)
				if got != tt.want || late != tt.late || err != nil {
					t.Errorf("settle() = read %d, late %t, %v, want read %d, late %t", got, late, err, tt.want, tt.late)
				}
			})
		})
	}
}

// The time for judging grows with what there is to wait for and to read.
func TestTimeForJudging(t *testing.T) {
	t.Parallel()
	accepted := func(n int64) map[client.Kind]Latency { return map[client.Kind]Latency{client.Accepted: {Count: n}} }
	for name, tt := range map[string]struct {
		res   Result
		least time.Duration
	}{
		"a long wait":        {Result{Plan: Plan{Wait: 30 * time.Second}}, 30*time.Second + settleServer + settleAtLeast},
		"a million orders":   {Result{Latency: accepted(1_000_000)}, 5 * time.Minute},
		"a hundred products": {Result{Plan: Plan{Products: 100}}, 6 * settleAtMost},
	} {
		if got := afterwards(&tt.res); got < tt.least || got > 2*tt.least {
			t.Errorf("%s: afterwards() = %v, want %v to %v", name, got, tt.least, 2*tt.least)
		}
	}
}

// A ledger that was read too early proves nothing but what no later sale could mend.
func TestEarlyLedger(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stock, orders int64
		last          judge.Outcome // of the last request
		want          judge.Verdict
	}{
		"exact so far":                   {9, 1, judge.OK, judge.Inconclusive},
		"under way":                      {8, 1, judge.OK, judge.Inconclusive},
		"an update lost":                 {9, 2, judge.OK, judge.Broken},
		"under way, and a wrong refusal": {7, 2, judge.Declined, judge.Broken},
	} {
		ledger := &api.Ledger{
			ProductID: 1, Initial: map[api.Store]int64{api.Redis: 10}, Stock: map[api.Store]int64{api.Redis: tt.stock},
			Keys: []api.KeyRow{},
		}
		var history []judge.Op
		for n := range tt.orders {
			id := strconv.FormatInt(n, 10)
			ledger.Orders = append(ledger.Orders, api.Order{OrderID: id, ProductID: 1, Quantity: 1, Store: api.Redis, Key: id})
			op := judge.Op{Client: int(n), ProductID: 1, Quantity: 1, Outcome: judge.OK, OrderID: id, Key: id, Return: 1}
			if n == tt.orders-1 && tt.last != judge.OK {
				op.Outcome, op.OrderID = tt.last, ""
			}
			history = append(history, op)
		}
		res := Result{Store: api.Redis, Plan: Plan{Product: 1, Stock: 10, Products: 1}, History: history}
		judgeAll(&res, judging{mode: shopMode("m", api.Exact), books: map[int64]bookkeeping{1: {ledger: ledger, early: true}},
			lang: "en"})
		v := res.Verdicts[0]
		if v.Verdict != tt.want || !strings.Contains(strings.Join(v.Missing, " "), "the time ran out") {
			t.Errorf("%s: %s (%q, found %q), want %s, since the time ran out", name, v.Verdict, v.Missing, v.Found, tt.want)
		}
	}
}

// Products are settled at the same time: one after the other, those of a run over many products would not be read in
// time.
func TestManyProductsSettleAtOnce(t *testing.T) {
	t.Parallel()
	shop := &fakeshop.Shop{Replicas: 1}
	c := open(t, shop)
	const products = 3 * settleAtOnce
	res := Result{Started: time.Now().Add(-time.Hour), Plan: Plan{Product: 1}}
	for product := range int64(products) {
		testkit.Must(t, c.SetStock(t.Context(), product+1, 5, 0))
		res.History = append(res.History, judge.Op{ProductID: product + 1, Quantity: 1, Outcome: judge.Unknown})
	}
	ctx := testkit.Within(t, products*settleReads*settleEvery/2)
	for product, b := range settleAll(ctx, c, &res) {
		if b.err != nil || b.ledger.Stock[api.Redis] != 5 {
			t.Errorf("product %d: %+v, %v, want its ledger", product, b.ledger, b.err)
		}
	}
}

// The verdict of a run that sent nothing says so, and not that the stock could not be read.
func TestNothingSent(t *testing.T) {
	t.Parallel()
	shop := &fakeshop.Shop{Replicas: 1}
	c := open(t, shop)
	testkit.Must(t, c.SetStock(t.Context(), 1, 5, 0))
	ours := Result{Store: api.Redis, Started: time.Now(), Plan: Plan{Product: 1, Products: 1, Stock: 5}}
	judgeAll(&ours, judging{mode: shopMode("m", api.Exact), books: settleAll(t.Context(), c, &ours), lang: "en"})
	f := Foreign{Lang: "en", Ledger: func(_ context.Context, product, initial int64) (*api.Ledger, error) {
		return shelfOf(product, initial, 5), nil
	}}
	foreign := Result{Mode: "foreign", Started: time.Now(), Plan: ours.Plan}
	before := map[int64]level{1: levelOf(shelfOf(1, 5, 5), nil)}
	judgeForeign(&foreign, f, before, f.settleAll(t.Context(), &foreign, before))
	for _, res := range []Result{ours, foreign} {
		v := res.Verdicts[0]
		if v.Verdict != judge.Inconclusive || v.Final != 5 || !slices.Equal(v.Missing,
			[]string{"the history holds no request for this product", "nothing was sold"}) {
			t.Errorf("%s: %s (%q), %d left, want that nothing was asked, and the stock", res.Mode, v.Verdict, v.Missing, v.Final)
		}
	}
}

// ledgerOf returns the control of a service that answers the n-th question for a ledger by the n-th page.
func ledgerOf(t *testing.T, pages ...any) (*Control, *int) {
	t.Helper()
	asked := new(int)
	server := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := pages[min(*asked, len(pages)-1)]
		*asked++
		if code, is := page.(api.Code); is {
			fakeshop.Refuse(w, code, "")
			return
		}
		l := page.(api.Ledger)
		if first := l.Totals != nil; first != (r.URL.Query().Get("cursor") == "") {
			t.Errorf("question %d = %s", *asked, r.URL)
		}
		fakeshop.Send(w, l)
	}))
	c, err := NewControl(server.URL, "")
	testkit.Must(t, err)
	t.Cleanup(c.Close)
	return c, asked
}

// pageOf is a page of orders for one unit each, with these numbers; total above 0 makes it a first one.
func pageOf(total int64, next string, numbers ...int) api.Ledger {
	l := api.Ledger{ProductID: 1, NextCursor: next}
	if total > 0 {
		l.Stock, l.Totals = map[api.Store]int64{api.SQL: 7}, map[api.Store]api.Totals{api.SQL: {Orders: total, Units: total},
			api.Redis: {}}
	}
	for _, n := range numbers {
		l.Orders = append(l.Orders, api.Order{OrderID: fmt.Sprint(n), Quantity: 1, Store: api.SQL,
			CreatedAt: time.Unix(int64(n), 0)})
		l.Keys = append(l.Keys, api.KeyRow{Key: fmt.Sprint(n)})
	}
	return l
}

func TestLedgerReadsAllPages(t *testing.T) {
	t.Parallel()
	c, asked := ledgerOf(t, pageOf(5, "a b", 2, 1), pageOf(0, "c", 4, 3), api.RateLimited, pageOf(0, "", 5),
		pageOf(5, "z", 1))
	l, err := c.Ledger(t.Context(), 1)
	if err != nil || *asked != 5 || l.Moved || len(l.Orders) != 5 || len(l.Keys) != 5 || l.Stock[api.SQL] != 7 ||
		l.NextCursor != "" {
		t.Fatalf("Ledger() = %+v, %v after %d questions", l, err, *asked)
	}
	for i, o := range l.Orders {
		if o.OrderID != fmt.Sprint(i+1) {
			t.Errorf("order %d is %s, want them by time", i, o.OrderID)
		}
	}
}

// If the rows differ from the totals, the ledger is read again, and finally given up.
func TestLedgerOfTornPages(t *testing.T) {
	t.Parallel()
	c, asked := ledgerOf(t, pageOf(5, "a", 1, 2), pageOf(0, "", 3, 4, 5, 6), pageOf(5, "a", 1, 2), pageOf(0, "", 3, 4, 5),
		pageOf(5, "z", 1))
	if l, err := c.Ledger(t.Context(), 1); err != nil || len(l.Orders) != 5 || *asked != 5 {
		t.Errorf("Ledger() = %+v, %v after %d questions", l, err, *asked)
	}
	c, _ = ledgerOf(t, pageOf(3, "", 1, 2))
	if l, err := c.Ledger(t.Context(), 1); !errors.Is(err, errTorn) {
		t.Errorf("Ledger() = %+v, %v, want errTorn", l, err)
	}
	c, _ = ledgerOf(t, pageOf(3, "a", 1, 2), pageOf(0, "a", 3))
	if l, err := c.Ledger(t.Context(), 1); err == nil {
		t.Errorf("Ledger() of a cursor that leads to itself = %+v", l)
	}
}

// The keys of later pages are younger than the totals if the product is sold meanwhile; a ledger of one page is of one
// moment.
func TestLedgerSaysThatItMoved(t *testing.T) {
	t.Parallel()
	sold := pageOf(4, "z", 1)
	for name, c := range map[string]struct {
		pages []any
		want  bool
	}{
		"at rest": {[]any{pageOf(3, "a", 1, 2), pageOf(0, "", 3), pageOf(3, "z", 1)}, false},
		"sold":    {[]any{pageOf(3, "a", 1, 2), pageOf(0, "", 3), sold}, true},
		"a page":  {[]any{pageOf(3, "", 1, 2, 3), sold}, false},
	} {
		control, _ := ledgerOf(t, c.pages...)
		if l, err := control.Ledger(t.Context(), 1); err != nil || l.Moved != c.want {
			t.Errorf("%s: Ledger() = %+v, %v, want Moved %t", name, l, err, c.want)
		}
	}
}
