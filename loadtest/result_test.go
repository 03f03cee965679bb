package loadtest

import (
	"testing"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/loadtest/plan"
)

func TestUnmet(t *testing.T) {
	t.Parallel()
	five, _ := plan.Named("five")
	run := func(claim api.Outcomes, final int64) Result {
		return Result{Plan: five[0], Claim: claim, Verdicts: []audit.Report{{Verdict: audit.Exact, Final: final}}}
	}
	if got := run(api.Exact, 95).Unmet(); got != "" {
		t.Errorf("Unmet() = %q, want none at 95", got)
	}
	if got, want := run(api.Exact, 96).Unmet(), `stock ended at 96, plan "five" wants 95`; got != want {
		t.Errorf("Unmet() = %q, want %q", got, want)
	}
	chinese := run(api.Exact, 96)
	chinese.Verdicts[0].Lang = "zh"
	if got, want := chinese.Unmet(), `最终库存为 96，而计划 "five" 要求 95`; got != want {
		t.Errorf("Unmet() = %q, want %q", got, want)
	}
	if got := run("O", 99).Unmet(); got != "" {
		t.Errorf("Unmet() = %q, want none for a mode that claims to break", got)
	}
}
