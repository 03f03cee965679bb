package loadtest

import (
	"context"
	"testing"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/testkit"
	"lastitem/testkit/fakeshop"
)

// reserving is a mode that reserves, and the named plan.
func reserving() (api.Mode, Plan) {
	plans, _ := Named("reserve")
	m := shopMode("reserve-sql", api.Exact)
	m.Reserves = true
	return m, plans[0]
}

// The plan limit shows a shop that never looks at the buyer, and no other plan does. It is for such modes alone.
func TestRunJudgesALimit(t *testing.T) {
	t.Parallel()
	plans, _ := Named("limit")
	plan, mode := plans[0], shopMode("buyer-check", "B")
	plan.Stock, plan.Requests, plan.Warmup, mode.PerBuyer = 60, 90, 0, true
	c := open(t, &fakeshop.Shop{Replicas: 2})
	res, err := Run(t.Context(), c, mode, plan, nil)
	testkit.Must(t, err)
	if res.Verdicts[0].Found != "B" || res.Finding != judge.Confirmed || res.Plan.Holding.Buyers != 120 {
		t.Errorf("%s %+v of %d buyers, want B of 120", res.Finding, res.Verdicts[0], res.Plan.Holding.Buyers)
	}
	if _, err := Run(t.Context(), c, mode, Plan{}, nil); err == nil {
		t.Error("a plan without a limit fits a mode that breaks one")
	}
	if m := shopMode("unsafe", "O"); plan.Suits(m) || !plan.Suits(mode) || !(Plan{}).Suits(m) || (Plan{}).Suits(mode) {
		t.Error("the plan limit is for the modes that break a limit, and no other plan is")
	}
	if _, err := Run(t.Context(), c, shopMode("unsafe", "O"), plan, nil); err == nil {
		t.Error("a plan with a limit fits a mode that knows none")
	}
}

// What buyers do follows from the seed alone, and in the shares of the plan.
func TestVisits(t *testing.T) {
	t.Parallel()
	_, p := reserving()
	p.Seed = 7
	one, two, other := visits(p, 3), visits(p, 3), visits(p, 4)
	acts, twice, buyers, differ := map[act]int{}, 0, map[string]int{}, 0
	extras := map[string]int{}
	const n = 20_000
	for range n {
		v := one()
		if again := two(); v != again {
			t.Fatalf("the same seed gives %+v and %+v", v, again)
		}
		if v != other() {
			differ++
		}
		acts[v.act]++
		buyers[v.buyer]++
		if v.twice {
			twice++
		}
		for what, is := range map[string]bool{"extend": v.extends && v.act != leaves, "return": v.returns, "cart": v.cart,
			"restock": v.restock, "extend and leave": v.extends && v.act == leaves} {
			if is {
				extras[what]++
			}
		}
		if v.act != paysLate && (v.after < p.Holding.PayFrom || v.after > p.Holding.PayTo) ||
			v.act == paysLate && v.after < p.Holding.For {
			t.Fatalf("%+v: too early or too late", v)
		}
	}
	for what, got := range map[string][2]float64{
		"pay": {float64(acts[pays]), 0.7}, "pay late": {float64(acts[paysLate]), 0.1},
		"cancel": {float64(acts[cancels]), 0.1},
		"leave":  {float64(acts[leaves]), 0.1}, "click twice": {float64(twice), 0.05},
		"extend": {float64(extras["extend"]), 0.045}, "extend and leave": {float64(extras["extend and leave"]), 0.0525},
		"return": {float64(extras["return"]), 0.05}, "want two": {float64(extras["cart"]), 0.08},
		"restock": {float64(extras["restock"]), 0.5},
	} {
		if share := got[0] / n; share < got[1]-0.01 || share > got[1]+0.01 {
			t.Errorf("%.3f %s, want %.2f", share, what, got[1])
		}
	}
	if differ < n/2 || buyers["buyer-1"] < 10*buyers["buyer-100"] {
		t.Errorf("%d differ from another stream; %d of the first buyer, %d of the hundredth", differ, buyers["buyer-1"],
			buyers["buyer-100"])
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
		plan.Holding.DoubleClicks = tt.clicks
		res := &Result{Store: api.Redis, Plan: plan, Verdicts: []judge.Report{{Found: tt.found}}}
		if got := claimOf(res, service{mode: mode, replicas: 3}); got != tt.want {
			t.Errorf("found %q, double clicks %v: claim %q, want %q", tt.found, tt.clicks, got, tt.want)
		}
	}
}

// A mode that reserves runs under a plan that reserves, and no other.
func TestReservingModesFitReservingPlans(t *testing.T) {
	t.Parallel()
	mode, plan := reserving()
	other := shopMode("good", api.Exact)
	for _, tt := range []struct {
		mode api.Mode
		plan Plan
		want bool
	}{{mode, plan, true}, {mode, Plan{}, false}, {other, plan, false}, {other, Plan{}, true}} {
		if err := Fits(tt.mode, tt.plan); (err == nil) != tt.want {
			t.Errorf("%s, reserving %v: %v, want fit %v", tt.mode.Name, tt.plan.Holding.On(), err, tt.want)
		}
	}
	var ran []string
	run := func(_ context.Context, m api.Mode, p Plan, _ func(Progress)) (Result, error) {
		ran = append(ran, m.Name+" "+p.Name)
		return Result{}, nil
	}
	_, err := Compare(t.Context(), Comparing{Modes: []api.Mode{mode, other}, Plans: []Plan{{Name: "demo"}, plan},
		Fits: Fits, Run: run})
	testkit.Must(t, err)
	testkit.Same(t, ran, []string{"good demo", "reserve-sql reserve"}, "ran")
}
