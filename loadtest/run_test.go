package loadtest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/plan"
	"lastitem/testkit"
	"lastitem/testkit/fakeshop"
)

func TestRunConfirmsAnExactMode(t *testing.T) {
	t.Parallel()
	shop := &fakeshop.Shop{Replicas: 3, Together: true}
	c := open(t, shop)
	plan := plan.Plan{VUs: 8, Requests: 90, Stock: 60, Warmup: 20 * time.Millisecond, Wait: time.Second}
	var phases []Phase
	res, err := Run(t.Context(), c, shopMode("good", api.Exact), plan, func(p Progress) {
		if !slices.Contains(phases, p.Phase) {
			phases = append(phases, p.Phase)
		}
	})
	testkit.Must(t, err)
	if res.Finding != judge.Confirmed || len(res.Verdicts) != 1 || res.Verdicts[0].Verdict != judge.Exact {
		t.Errorf("finding %s (%q), verdicts %+v, want confirmed, exact", res.Finding, res.Why, res.Verdicts)
	}
	testkit.Same(t, res.Codes, map[string]int{"ok": 60, "sold_out": 30}, "codes")
	if len(res.Served) != 3 || res.Replicas != 3 || res.Store != api.Redis || res.Claim != api.Exact ||
		res.Plan.Timeout == 0 {
		t.Errorf("served %v, replicas %d, store %s, claim %q, want 3, 3, redis, exact", res.Served, res.Replicas, res.Store,
			res.Claim)
	}
	testkit.Same(t, phases, []Phase{Resetting, Warming, Driving, Settling, Judging}, "phases")
	testkit.Same(t, shop.Puts(), []string{"101: 60 in 0", "900000001: 1000000000 in 0", "900000001: 1000000000 in 0"},
		"stock set")
	if n := len(shop.Orders(warmProduct)); n != 0 {
		t.Errorf("%d orders of the warm-up are left, want 0", n)
	}
}

func TestRunFindsOneOfSeveralReplicasVacuous(t *testing.T) {
	t.Parallel()
	c := open(t, &fakeshop.Shop{Replicas: 1})
	c.Replicas = 3
	res, err := Run(t.Context(), c, shopMode("good", api.Exact), plan.Plan{VUs: 4, Requests: 30, Stock: 20}, nil)
	testkit.Must(t, err)
	if res.Finding != judge.Undecided || res.Verdicts[0].Verdict != judge.Vacuous {
		t.Errorf("finding %s, verdict %s, want inconclusive, vacuous", res.Finding, res.Verdicts[0].Verdict)
	}
}

// Requests whose answers are lost are unknown, and the ledger shows their outcomes.
func TestRunResolvesLostAnswers(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	shop := &fakeshop.Shop{Replicas: 1, Together: true}
	shop.Fail = func(_ http.ResponseWriter, _ *http.Request) bool {
		if n.Add(1)%10 != 0 {
			return false
		}
		shop.Sell(&api.Deduction{Mode: "good", ProductID: 101, Quantity: 1})
		panic(http.ErrAbortHandler)
	}
	c := open(t, shop)
	res, err := Run(t.Context(), c, shopMode("good", api.Exact), plan.Plan{VUs: 4, Requests: 150, Stock: 100}, nil)
	testkit.Must(t, err)
	if res.Finding != judge.Confirmed || res.Codes["eof"]+res.Codes["reset"] != 15 {
		t.Errorf("finding %s (%q), codes %v, want confirmed with 15 lost answers", res.Finding, res.Why, res.Codes)
	}
}

func TestRunJudgesAnInterruptedRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var n atomic.Int64
	shop := &fakeshop.Shop{Replicas: 1, Fail: func(http.ResponseWriter, *http.Request) bool {
		if n.Add(1) == 50 {
			cancel()
		}
		return false
	}}
	c := open(t, shop)
	res, err := Run(ctx, c, shopMode("good", api.Exact), plan.Plan{VUs: 4, Requests: 1_000_000, Stock: 1000}, nil)
	testkit.Must(t, err)
	if !res.Partial || res.Sent < 50 || res.Sent > 100_000 || len(res.Verdicts) != 1 || res.Verdicts[0].Found != "" {
		t.Errorf("partial %v, sent %d, verdicts %+v, want a partial run, judged", res.Partial, res.Sent, res.Verdicts)
	}
	if _, err := Run(ctx, c, shopMode("good", api.Exact), plan.Plan{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Run() with an ended context = %v, want context.Canceled", err)
	}
}

func TestRunLeavesABaselineUnjudged(t *testing.T) {
	t.Parallel()
	c := open(t, &fakeshop.Shop{Replicas: 1})
	res, err := Run(t.Context(), c, api.Mode{Name: "noop", Baseline: true}, plan.Plan{VUs: 2, Requests: 20}, nil)
	testkit.Must(t, err)
	if res.Finding != judge.Unclaimed || res.Verdicts != nil || res.History != nil || res.Sent != 20 {
		t.Errorf("finding %s, %d verdicts, history of %d, sent %d, want unclaimed, none, none, 20", res.Finding,
			len(res.Verdicts), len(res.History), res.Sent)
	}
}

func TestRunSellsSeveralProducts(t *testing.T) {
	t.Parallel()
	shop := &fakeshop.Shop{Replicas: 1}
	c := open(t, shop)
	mode := shopMode("segmented", api.Exact)
	mode.Segments = 4
	p := plan.Plan{VUs: 4, Requests: 400, Stock: 100, Product: 7, Products: 3, Zipf: 1.1}
	res, err := Run(t.Context(), c, mode, p, nil)
	testkit.Must(t, err)
	if len(res.Verdicts) != 3 || res.Finding != judge.Confirmed {
		t.Errorf("%d verdicts, finding %s (%q), want 3, confirmed", len(res.Verdicts), res.Finding, res.Why)
	}
	testkit.Same(t, shop.Puts(), []string{"7: 100 in 4", "8: 100 in 4", "9: 100 in 4"}, "stock set")
}

func TestRunRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	c := open(t, &fakeshop.Shop{})
	keyed := shopMode("idempotent", api.Exact)
	keyed.Claims[api.Redis][api.Retry] = api.Exact
	tests := []struct {
		name string
		mode api.Mode
		plan plan.Plan
		want string // "" = fits
	}{
		{"plan", shopMode("x", "."), plan.Plan{Loops: 1, Requests: 1}, "--loops and --requests exclude each other"},
		{"segments", shopMode("x", "."), plan.Plan{Segments: 5}, "mode x knows no segments"},
		{"store", shopMode("x", "."), plan.Plan{Store: api.SQL}, "mode x does not keep its stock in sql"},
		{"adjust", shopMode("x", "."), plan.Plan{Adjust: 0.1}, "mode x claims nothing for a stock that is adjusted"},
		{"retry", shopMode("x", "."), plan.Plan{Retry: 1}, "mode x keeps no idempotency keys"},
		{"retry on purpose", shopMode("x", "."), plan.Plan{Retry: 1, RetryUnsafe: true, Requests: 1}, ""},
		{"retry with keys", keyed, plan.Plan{Retry: 1, Requests: 1}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Run(t.Context(), c, tt.mode, tt.plan, nil)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Run() = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestClaimOf(t *testing.T) {
	t.Parallel()
	mode := shopMode("mutex", api.Exact)
	mode.Claims[api.Redis][api.Replicas] = "O"
	served := func(names ...string) Result {
		r := Result{Store: api.Redis, Served: map[string]int{}}
		for _, name := range names {
			r.Served[name] = 1
		}
		return r
	}
	double := served("r1")
	double.Plan.RetryUnsafe, double.Verdicts = true, []judge.Report{{Found: "D"}}
	doubleBroken := double
	doubleBroken.Served = map[string]int{"r1": 1, "r2": 1}
	asked := double
	asked.Verdicts = []judge.Report{{Found: ""}}
	tests := []struct {
		name     string
		res      Result
		replicas int
		want     api.Outcomes
	}{
		{"one", served("r1"), 1, "."},
		{"three", served("r1", "r2"), 3, "O"},
		{"three, one answered", served("r1"), 3, "O"},
		{"not known, one answered", served("r1"), 0, "."},
		{"not known, two answered", served("r1", "r2"), 0, "O"},
		{"double charge on purpose", double, 0, "D"},
		{"double charge beside", doubleBroken, 0, "O D"},
		{"no double charge came of it", asked, 0, "."},
	}
	for _, tt := range tests {
		testkit.Is(t, claimOf(&tt.res, service{mode: mode, replicas: tt.replicas}), tt.want, "%s: claimOf()", tt.name)
	}
}

func TestHold(t *testing.T) {
	t.Parallel()
	exact := judge.Report{Verdict: judge.Exact}
	broken := judge.Report{Verdict: judge.Broken, Found: "O", Oversold: 1}
	vacuous := judge.Report{Verdict: judge.Vacuous, Missing: []string{"nothing was sold"}}
	blind := judge.Report{Verdict: judge.Inconclusive, Missing: []string{"no ledger"}}
	tests := []struct {
		name    string
		reports []judge.Report
		claim   api.Outcomes
		want    judge.Finding
	}{
		{"exact", []judge.Report{exact, exact}, ".", judge.Confirmed},
		{"one broke", []judge.Report{exact, broken}, ".", judge.Contradicted},
		{"one was hardly asked for", []judge.Report{exact, vacuous}, ".", judge.Confirmed},
		{"none was", []judge.Report{vacuous, vacuous}, ".", judge.Undecided},
		{"one cannot be read", []judge.Report{exact, blind}, ".", judge.Undecided},
		{"breaks as it says, on one", []judge.Report{broken, exact, vacuous}, "O", judge.Confirmed},
		{"does not break", []judge.Report{exact, exact}, "O", judge.Contradicted},
		{"does not break, and one was hardly asked for", []judge.Report{exact, vacuous}, "O", judge.Contradicted},
		{"may have broken the one that cannot be read", []judge.Report{exact, blind}, "O", judge.Undecided},
		{"breaks, and one cannot be read", []judge.Report{broken, blind}, "O", judge.Undecided},
		{"breaks otherwise", []judge.Report{broken}, "L", judge.Contradicted},
		{"breaks otherwise, and one cannot be read", []judge.Report{broken, blind, exact}, "L", judge.Contradicted},
		{"claims nothing", []judge.Report{exact}, "", judge.Unclaimed},
	}
	for _, tt := range tests {
		if got, why := hold(tt.reports, tt.claim); got != tt.want {
			t.Errorf("%s: hold() = %s (%q), want %s", tt.name, got, why, tt.want)
		}
	}
}

func TestJudgeSaysWhyTheLedgerIsMissing(t *testing.T) {
	t.Parallel()
	res := Result{Mode: "x", Store: api.Redis, Plan: plan.Plan{Product: 101},
		History: []judge.Op{{ProductID: 101, Quantity: 1, Outcome: judge.OK}}}
	judgeAll(&res, ourService(nil), map[int64]bookkeeping{101: {err: errors.New("no route to the shop")}})
	if got := res.Verdicts[0]; got.Verdict != judge.Inconclusive ||
		!slices.Contains(got.Missing, "no route to the shop") || res.Finding != judge.Undecided {
		t.Errorf("verdict %s, missing %q, finding %s, want inconclusive with the reason", got.Verdict, got.Missing,
			res.Finding)
	}
}
