package shop_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
)

// A replica that is told to reconciles by itself, and its metric says what is left.
func TestReplicaReconciles(t *testing.T) {
	t.Parallel()
	env := stocktest.Envs[0].Open(t)
	env.Idle = 1
	h := stocktest.Open(t, env, 1, stock.Modes())
	r, product := h.Replicas[0], h.Product(t, 9, 0)
	r.Sell(t, "redis-stream", stock.SQL, product, 1, "")
	front := fmt.Sprintf("%sstock:{%d}", env.Prefix, product)
	testkit.Must(t, r.Set.Client.Set(t.Context(), front, "limited:0:5", 0).Err())
	for _, repair := range []bool{false, true} {
		want := map[bool]float64{false: 3, true: 0}[repair]
		drift := math.NaN
		s, err := shop.New(r.Backends, shop.Options{
			Tickets: shop.TicketOptions{Off: true, Reconcile: time.Millisecond, Apart: time.Millisecond, Repair: repair},
			Gauge: func(name, _ string, _ map[string]string, read func() float64) {
				if name == "shop_stock_drift_units" {
					drift = read
				}
			},
		}, nil)
		testkit.Must(t, err)
		testkit.Until(t, fmt.Sprint("the metric says ", want), func() bool { return drift() == want })
		testkit.Must(t, s.Close(t.Context()))
	}
}
