package stock_test

import (
	"errors"
	"testing"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
)

// leaseLoad is work of 0.9 s under the lock, with or without a lease time of 0.3 s.
func leaseLoad(mode string, s stock.Store, lease time.Duration) stocktest.Plan {
	return stocktest.Plan{
		Mode: mode, Store: s, Replicas: 3, Stock: 4, Quantity: 1, Clients: 6, Requests: 9,
		Hold: stock.Hold{Lease: lease, Work: 900 * time.Millisecond},
	}
}

// A lease time switches the watchdog off: with work that takes longer, a mode that is otherwise exact oversells under load alone. A mode
// that checks ownership in its write stays exact.
func TestLeaseTimeOversells(t *testing.T) {
	t.Parallel()
	h := stocktest.Open(t, stocktest.Real(t), 3, stock.Modes())
	const short = 300 * time.Millisecond
	for _, c := range []struct {
		mode  string
		store stock.Store
		lease time.Duration
		claim api.Outcomes
	}{
		{"watchdog", stock.Redis, short, "O"},
		{"watchdog", stock.Redis, 0, api.Exact},
		{"handoff", stock.SQL, short, "O"},
		{"handoff", stock.SQL, 0, api.Exact},
	} {
		t.Run(c.mode+" "+c.lease.String(), func(t *testing.T) {
			t.Parallel()
			r := h.Load(t, leaseLoad(c.mode, c.store, c.lease))
			if finding, why := audit.Check(r, c.claim); finding != audit.Confirmed {
				t.Errorf("claim %q: %s, want confirmed:\n\t%s\n%s", c.claim, finding, stocktest.Lines(why), r.Text("en"))
			}
		})
	}
	t.Run("lease-seq", func(t *testing.T) {
		t.Parallel()
		plan := leaseLoad("lease-seq", stock.SQL, short)
		plan.Requests = 18 // some are refused as contended
		r := h.Load(t, plan)
		if r.Oversold+r.LostUpdates+r.Leaked != 0 {
			t.Errorf("lease-seq with a lease time shorter than its work:\n%s", r.Text("en"))
		}
	})
}

// The limits of a hold, the same for every mode.
func TestHoldLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hold  stock.Hold
		field string // "" = allowed
	}{
		{stock.Hold{}, ""},
		{stock.Hold{Lease: stock.MinLease, Depth: stock.MaxDepth, Work: stock.MaxWork}, ""},
		{stock.Hold{Lease: stock.MaxLease}, ""},
		{stock.Hold{Lease: stock.MinLease - 1}, "lease_ms"},
		{stock.Hold{Lease: stock.MaxLease + 1}, "lease_ms"},
		{stock.Hold{Lease: -1}, "lease_ms"},
		{stock.Hold{Depth: -1}, "depth"},
		{stock.Hold{Depth: stock.MaxDepth + 1}, "depth"},
		{stock.Hold{Work: -1}, "hold_ms"},
		{stock.Hold{Work: stock.MaxWork + 1}, "hold_ms"},
	} {
		req := stocktest.Request(1, 1, "")
		req.Hold = c.hold
		err := req.Check()
		var e *stock.InvalidError
		if errors.As(err, &e) != (c.field != "") || e != nil && e.Field != c.field {
			t.Errorf("Check() of %+v = %v, want %q refused", c.hold, err, c.field)
		}
	}
}
