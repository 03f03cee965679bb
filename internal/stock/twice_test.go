package stock_test

import (
	"testing"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
)

// exactTwice has every request sent twice with its key, by clients of several replicas, and wants each charged once.
func exactTwice(t *testing.T, h *stocktest.Harness, mode string, s stock.Store) {
	t.Helper()
	p := stocktest.Plan{Mode: mode, Store: s, Replicas: 3, Stock: 30, Quantity: 1, Clients: 9, Requests: 45, Twice: true}
	r := h.Load(t, p)
	for i := 1; i < stocktest.Rounds && r.Verdict == audit.Vacuous; i++ {
		r = h.Load(t, p)
	}
	if finding, why := audit.Check(r, api.Exact); finding != audit.Confirmed {
		t.Errorf("every request twice: %s, want confirmed:\n\t%s\n%s", finding, stocktest.Lines(why), r.Text("en"))
	}
}
