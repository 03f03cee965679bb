package loadtest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/loadtest/client"
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
			got, err := ParseThreshold(tt.text)
			if tt.err == "" {
				if err != nil {
					t.Fatal(err)
				}
				if want := strings.ReplaceAll(tt.text, " ", ""); got.String() != want {
					t.Errorf("String() = %q, want %q", got, want)
				}
				return
			}
			if !errors.Is(err, ErrThreshold) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error = %v, want ErrThreshold with %q", err, tt.err)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	slow := exactRun("lua-lock", 12*time.Millisecond)
	fast := exactRun("lua-lock", 4*time.Millisecond)
	fast.Repetition, fast.AcceptedPerSecond, fast.Dropped = 2, 1000, 3
	none := exactRun("down", time.Millisecond)
	none.Latency = map[client.Kind]Latency{client.Failed: latency(750, time.Second)}
	none.Verdicts = []audit.Report{{Verdict: audit.Inconclusive}}
	none.Finding, none.Codes = audit.Undecided, map[string]int{"timeout": 740, client.CodeNotConnected: 10}
	tests := []struct {
		name      string
		runs      []Result
		threshold string
		value     string // "" = kept
	}{
		{"latency kept", []Result{slow}, "p(99)<61ms", ""},
		{"latency crossed", []Result{slow}, "p(99)<60ms", "60ms"},
		{"at the limit", []Result{slow}, "p(99)<=60ms", ""},
		{"mean", []Result{slow}, "avg<15ms", "15ms"},
		{"slowest", []Result{slow}, "max<119ms", "120ms"},
		{"median of two", []Result{slow, fast}, "p(50)<8ms", "8ms"},
		{"rate kept", []Result{slow}, "accepted/s>100", ""},
		{"rate is the median", []Result{slow, fast}, "accepted/s>=812.5", ""},
		{"rate crossed", []Result{slow}, "accepted/s>1000", "625"},
		{"count in one repetition", []Result{slow, fast}, "dropped==0", "3"},
		{"exact", []Result{slow}, "oversold==0", ""},
		{"broken", []Result{brokenRun("unsafe", "O")}, "oversold==0", "213"},
		{"lost updates", []Result{brokenRun("unsafe", "O")}, "lost_updates<=225", ""},
		{"unknown", []Result{none}, "unknown==0", "740"},
		{"no accepted request", []Result{none}, "p(99)<1h", "no accepted request"},
		{"no verdict passes nothing", []Result{none}, "oversold==0", "INCONCLUSIVE"},
		{"the baseline has no stock", []Result{baselineRun()}, "oversold==0", ""},
		{"a service without verdict", []Result{{Mode: "x", Finding: audit.Undecided}}, "leaked==0", "no verdict"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			threshold, err := ParseThreshold(tt.threshold)
			if err != nil {
				t.Fatal(err)
			}
			c := comparisonOf(tt.runs...)
			c.Check([]Threshold{threshold})
			got := c.Crossed
			var want []Crossing
			if tt.value != "" {
				s := c.Summaries[0]
				want = []Crossing{{Mode: s.Mode, Plan: s.Plan, Threshold: tt.threshold, Value: tt.value}}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Check (-want +got):\n%s", diff)
			}
			applies := tt.name != "the baseline has no stock"
			if len(c.Thresholds) == 0 == applies || applies && (c.Thresholds[0].Held != (tt.value == "") || c.Thresholds[0].Value == "") {
				t.Errorf("thresholds %+v, want one that says what was measured and whether it held, if it applies: %v", c.Thresholds, applies)
			}
		})
	}
}

func TestExitCode(t *testing.T) {
	exact, broken, contradicted, vacuous := exactRun("a", time.Millisecond), brokenRun("b", "O"), brokenRun("c", api.Exact), vacuousRun("d")
	silent := baselineRun()
	silent.Latency = map[client.Kind]Latency{}
	failing := baselineRun()
	failing.Latency[client.Failed] = latency(1, time.Second)
	foreign := exactRun("foreign", time.Millisecond)
	foreign.Claim, foreign.Finding = "", audit.Unclaimed
	foreignBroken := brokenRun("foreign", "")
	foreignBroken.Finding = audit.Unclaimed
	mustEnd := exactRun("five", time.Millisecond)
	mustEnd.Plan.MustEnd = new(int64(95))
	crossed := []Crossing{{Mode: "a"}}
	tests := []struct {
		name string
		with func(*Comparison)
		runs []Result
		want int
	}{
		{"all confirmed", nil, []Result{baselineRun(), exact, broken}, ExitConfirmed},
		{"contradicted", nil, []Result{exact, contradicted}, ExitContradicted},
		{"contradicted wins over undecided", nil, []Result{vacuous, contradicted, exact}, ExitContradicted},
		{"vacuous", nil, []Result{exact, vacuous}, ExitUndecided},
		{"nothing ran", nil, nil, ExitUndecided},
		{"only the baseline", nil, []Result{baselineRun()}, ExitConfirmed},
		{"silent baseline", nil, []Result{exact, silent}, ExitUndecided},
		{"baseline with failures", nil, []Result{exact, failing}, ExitUndecided},
		{"a foreign service that is exact", nil, []Result{foreign}, ExitConfirmed},
		{"a foreign service that is not", nil, []Result{foreignBroken}, ExitContradicted},
		{"stock ended elsewhere", nil, []Result{mustEnd}, ExitContradicted},
		{"a run failed", func(c *Comparison) { c.Failed = []FailedRun{{}} }, []Result{exact}, ExitUndecided},
		{"a mode was skipped", func(c *Comparison) { c.Skipped = []SkippedMode{{}} }, []Result{exact}, ExitConfirmed},
		{"threshold", func(c *Comparison) { c.Crossed = crossed }, []Result{exact}, ExitThreshold},
		{"threshold and undecided", func(c *Comparison) { c.Crossed = crossed }, []Result{vacuous}, ExitThreshold},
		{"threshold and contradicted", func(c *Comparison) { c.Crossed = crossed }, []Result{contradicted}, ExitContradicted},
		{"interrupted", func(c *Comparison) { c.Partial = true }, []Result{contradicted}, ExitInterrupted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := comparisonOf(tt.runs...)
			if tt.with != nil {
				tt.with(&c)
			}
			if got := c.ExitCode(); got != tt.want {
				t.Errorf("ExitCode() = %d, want %d", got, tt.want)
			}
		})
	}
}
