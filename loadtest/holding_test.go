package loadtest

import (
	"testing"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/plan"
	"lastitem/testkit"
	"lastitem/testkit/fakeshop"
)

// reserving is a mode that reserves, and the named plan.
func reserving() (api.Mode, plan.Plan) {
	plans, _ := plan.Named("reserve")
	m := shopMode("reserve-sql", api.Exact)
	m.Reserves = true
	return m, plans[0]
}

// The plan limit shows a shop that never looks at the buyer, and no other plan does. It is for such modes alone.
func TestRunJudgesALimit(t *testing.T) {
	t.Parallel()
	plans, _ := plan.Named("limit")
	p, mode := plans[0], shopMode("buyer-check", "B")
	p.Stock, p.Requests, p.Warmup, mode.PerBuyer = 60, 90, 0, true
	c := open(t, &fakeshop.Shop{Replicas: 2})
	res, err := Run(t.Context(), c, mode, p, nil)
	testkit.Must(t, err)
	if res.Verdicts[0].Found != "B" || res.Finding != judge.Confirmed || res.Plan.Reserving.Buyers != 120 {
		t.Errorf("%s %+v of %d buyers, want B of 120", res.Finding, res.Verdicts[0], res.Plan.Reserving.Buyers)
	}
	if _, err := Run(t.Context(), c, mode, plan.Plan{}, nil); err == nil {
		t.Error("a plan without a limit fits a mode that breaks one")
	}
	if m := shopMode("unsafe", "O"); p.Suits(m) || !p.Suits(mode) || !(plan.Plan{}).Suits(m) || (plan.Plan{}).Suits(mode) {
		t.Error("the plan limit is for the modes that break a limit, and no other plan is")
	}
	if _, err := Run(t.Context(), c, shopMode("unsafe", "O"), p, nil); err == nil {
		t.Error("a plan with a limit fits a mode that knows none")
	}
}

// A letter beyond the claim of the run's rung is within the claim only if deadlines or double clicks are claimed to
// show it.
func TestClaimOfReservations(t *testing.T) {
	t.Parallel()
	mode, plan := reserving()
	row := mode.Claims[api.Redis]
	row[api.Retry], row[api.Expiry] = "O", "L"
	for _, tt := range []struct {
		found  string
		clicks float64
		want   api.Outcomes
	}{
		{"", 0.1, api.Exact}, {"O", 0.1, "O"}, {"O", 0, api.Exact}, {"OL", 0.1, "O L"}, {"D", 0.1, api.Exact},
	} {
		plan.Reserving.DoubleClicks = tt.clicks
		res := &Result{Store: api.Redis, Plan: plan, Verdicts: []judge.Report{{Found: tt.found}}}
		if got := claimOf(res, service{mode: mode, replicas: 3}); got != tt.want {
			t.Errorf("found %q, double clicks %v: claim %q, want %q", tt.found, tt.clicks, got, tt.want)
		}
	}
}
