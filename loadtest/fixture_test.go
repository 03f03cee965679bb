package loadtest

import (
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/loadtest/client"
)

var demoPlan = Plan{
	Name: "demo", VUs: 40, Requests: 750, Stock: 500, Product: 101, Products: 1, Quantity: 1,
	Wait: 3 * time.Second, Seed: 1, Engine: "raw", Repeat: 1,
}

// latency spreads a histogram around p50.
func latency(count int64, p50 time.Duration) Latency {
	return Latency{
		Count: count, Min: p50 / 4, Mean: p50 * 5 / 4, P50: p50, P90: p50 * 2, P95: p50 * 3, P99: p50 * 5, P999: p50 * 8, Max: p50 * 10,
	}
}

// exactRun is a run that sold 500 of 500.
func exactRun(mode string, p50 time.Duration) Result {
	return Result{
		Mode: mode, Store: api.Redis, Repetition: 1, Engine: "raw", Plan: demoPlan,
		Elapsed: 900 * time.Millisecond, ToLastAccepted: 800 * time.Millisecond, AcceptedPerSecond: 625, RequestsPerSecond: 833.3,
		Sent: 750, Codes: map[string]int{"ok": 500, "sold_out": 240, "lock_busy": 10}, Served: map[string]int{"1": 250, "2": 250, "3": 250},
		Latency: map[client.Kind]Latency{client.Accepted: latency(500, p50), client.Refused: latency(250, p50/2)},
		Verdicts: []audit.Report{{
			Mode: mode, Store: api.Redis, Verdict: audit.Exact, Initial: 500, Orders: 500, Sold: 500,
		}},
		Claim: api.Exact, Finding: audit.Confirmed,
	}
}

// brokenRun is a run that sold 713 of 500.
func brokenRun(mode string, claim api.Outcomes) Result {
	r := exactRun(mode, 700*time.Microsecond)
	v := &r.Verdicts[0]
	v.Verdict, v.Found, v.Final, v.Orders, v.Sold, v.Oversold, v.LostUpdates = audit.Broken, "O", 12, 713, 713, 213, 225
	r.Codes = map[string]int{"ok": 713, "sold_out": 30, "timeout": 4, "backend_unavailable": 3}
	r.Latency[client.Accepted] = latency(713, 700*time.Microsecond)
	r.Latency[client.Failed] = latency(4, 3*time.Second)
	r.Claim, r.Finding = claim, audit.Confirmed
	if claim == api.Exact {
		r.Finding, r.Why = audit.Contradicted, []string{"claims exact and showed O"}
	}
	return r
}

// vacuousRun is a run that proves nothing, because one replica served all requests.
func vacuousRun(mode string) Result {
	r := exactRun(mode, 22*time.Millisecond)
	r.Served = map[string]int{"1": 750}
	r.Verdicts[0].Verdict, r.Verdicts[0].Missing = audit.Vacuous, []string{"one of 3 replicas served everything"}
	r.Finding, r.Why = audit.Undecided, []string{"one of 3 replicas served everything"}
	return r
}

// baselineRun is the mode that touches no store.
func baselineRun() Result {
	r := exactRun("noop", 90*time.Microsecond)
	r.Store, r.Verdicts, r.Claim, r.Finding = "", nil, "", audit.Unclaimed
	r.Codes = map[string]int{"ok": 750}
	r.Latency = map[client.Kind]Latency{client.Accepted: latency(750, 90*time.Microsecond)}
	r.AcceptedPerSecond, r.RequestsPerSecond = 41234.5, 41234.5
	return r
}

// comparisonOf combines runs into a comparison.
func comparisonOf(runs ...Result) Comparison {
	return Comparison{Plans: []Plan{demoPlan}, Results: runs, Summaries: Summarize(runs)}
}
