package failover_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/compare"
	"lastitem/loadtest/failover"
	"lastitem/loadtest/plan"
	"lastitem/testkit"
)

const ms = int64(time.Millisecond)

// began is when the runs of these tests began, and struck a strike after ten seconds that took two.
var (
	began  = time.Unix(1_000_000, 0)
	struck = failover.Strike{Engine: "sentinel", How: "kill", At: began.Add(10 * time.Second), Took: 2 * time.Second,
		Lacked: 7, Unit: "bytes"}
)

// op is a request with a key that was called and answered so many milliseconds after the run began.
func op(key string, call, answer int64, outcome judge.Outcome) judge.Op {
	return judge.Op{Key: key, Call: call * ms, Return: answer * ms, Outcome: outcome}
}

// run is a run of a mode that found some letters, with its history.
func run(found string, lost int, ops ...judge.Op) loadtest.Result {
	verdict := judge.Exact
	if found != "" {
		verdict = judge.Broken
	}
	return loadtest.Result{Mode: "m", Store: api.Redis, Started: began, Elapsed: 20 * time.Second, History: ops,
		Plan: plan.Plan{Rate: 40, Retry: 20}, Verdicts: []judge.Report{{Verdict: verdict, Found: found, AckLost: lost}}}
}

// mode claims a letter under a failover.
func mode(claim api.Outcomes) api.Mode {
	return api.Mode{Name: "m", Claims: map[api.Store]map[api.Hazard]api.Outcomes{api.Redis: {api.Failover: claim}}}
}

// The figures of a mode are those of its buyers: when the sales stopped and went on, and what became of each key.
func TestJudge(t *testing.T) {
	t.Parallel()
	sales := []judge.Op{op("a", 9_000, 9_010, judge.OK), op("b", 9_980, 9_990, judge.OK)}
	for at := int64(12_500); at < 14_000; at += 25 {
		sales = append(sales, op("later", at, at+10, judge.OK))
	}
	history := append(slices.Clone(sales),
		op("told", 9_999, 10_500, judge.Unknown), op("told", 12_600, 12_610, judge.OK),
		op("untold", 10_100, 10_200, judge.Refused), op("untold", 11_000, 11_400, judge.Unknown),
		op("waits", 10_300, 13_000, judge.OK))
	others := run("", 0, op("x", 9_900, 9_950, judge.OK), op("y", 10_140, 10_150, judge.OK))
	for retry, unresolved := range map[int]int{0: 1, 20: 0} { // without repetitions the mode keeps no keys
		r := run("A", 3, history...)
		r.Plan.Retry = retry
		m := failover.Judge(mode("A"), r, &others, struck, false, "en")
		testkit.Same(t, m, failover.Mode{Mode: "m", Store: api.Redis, Claim: "A", Gap: 2_520 * time.Millisecond,
			Error: 25 * time.Millisecond, Shop: 520 * time.Millisecond, Others: 200 * time.Millisecond, Declined: 1, Unknown: 1,
			Unresolved: unresolved, Lost: 3, Slow: 1, Verdict: judge.Broken, Found: "A"}, "the figures")
	}
}

// What a mode shows is held against its claim, and what an engine may lose is not the mode's fault.
func TestClaims(t *testing.T) {
	t.Parallel()
	sale := op("a", 12_010, 12_020, judge.OK)
	before := op("a", 9_999, 10_001, judge.OK) // on its way at the strike
	for name, c := range map[string]struct {
		claim   api.Outcomes
		run     loadtest.Result
		losable bool
		want    int
	}{
		"exact, and exact":           {".", run("", 0, sale), false, 0},
		"exact, and lost":            {".", run("A", 1, sale), false, compare.ExitContradicted},
		"cannot happen, and lost":    {api.NotApplicable, run("A", 1, sale), false, compare.ExitContradicted},
		"lost, as claimed":           {"A", run("A", 1, sale), false, 0},
		"not lost, although claimed": {"A", run("", 0, sale), false, 0},
		"oversold beyond the claim":  {"A", run("OA", 1, sale), false, compare.ExitContradicted},
		"lost by the engine":         {".", run("A", 1, sale), true, 0},
		"never sold again":           {".", run("", 0, before), false, compare.ExitContradicted},
		"nobody took over":           {".", run("", 0, before), false, compare.ExitUndecided},
	} {
		s := struck
		if name == "nobody took over" {
			s.Vacuous = name
		}
		s.Modes = []failover.Mode{failover.Judge(mode(c.claim), c.run, nil, s, c.losable, "en")}
		testkit.Is(t, failover.Result{Strikes: []failover.Strike{s}}.ExitCode(), c.want, "%s: exit code", name)
	}
}

// A strike counts if a request was under way between the strike and the takeover.
func TestInFlight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		op   judge.Op
		want bool
	}{
		{op("", 9_000, 9_999, judge.OK), false}, {op("", 9_999, 10_001, judge.Refused), true},
		{op("", 11_000, 11_001, judge.Refused), true}, {op("", 12_001, 12_010, judge.OK), false},
	} {
		testkit.Is(t, failover.InFlight(run("", 0, c.op), struck), c.want, "InFlight(%+v)", c.op)
	}
}

// The text says what a strike proves, the thresholds what it crossed; an undecided strike outranks neither.
func TestResult(t *testing.T) {
	t.Parallel()
	s := struck
	s.Lacked, s.Modes = 0, []failover.Mode{{Mode: "m", Gap: 3 * time.Second, Verdict: judge.Exact}}
	r := failover.Result{Strikes: []failover.Strike{s}}
	var bounds []compare.Bound
	for _, said := range []string{"gap<2s", "lost==0", "engine<=2s"} {
		b, err := failover.ParseThreshold(said)
		testkit.Must(t, err)
		bounds = append(bounds, b)
	}
	r.Check(bounds)
	testkit.Same(t, r.Crossed, []string{"sentinel, kill, m: gap<2s (3s)"}, "crossed")
	testkit.Is(t, r.ExitCode(), compare.ExitThreshold, "exit code")
	var b bytes.Buffer
	testkit.Must(t, r.WriteText(&b, "en"))
	testkit.Is(t, strings.Count(b.String(), "no replica was seen to lack anything"), 1, "%s", &b)
	r.Strikes[0].Modes[0].Lost = 1
	b.Reset()
	testkit.Must(t, r.WriteText(&b, "en"))
	testkit.Is(t, strings.Count(b.String(), "no replica was seen to lack anything"), 0, "after a loss: %s", &b)
	r.Crossed, r.Strikes[0].Vacuous = nil, "nobody took over"
	testkit.Is(t, r.ExitCode(), compare.ExitUndecided, "exit code of a vacuous strike")
	for _, said := range []string{"gap<2", "p(99)<2s", "lost"} {
		_, err := failover.ParseThreshold(said)
		testkit.IsError(t, err, compare.ErrThreshold, "%s", said)
	}
}
