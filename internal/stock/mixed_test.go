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
	for _, e := range envs {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			h := stocktest.Open(t, e.open(t), 3, stock.Modes())
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
