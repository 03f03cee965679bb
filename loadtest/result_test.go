package loadtest

import (
	"cmp"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/loadtest/client"
	"lastitem/loadtest/plan"
)

func TestUnmet(t *testing.T) {
	t.Parallel()
	five, _ := plan.Named("five")
	tests := []struct {
		name        string
		claim       api.Outcomes
		lang        string
		final, sold int64
		finding     audit.Finding
		why         string
		before      int64 // 0 = the plan's stock
	}{
		{name: "met", claim: api.Exact, lang: "en", final: 95, sold: 5},
		{name: "met, with an unknown outcome", claim: api.Exact, lang: "en", final: 95, sold: 4},
		{name: "met, from another stock", claim: api.Exact, lang: "en", final: 995, sold: 5, before: 1000},
		{"missed, from another stock", api.Exact, "en", 996, 5, audit.Contradicted, `stock ended at 996, plan "five" wants 995`, 1000},
		{"missed", api.Exact, "en", 96, 5, audit.Contradicted, `stock ended at 96, plan "five" wants 95`, 0},
		{"missed, in Chinese", api.Exact, "zh", 96, 5, audit.Contradicted, `最终库存为 96，而计划 "five" 要求 95`, 0},
		{"declined", api.Exact, "en", 99, 1, audit.Undecided, `stock ended at 99, plan "five" wants 95, but only 1 of 5 requests succeeded`, 0},
		{"declined, in Chinese", api.Exact, "zh", 99, 1, audit.Undecided, `最终库存为 99，而计划 "five" 要求 95，但 5 个请求中只有 1 个成交`, 0},
		{name: "claims to break", claim: "O", lang: "en", final: 99, sold: 5},
	}
	for _, tt := range tests {
		r := Result{
			Plan: five[0].WithDefaults(), Claim: tt.claim, Sent: 5, Latency: map[client.Kind]Latency{client.Accepted: {Count: tt.sold}},
			Verdicts: []audit.Report{{Verdict: audit.Exact, Initial: cmp.Or(tt.before, 100), Final: tt.final, Lang: tt.lang}},
		}
		if finding, why := r.Unmet(); finding != tt.finding || why != tt.why {
			t.Errorf("%s: Unmet() = %q, %q, want %q, %q", tt.name, finding, why, tt.finding, tt.why)
		}
	}
}

// A mode that is right is not called wrong because a rival held the lock: plan "five" cannot decide then.
func TestDeclinedRequestsContradictNothing(t *testing.T) {
	t.Parallel()
	five, _ := plan.Named("five")
	var n atomic.Int64
	shop := &fakeShop{replicas: 1, fail: func(w http.ResponseWriter, _ *http.Request) bool {
		turned := n.Add(1) > 1
		if turned {
			refuse(w, api.LockBusy, "busy")
		}
		return turned
	}}
	res, err := Run(t.Context(), shop.open(t), shopMode("m", api.Exact), five[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := SummarizeRuns([]Result{res}); res.Finding != audit.Undecided || s.Standing() != audit.Undecided || !strings.Contains(strings.Join(s.Why, " "), "1 of 5") {
		t.Errorf("finding %s, of the summary %s (%q), want undecided, since 1 of 5 requests was accepted", res.Finding, s.Standing(), s.Why)
	}
}
