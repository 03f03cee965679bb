package loadtest

import (
	"context"
	"sync/atomic"
	"testing"
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
