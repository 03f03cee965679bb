package stock_test

import (
	"fmt"
	"sync"
	"testing"

	"lastitem/internal/audit"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
)

// The guarded modes may share a product: each sees the writes of the other.
func TestGuardedModesMix(t *testing.T) {
	t.Parallel()
	for _, e := range stocktest.Envs {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			h := stocktest.Open(t, e.Open(t), 3, stock.Modes())
			const units, clients, each = 60, 9, 10
			product := h.Product(t, units, 0)
			var wg sync.WaitGroup
			for c := range clients {
				mode := []string{"lease-seq", "idempotent", "sql-atomic", "sql-version"}[c%4]
				wg.Go(func() {
					for i := range each {
						_, _ = h.Replicas[c%3].Deduct(t.Context(), mode, stock.SQL, product, 1, fmt.Sprintf("%d-%d", c, i))
					}
				})
			}
			wg.Wait()
			r := audit.Judge(audit.Input{Store: "sql", Ledger: h.Ledger(t, product)})
			if r.Verdict != audit.Exact {
				t.Errorf("several guarded modes on one product: %s\n%s", r.Verdict, r.Text("en"))
			}
		})
	}
}

// A key belongs to the store that keeps it. All modes on SQL share their keys; redis-lua has its own, so it may sell once more under the
// same key.
func TestKeysOfTheStoresAreApart(t *testing.T) {
	t.Parallel()
	h := stocktest.Open(t, stocktest.Embedded(t), 1, stock.Modes())
	product := h.Product(t, 5, 0)
	for _, c := range []struct {
		mode  string
		store stock.Store
		want  error
	}{
		{"redis-lua", stock.Redis, nil}, {"queue", stock.SQL, nil}, {"idempotent", stock.SQL, stock.ErrKeyReused},
	} {
		h.Replicas[0].Refuse(t, c.want, c.mode, c.store, product, 1, "k")
	}
	for _, s := range []stock.Store{stock.Redis, stock.SQL} {
		if got := h.Books(t, product, s); got.Stock != 4 || got.Sold != 1 {
			t.Errorf("%s: books = %+v, want one unit sold", s, got)
		}
	}
}
