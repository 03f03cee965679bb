package compare_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/compare"
	"lastitem/testkit"
	"lastitem/testkit/resulttest"
)

func TestParseThreshold(t *testing.T) {
	tests := []struct {
		text string
		err  string // "" = parses
	}{
		{"p(99)<50ms", ""},
		{" p(95) <= 1.5s ", ""},
		{"p(99.9)>1us", ""},
		{"avg<2ms", ""},
		{"max<1m", ""},
		{"oversold==0", ""},
		{"lost_updates!=0", ""},
		{"accepted/s>=100.5", ""},
		{"", "want a metric"},
		{"p(99)", "want a metric"},
		{"<50ms", "want a metric"},
		{"p(99)<", "want a metric"},
		{"p(98)<50ms", "no metric \"p(98)\"; there are: accepted, "},
		{"sold<5", "no metric"},
		{"p(99)<50", "wants a duration with its unit"},
		{"oversold==0ms", "wants a plain number"},
		{"oversold=0", "want a metric"},
		{"oversold<=>0", "wants a plain number"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := compare.ParseThreshold(tt.text)
			if tt.err == "" {
				testkit.Must(t, err)
				if want := strings.ReplaceAll(tt.text, " ", ""); got.String() != want {
					t.Errorf("String() = %q, want %q", got, want)
				}
				return
			}
			if !errors.Is(err, compare.ErrThreshold) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error = %v, want ErrThreshold with %q", err, tt.err)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	slow := resulttest.Exact("lua-lock", 12*time.Millisecond)
	fast := resulttest.Exact("lua-lock", 4*time.Millisecond)
	fast.Repetition, fast.AcceptedPerSecond, fast.Dropped = 2, 1000, 3
	none := resulttest.Exact("down", time.Millisecond)
	none.Latency = map[client.Kind]loadtest.Latency{client.Failed: resulttest.Latency(750, time.Second)}
	none.Verdicts = []judge.Report{{Verdict: judge.Inconclusive}}
	none.Finding, none.Codes = judge.Undecided, map[string]int{"timeout": 740, client.CodeNotConnected: 10}
	tests := []struct {
		name      string
		runs      []loadtest.Result
		threshold string
		value     string // "" = kept
	}{
		{"latency kept", []loadtest.Result{slow}, "p(99)<61ms", ""},
		{"latency crossed", []loadtest.Result{slow}, "p(99)<60ms", "60ms"},
		{"at the limit", []loadtest.Result{slow}, "p(99)<=60ms", ""},
		{"mean", []loadtest.Result{slow}, "avg<15ms", "15ms"},
		{"slowest", []loadtest.Result{slow}, "max<119ms", "120ms"},
		{"median of two", []loadtest.Result{slow, fast}, "p(50)<8ms", "8ms"},
		{"rate kept", []loadtest.Result{slow}, "accepted/s>100", ""},
		{"rate is the median", []loadtest.Result{slow, fast}, "accepted/s>=812.5", ""},
		{"rate crossed", []loadtest.Result{slow}, "accepted/s>1000", "625"},
		{"count in one repetition", []loadtest.Result{slow, fast}, "dropped==0", "3"},
		{"exact", []loadtest.Result{slow}, "oversold==0", ""},
		{"broken", []loadtest.Result{resulttest.Broken("unsafe", "O")}, "oversold==0", "213"},
		{"lost updates", []loadtest.Result{resulttest.Broken("unsafe", "O")}, "lost_updates<=225", ""},
		{"unknown", []loadtest.Result{none}, "unknown==0", "740"},
		{"no accepted request", []loadtest.Result{none}, "p(99)<1h", "no accepted request"},
		{"no verdict passes nothing", []loadtest.Result{none}, "oversold==0", "INCONCLUSIVE"},
		{"the baseline has no stock", []loadtest.Result{resulttest.Baseline()}, "oversold==0", ""},
		{"a service without verdict", []loadtest.Result{{Mode: "x", Finding: judge.Undecided}}, "leaked==0", "no verdict"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			threshold, err := compare.ParseThreshold(tt.threshold)
			testkit.Must(t, err)
			c := resulttest.Comparison(tt.runs...)
			c.Check([]compare.Threshold{threshold})
			got := c.Crossed
			var want []compare.Crossing
			if tt.value != "" {
				s := c.Summaries[0]
				want = []compare.Crossing{{Mode: s.Mode, Plan: s.Plan, Threshold: tt.threshold, Value: tt.value}}
			}
			testkit.Same(t, got, want, "Check")
			applies := tt.name != "the baseline has no stock"
			if len(c.Thresholds) == 0 == applies || applies && (c.Thresholds[0].Held != (tt.value == "") ||
				c.Thresholds[0].Value == "") {
				t.Errorf("thresholds %+v, want one that says what was measured and whether it held, if it applies: %v",
					c.Thresholds, applies)
			}
		})
	}
}

func TestExitCode(t *testing.T) {
	exact, broken, contradicted, vacuous := resulttest.Exact("a", time.Millisecond), resulttest.Broken("b", "O"),
		resulttest.Broken("c", api.Exact), resulttest.Vacuous("d")
	silent := resulttest.Baseline()
	silent.Latency = map[client.Kind]loadtest.Latency{}
	failing := resulttest.Baseline()
	failing.Latency[client.Failed] = resulttest.Latency(1, time.Second)
	foreign := resulttest.Exact("foreign", time.Millisecond)
	foreign.Claim, foreign.Finding = "", judge.Unclaimed
	foreignBroken := resulttest.Broken("foreign", "")
	foreignBroken.Finding = judge.Unclaimed
	mustEnd := resulttest.Exact("five", time.Millisecond)
	mustEnd.Plan.MustEnd, mustEnd.Plan.Stock, mustEnd.Verdicts[0].Final = new(int64(95)), 595, 1
	declined := mustEnd
	declined.Plan.Stock = 596
	discounted := exact
	discounted.Discounted = "drops"
	crossed := []compare.Crossing{{Mode: "a"}}
	tests := []struct {
		name string
		with func(*compare.Comparison)
		runs []loadtest.Result
		want int
	}{
		{"all confirmed", nil, []loadtest.Result{resulttest.Baseline(), exact, broken}, compare.ExitConfirmed},
		{"contradicted", nil, []loadtest.Result{exact, contradicted}, compare.ExitContradicted},
		{"contradicted wins over undecided", nil, []loadtest.Result{vacuous, contradicted, exact}, compare.ExitContradicted},
		{"vacuous", nil, []loadtest.Result{exact, vacuous}, compare.ExitUndecided},
		{"nothing ran", nil, nil, compare.ExitUndecided},
		{"only the baseline", nil, []loadtest.Result{resulttest.Baseline()}, compare.ExitConfirmed},
		{"silent baseline", nil, []loadtest.Result{exact, silent}, compare.ExitUndecided},
		{"baseline with failures", nil, []loadtest.Result{exact, failing}, compare.ExitUndecided},
		{"baseline with failures in its second repetition", nil, []loadtest.Result{resulttest.Baseline(), failing},
			compare.ExitUndecided},
		{"baseline, silent in its second repetition", nil, []loadtest.Result{resulttest.Baseline(), silent},
			compare.ExitUndecided},
		{"a foreign service that is exact", nil, []loadtest.Result{foreign}, compare.ExitConfirmed},
		{"a foreign service that is not", nil, []loadtest.Result{foreignBroken}, compare.ExitContradicted},
		{"stock ended elsewhere", nil, []loadtest.Result{mustEnd}, compare.ExitContradicted},
		{"stock ended elsewhere, with a request declined", nil, []loadtest.Result{declined}, compare.ExitUndecided},
		{"a run that does not count", nil, []loadtest.Result{discounted}, compare.ExitUndecided},
		{"a run failed", func(c *compare.Comparison) {
			c.Failed = []compare.FailedRun{{}}
		}, []loadtest.Result{exact}, compare.ExitUndecided},
		{"a mode was skipped", func(c *compare.Comparison) {
			c.Skipped = []compare.SkippedMode{{}}
		}, []loadtest.Result{exact}, compare.ExitConfirmed},
		{"threshold", func(c *compare.Comparison) { c.Crossed = crossed }, []loadtest.Result{exact}, compare.ExitThreshold},
		{"threshold and undecided", func(c *compare.Comparison) {
			c.Crossed = crossed
		}, []loadtest.Result{vacuous}, compare.ExitThreshold},
		{"threshold and contradicted", func(c *compare.Comparison) {
			c.Crossed = crossed
		}, []loadtest.Result{contradicted}, compare.ExitContradicted},
		{"interrupted", func(c *compare.Comparison) {
			c.Partial = true
		}, []loadtest.Result{contradicted}, compare.ExitInterrupted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := resulttest.Comparison(tt.runs...)
			if tt.with != nil {
				tt.with(&c)
			}
			testkit.Is(t, c.ExitCode(), tt.want, "ExitCode()")
		})
	}
}
