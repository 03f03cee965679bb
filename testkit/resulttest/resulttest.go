// Package resulttest has example results of load runs, for the tests of what judges and shows them.
package resulttest

import (
	"fmt"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/compare"
	"lastitem/loadtest/plan"
)

// Noon is when every run here began.
var Noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Plan is what every run here did.
var Plan = plan.Plan{
	Name: "demo", VUs: 40, Requests: 750, Stock: 500, Product: 101, Products: 1, Quantity: 1,
	Wait: 3 * time.Second, Seed: 1, Engine: "raw", Repeat: 1,
}

// Latency returns a histogram around p50.
func Latency(count int64, p50 time.Duration) loadtest.Latency {
	return loadtest.Latency{
		Count: count, Min: p50 / 4, Mean: p50 * 5 / 4, P50: p50, P90: p50 * 2, P95: p50 * 3, P99: p50 * 5, P999: p50 * 8,
		Max: p50 * 10,
	}
}

// Exact is a run that sold 500 of 500.
func Exact(mode string, p50 time.Duration) loadtest.Result {
	return loadtest.Result{
		Mode: mode, Store: api.Redis, Repetition: 1, Engine: "raw", Plan: Plan, Started: Noon,
		Elapsed: 900 * time.Millisecond, ToLastAccepted: 800 * time.Millisecond, AcceptedPerSecond: 625,
		RequestsPerSecond: 833.3,
		Sent:              750, Codes: map[string]int{"ok": 500, "sold_out": 240, "lock_busy": 10},
		Served:  map[string]int{"1": 250, "2": 250, "3": 250},
		Latency: map[client.Kind]loadtest.Latency{client.Accepted: Latency(500, p50), client.Refused: Latency(250, p50/2)},
		Service: map[client.Kind]loadtest.Latency{client.Accepted: Latency(500, p50-p50/10),
			client.Refused: Latency(250, p50/3)},
		Series: []loadtest.Window{{For: time.Second, Accepted: 500, Refused: 250}},
		Verdicts: []judge.Report{{
			Mode: mode, Store: api.Redis, Verdict: judge.Exact, Initial: 500, Orders: 500, Sold: 500,
		}},
		Claim: api.Exact, Finding: judge.Confirmed,
	}
}

// Broken is a run that sold 713 of 500.
func Broken(mode string, claim api.Outcomes) loadtest.Result {
	r := Exact(mode, 700*time.Microsecond)
	order := func(unit, n int) api.Order {
		return api.Order{
			OrderID: fmt.Sprintf("01990a2b-4f%02d-7000-8000-0000000000%02d", unit, n), Replica: fmt.Sprint(n%3 + 1),
			CreatedAt: Noon.Add(time.Duration(unit*100+n) * time.Millisecond),
		}
	}
	for unit := 3; unit > 0; unit-- {
		e := judge.Evidence{Unit: int64(16 + unit)}
		for n := range 3 + unit {
			e.Orders = append(e.Orders, order(unit, n))
		}
		r.Verdicts[0].Evidence = append(r.Verdicts[0].Evidence, e)
	}
	v := &r.Verdicts[0]
	v.Verdict, v.Found, v.Final, v.Orders, v.Sold, v.Oversold, v.LostUpdates = judge.Broken, "O", 12, 713, 713, 213, 225
	r.Codes = map[string]int{"ok": 713, "sold_out": 30, "timeout": 4, "backend_unavailable": 3}
	r.Latency[client.Accepted] = Latency(713, 700*time.Microsecond)
	r.Latency[client.Failed] = Latency(4, 3*time.Second)
	r.Claim, r.Finding = claim, judge.Confirmed
	if claim == api.Exact {
		r.Finding, r.Why = judge.Contradicted, []string{"claims exact and showed O"}
	}
	return r
}

// Vacuous is a run that proves nothing, because one replica served all requests.
func Vacuous(mode string) loadtest.Result {
	r := Exact(mode, 22*time.Millisecond)
	r.Served = map[string]int{"1": 750}
	r.Verdicts[0].Verdict, r.Verdicts[0].Missing = judge.Vacuous, []string{"one of 3 replicas served everything"}
	r.Finding, r.Why = judge.Undecided, []string{"one of 3 replicas served everything"}
	return r
}

// Baseline is the mode that touches no store.
func Baseline() loadtest.Result {
	r := Exact("noop", 90*time.Microsecond)
	r.Store, r.Verdicts, r.Claim, r.Finding = "", nil, "", judge.Unclaimed
	r.Codes = map[string]int{"ok": 750}
	r.Latency = map[client.Kind]loadtest.Latency{client.Accepted: Latency(750, 90*time.Microsecond)}
	r.AcceptedPerSecond, r.RequestsPerSecond = 41234.5, 41234.5
	return r
}

// Comparison combines runs into a comparison, on a machine that is the same in every test.
func Comparison(runs ...loadtest.Result) compare.Comparison {
	c := compare.Comparison{
		Environment: compare.Environment{
			Time: Noon, Go: "go1.26.8", OS: "linux", Arch: "amd64", CPU: "Example CPU", CPUs: 2, GOMAXPROCS: 2,
			Version: "v0.1.0", Engine: "raw", Replicas: 3,
		},
		Plans: []plan.Plan{Plan}, Results: runs,
	}
	c.Summaries = compare.Summarize(runs)
	return c
}

// NothingSeen is a run of a mode that claims to break but did not.
func NothingSeen(mode string) loadtest.Result {
	r := Exact(mode, time.Millisecond)
	r.Claim, r.Finding, r.Why = "O", judge.Contradicted, []string{"claimed O, but did not break"}
	return r
}
