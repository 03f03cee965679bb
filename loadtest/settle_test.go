package loadtest

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/loadtest/plan"
	"lastitem/target"
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
	plan := plan.Plan{VUs: 1, Requests: 1, Burst: true}.WithDefaults()
	d, err := newDriver(plan, client.Target{URL: serve(t, answerOK)}, new(Control).script(plan, testMode), true)
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

// The time for judging grows with what there is to wait for and to read.
func TestTimeForJudging(t *testing.T) {
	t.Parallel()
	accepted := func(n int64) map[client.Kind]Latency { return map[client.Kind]Latency{client.Accepted: {Count: n}} }
	for name, tt := range map[string]struct {
		res   Result
		least time.Duration
	}{
		"a long wait": {Result{Plan: plan.Plan{Wait: 30 * time.Second}},
			30*time.Second + settleServer + settleAtLeast},
		"a million orders":   {Result{Latency: accepted(1_000_000)}, 5 * time.Minute},
		"a hundred products": {Result{Plan: plan.Plan{Products: 100}}, 6 * target.SettleAtMost},
	} {
		if got := afterwards(service{}, &tt.res); got < tt.least || got > 2*tt.least {
			t.Errorf("%s: afterwards() = %v, want %v to %v", name, got, tt.least, 2*tt.least)
		}
	}
}

// ourService is an exact mode of a shop.
func ourService(c *Control) service {
	if c == nil {
		c = &Control{Shop: new(target.Shop)}
	}
	return c.newService(plan.Plan{Products: 1}, shopMode("m", api.Exact))
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
		res := Result{Store: api.Redis, Plan: plan.Plan{Product: 1, Stock: 10, Products: 1}, History: history}
		judgeAll(&res, ourService(nil), map[int64]bookkeeping{1: {ledger: ledger, early: true}})
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
	res := Result{Started: time.Now().Add(-time.Hour), Plan: plan.Plan{Product: 1}}
	for product := range int64(products) {
		testkit.Must(t, c.SetStock(t.Context(), product+1, api.SetStock{Stock: 5}))
		res.History = append(res.History, judge.Op{ProductID: product + 1, Quantity: 1, Outcome: judge.Unknown})
	}
	ctx := testkit.Within(t, products*300*time.Millisecond)
	for product, b := range settleAll(ctx, ourService(c), &res) {
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
	testkit.Must(t, c.SetStock(t.Context(), 1, api.SetStock{Stock: 5}))
	ours := Result{Store: api.Redis, Started: time.Now(), Plan: plan.Plan{Product: 1, Products: 1, Stock: 5}}
	judgeAll(&ours, ourService(c), settleAll(t.Context(), ourService(c), &ours))
	if v := ours.Verdicts[0]; v.Verdict != judge.Inconclusive || v.Final != 5 || !slices.Equal(v.Missing,
		[]string{"the history holds no request for this product", "nothing was sold"}) {
		t.Errorf("%s (%q), %d left, want that nothing was asked, and the stock", v.Verdict, v.Missing, v.Final)
	}
}
