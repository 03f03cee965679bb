package loadtest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/loadtest/client"
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
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	var connected atomic.Int64
	d.workers[0].engine = slowConnect{d.workers[0].engine, &connected}
	var res Result
	if err := d.load(t.Context(), &res, Progress{}, nil); err != nil {
		t.Fatal(err)
	}
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

// A read that the deadline cuts off does not replace the one before it, and the result tells whether it is of a time at which no unanswered
// request can change it.
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
				ctx, cancel := context.WithTimeout(t.Context(), tt.within)
				defer cancel()
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
		last          audit.Outcome // of the last request
		want          audit.Verdict
	}{
		"exact so far":                   {9, 1, audit.OK, audit.Inconclusive},
		"under way":                      {8, 1, audit.OK, audit.Inconclusive},
		"an update lost":                 {9, 2, audit.OK, audit.Broken},
		"under way, and a wrong refusal": {7, 2, audit.Declined, audit.Broken},
	} {
		ledger := &api.Ledger{
			ProductID: 1, Initial: map[api.Store]int64{api.Redis: 10}, Stock: map[api.Store]int64{api.Redis: tt.stock}, Keys: []api.KeyRow{},
		}
		var history []audit.Op
		for n := range tt.orders {
			id := strconv.FormatInt(n, 10)
			ledger.Orders = append(ledger.Orders, api.Order{OrderID: id, ProductID: 1, Quantity: 1, Store: api.Redis, Key: id})
			op := audit.Op{Client: int(n), ProductID: 1, Quantity: 1, Outcome: audit.OK, OrderID: id, Key: id, Return: 1}
			if n == tt.orders-1 && tt.last != audit.OK {
				op.Outcome, op.OrderID = tt.last, ""
			}
			history = append(history, op)
		}
		res := Result{Store: api.Redis, Plan: Plan{Product: 1, Stock: 10, Products: 1}, History: history}
		judge(&res, judging{mode: shopMode("m", api.Exact), books: map[int64]bookkeeping{1: {ledger: ledger, early: true}}, lang: "en"})
		v := res.Verdicts[0]
		if v.Verdict != tt.want || !strings.Contains(strings.Join(v.Missing, " "), "the time ran out") {
			t.Errorf("%s: %s (%q, found %q), want %s, since the time ran out", name, v.Verdict, v.Missing, v.Found, tt.want)
		}
	}
}

// Products are settled at the same time: one after the other, those of a run over many products would not be read in time.
func TestManyProductsSettleAtOnce(t *testing.T) {
	t.Parallel()
	shop := &fakeShop{replicas: 1}
	c := shop.open(t)
	const products = 3 * settleAtOnce
	res := Result{Started: time.Now().Add(-time.Hour), Plan: Plan{Product: 1}}
	for product := range int64(products) {
		if err := c.SetStock(t.Context(), product+1, 5, 0); err != nil {
			t.Fatal(err)
		}
		res.History = append(res.History, audit.Op{ProductID: product + 1, Quantity: 1, Outcome: audit.Unknown})
	}
	ctx, cancel := context.WithTimeout(t.Context(), products*settleReads*settleEvery/2)
	defer cancel()
	for product, b := range settleAll(ctx, c, &res) {
		if b.err != nil || b.ledger.Stock[api.Redis] != 5 {
			t.Errorf("product %d: %+v, %v, want its ledger", product, b.ledger, b.err)
		}
	}
}

// The verdict of a run that sent nothing says so, and not that the stock could not be read.
func TestNothingSent(t *testing.T) {
	t.Parallel()
	shop := &fakeShop{replicas: 1}
	c := shop.open(t)
	if err := c.SetStock(t.Context(), 1, 5, 0); err != nil {
		t.Fatal(err)
	}
	ours := Result{Store: api.Redis, Started: time.Now(), Plan: Plan{Product: 1, Products: 1, Stock: 5}}
	judge(&ours, judging{mode: shopMode("m", api.Exact), books: settleAll(t.Context(), c, &ours), lang: "en"})
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, 5) })
	shelf := newShelf(Foreign{StockURL: "/stock"}, u)
	defer shelf.close()
	foreign := Result{Mode: "foreign", Started: time.Now(), Plan: ours.Plan}
	judgeForeign(&foreign, map[int64]level{1: {stock: 5, read: true}}, shelf.settleAll(t.Context(), &foreign), "en")
	for _, res := range []Result{ours, foreign} {
		v := res.Verdicts[0]
		if v.Verdict != audit.Inconclusive || v.Final != 5 || !slices.Equal(v.Missing, []string{"the history holds no request for this product", "nothing was sold"}) {
			t.Errorf("%s: %s (%q), %d left, want that nothing was asked, and the stock", res.Mode, v.Verdict, v.Missing, v.Final)
		}
	}
}
