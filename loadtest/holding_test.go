package loadtest

import (
	"strings"
	"testing"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/testkit"
	"lastitem/internal/testkit/fakeshop"
)

// reserving is a mode that reserves, and the named plan, shorter.
func reserving() (api.Mode, Plan) {
	plans, _ := Named("reserve")
	p := plans[0]
	p.VUs, p.Requests, p.Stock, p.Warmup = 20, 500, 60, 10*time.Millisecond
	m := shopMode("reserve-sql", api.Exact)
	m.Reserves = true
	return m, p
}

// A shop that does everything right is exact, however far its store's clock is off; each flaw shows by its letter.
func TestRunJudgesReservations(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		shop  *fakeshop.Shop
		found string
	}{
		"right":            {&fakeshop.Shop{}, ""},
		"clock behind":     {&fakeshop.Shop{Clock: -3 * time.Second}, ""},
		"clock ahead":      {&fakeshop.Shop{Clock: 3 * time.Second}, ""},
		"releases twice":   {&fakeshop.Shop{Flaw: fakeshop.ReleasesTwice}, "O"},
		"loses a release":  {&fakeshop.Shop{Flaw: fakeshop.LosesRelease}, "L"},
		"refunds an order": {&fakeshop.Shop{Flaw: fakeshop.RefundsOrder}, "D"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.shop.Replicas = 2
			mode, plan := reserving()
			res, err := Run(t.Context(), open(t, tt.shop), mode, plan, nil)
			testkit.Must(t, err)
			v, h := res.Verdicts[0], res.Holds
			exact := v.Verdict == audit.Exact && res.Finding == audit.Confirmed
			if !strings.Contains(v.Found, tt.found) || tt.found == "" && !exact {
				t.Errorf("verdict %s, found %q, violations %q, missing %q, want %q", v.Verdict, v.Found, v.Violations, v.Missing,
					tt.found)
			}
			if tt.found != "" {
				return
			}
			if h.Buyers != 500 || int64(h.Sold) != res.Latency["accepted"].Count || h.Sold != v.Orders || h.Refused == 0 ||
				h.Cancelled == 0 || h.Expired == 0 || h.Refunded == 0 || h.Doubled == 0 || h.SalesPerSecond == 0 {
				t.Errorf("figures %+v, %d orders, want some of each", *h, v.Orders)
			}
			if v.Sold+v.Final != 60 {
				t.Errorf("sold %d and %d left, want 60 in all", v.Sold, v.Final)
			}
		})
	}
}
