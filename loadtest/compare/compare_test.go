package compare_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/compare"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
	"lastitem/testkit"
	"lastitem/testkit/resulttest"
)

var threeModes = []api.Mode{
	{Name: "unsafe", Available: true},
	{Name: "mutex-in-tx", Why: "needs mysql"},
	{Name: "lua-lock", Available: true},
}

// runner returns exact runs and records the calls.
type runner struct {
	ran   []string
	fail  string              // this run fails
	wrong error               // its error; nil = one in English
	then  func(ran int) error // called after each run
}

func (r *runner) run(_ context.Context, mode api.Mode, plan plan.Plan,
	progress func(loadtest.Progress)) (loadtest.Result, error) {
	progress(loadtest.Progress{})
	r.ran = append(r.ran, mode.Name+"/"+plan.Name)
	if mode.Name == r.fail {
		if r.wrong == nil {
			r.wrong = errors.New("loadtest: set stock: connection refused")
		}
		return loadtest.Result{Mode: mode.Name, Plan: plan}, r.wrong
	}
	result := resulttest.Exact(mode.Name, time.Millisecond)
	result.Plan, result.History = plan, []judge.Op{{Client: 1}}
	if r.then != nil {
		return result, r.then(len(r.ran))
	}
	return result, nil
}

func TestCompareInterleaves(t *testing.T) {
	var r runner
	var steps []string
	histories := 0
	c, err := compare.Modes(t.Context(), compare.Comparing{
		Modes: threeModes, Plans: []plan.Plan{{Name: "segments", Repeat: 2}, {Name: "segments"}}, Run: r.run,
		Progress: func(s compare.Step) {
			if s.Done {
				steps = append(steps, fmt.Sprintf("%d/%d %s %s %d", s.Index, s.Total, s.Mode, s.Plan, s.Repetition))
			}
		},
		Each: func(r loadtest.Result) error { histories += len(r.History); return nil },
	})
	testkit.Must(t, err)
	want := []string{
		"1/6 unsafe segments-1 1", "2/6 lua-lock segments-1 1", "3/6 unsafe segments-2 1", "4/6 lua-lock segments-2 1",
		"5/6 unsafe segments-1 2", "6/6 lua-lock segments-1 2",
	}
	testkit.Same(t, steps, want, "runs")
	testkit.Same(t, c.Skipped, []compare.SkippedMode{{Mode: "mutex-in-tx", Why: "needs mysql"}}, "Skipped")
	if len(c.Summaries) != 4 || c.Summaries[0].Repetitions != 2 || len(c.Results) != 6 || histories != 6 {
		t.Errorf("%d summaries of %d results and %d histories, want 4 of 6 and 6: %+v", len(c.Summaries), len(c.Results),
			histories, c.Summaries)
	}
	if c.Results[5].Repetition != 2 || c.Results[5].History != nil {
		t.Errorf("last result = repetition %d with %d ops, want 2 without its history", c.Results[5].Repetition,
			len(c.Results[5].History))
	}
	if c.Environment.Replicas != 3 || c.Environment.Engine != "raw" {
		t.Errorf("Environment = %+v, want the 3 replicas and the engine that were seen", c.Environment)
	}
}

func TestCompareSkipsWhatDoesNotFit(t *testing.T) {
	var r runner
	c, err := compare.Modes(t.Context(), compare.Comparing{
		Modes: threeModes, Plans: []plan.Plan{{Name: "segments"}, {Name: "segments"}}, Run: r.run,
		Fits: func(m api.Mode, p plan.Plan) error {
			if m.Name == "unsafe" {
				return errors.New("mode unsafe knows no segments")
			}
			return nil
		},
	})
	testkit.Must(t, err)
	want := []compare.SkippedMode{{Mode: "mutex-in-tx", Why: "needs mysql"},
		{Mode: "unsafe", Why: "mode unsafe knows no segments"}}
	testkit.Same(t, c.Skipped, want, "Skipped")
	testkit.Same(t, r.ran, []string{"lua-lock/segments-1", "lua-lock/segments-2"}, "ran")
}

// The replicas' log lines during a run that failed are kept.
func TestCompareGoesOnAfterAFailure(t *testing.T) {
	r, logged := runner{fail: "unsafe"}, 0
	c, err := compare.Modes(t.Context(), compare.Comparing{
		Modes: threeModes, Plans: []plan.Plan{{Name: "demo"}}, Run: r.run, Replicas: 3,
		MarkLogs: func() func(int) []string {
			logged++
			return func(n int) []string { return []string{"replica 2: OOM", "and no more"}[:min(n, 1)] }
		},
	})
	testkit.Must(t, err)
	want := []compare.FailedRun{{
		Mode: "unsafe", Plan: "demo", Repetition: 1, Why: "loadtest: set stock: connection refused",
		Log: []string{"replica 2: OOM"},
	}}
	if diff := cmp.Diff(want, c.Failed); diff != "" || logged != 2 || c.Results[0].Log != nil {
		t.Errorf("marked %d times, log of the good run %q, Failed (-want +got):\n%s", logged, c.Results[0].Log, diff)
	}
	r.wrong = text.Text{En: "no stock", Zh: "没有库存"}.Errorf()
	c, err = compare.Modes(t.Context(), compare.Comparing{Modes: threeModes, Plans: []plan.Plan{{Name: "demo"}},
		Run: r.run, Lang: "zh", Replicas: 3})
	if err != nil || len(c.Failed) != 1 || c.Failed[0].Why != "没有库存" {
		t.Errorf("Failed = %+v, %v, want the reason in Chinese", c.Failed, err)
	}
	if len(c.Results) != 1 || c.ExitCode() != compare.ExitUndecided || c.Partial {
		t.Errorf("%d results, exit code %d, want 1 and %d", len(c.Results), c.ExitCode(), compare.ExitUndecided)
	}
}

func TestCompareInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := runner{then: func(int) error { cancel(); return ctx.Err() }}
	c, err := compare.Modes(ctx, compare.Comparing{Modes: threeModes, Plans: []plan.Plan{{Repeat: 3}}, Run: r.run})
	testkit.Must(t, err)
	if len(c.Results) != 1 || len(c.Failed) != 0 || !c.Partial || c.ExitCode() != compare.ExitInterrupted {
		t.Errorf("interrupted: %d results, failed %v, partial %t, exit %d; want 1, none, true, %d",
			len(c.Results), c.Failed, c.Partial, c.ExitCode(), compare.ExitInterrupted)
	}
}

func TestCompareStopsWhereEachFails(t *testing.T) {
	var r runner
	full := errors.New("disk full")
	_, err := compare.Modes(t.Context(), compare.Comparing{
		Modes: threeModes, Plans: []plan.Plan{{Repeat: 3}}, Run: r.run, Each: func(loadtest.Result) error { return full },
	})
	if !errors.Is(err, full) || len(r.ran) != 1 {
		t.Errorf("Compare = %v after %d runs, want %v after 1", err, len(r.ran), full)
	}
}

// A plan with Insist makes extra runs only after its last repetition, only if no repetition has shown a break, and no
// longer than it may.
func TestCompareInsists(t *testing.T) {
	nothing, broken := resulttest.NothingSeen("setnx-finally"), resulttest.Broken("setnx-finally", "O")
	outside := resulttest.Broken("setnx-finally", "L")
	outside.Finding = judge.Contradicted
	vacuous, inconclusive := resulttest.Vacuous("setnx-finally"), resulttest.Vacuous("setnx-finally")
	vacuous.Claim, inconclusive.Claim = "O", "O"
	inconclusive.Verdicts = []judge.Report{{Verdict: judge.Inconclusive}}
	exact := resulttest.Exact("setnx-finally", time.Millisecond)
	unmet, end := resulttest.Exact("setnx-finally", time.Millisecond), int64(7)
	unmet.Plan.MustEnd, unmet.Finding = &end, judge.Contradicted
	refused := errors.New("loadtest: set stock: connection refused")
	tests := []struct {
		name           string
		repeat, insist int
		runs           []loadtest.Result // the last is repeated; one that sent nothing fails
		stop           int               // the user interrupts this run
		ran            int
		tries          int
		code           int
	}{
		{"breaks on the third try", 1, 4, []loadtest.Result{nothing, nothing, broken}, 0, 3, 3, compare.ExitConfirmed},
		{"breaks on the last try", 1, 2, []loadtest.Result{nothing, nothing, broken}, 0, 3, 3, compare.ExitConfirmed},
		{"breaks at once", 1, 4, []loadtest.Result{broken, nothing}, 0, 1, 0, compare.ExitConfirmed},
		{"never breaks", 1, 4, []loadtest.Result{nothing}, 0, 5, 5, compare.ExitContradicted},
		{"does not insist", 1, 0, []loadtest.Result{nothing, broken}, 0, 1, 0, compare.ExitContradicted},
		{"claims exact and breaks", 1, 4, []loadtest.Result{resulttest.Broken("setnx-finally", api.Exact), broken}, 0, 1, 0,
			compare.ExitContradicted},
		{"claims exact and ends elsewhere", 1, 4, []loadtest.Result{unmet, broken}, 0, 1, 0, compare.ExitContradicted},
		{"claims nothing", 1, 4, []loadtest.Result{resulttest.Baseline(), broken}, 0, 1, 0, compare.ExitConfirmed},
		{"breaks outside its claim", 1, 4, []loadtest.Result{outside, broken}, 0, 1, 0, compare.ExitContradicted},
		{"breaks outside its claim later", 1, 4, []loadtest.Result{nothing, outside, broken}, 0, 2, 2,
			compare.ExitContradicted},
		{"vacuous once", 1, 4, []loadtest.Result{vacuous, nothing, vacuous, broken}, 0, 4, 4, compare.ExitConfirmed},
		{"vacuous once, and exact", 1, 4, []loadtest.Result{vacuous, exact}, 0, 2, 2, compare.ExitConfirmed},
		{"exact, and vacuous at last", 1, 1, []loadtest.Result{nothing, vacuous}, 0, 2, 2, compare.ExitContradicted},
		{"always vacuous", 1, 4, []loadtest.Result{vacuous}, 0, 5, 5, compare.ExitUndecided},
		{"inconclusive", 1, 4, []loadtest.Result{inconclusive, broken}, 0, 1, 0, compare.ExitUndecided},
		{"fails", 1, 4, []loadtest.Result{{}, broken}, 0, 1, 0, compare.ExitUndecided},
		{"fails later", 1, 4, []loadtest.Result{nothing, nothing, {}, broken}, 0, 3, 2, compare.ExitContradicted},
		{"interrupted", 1, 4, []loadtest.Result{nothing}, 2, 2, 2, compare.ExitInterrupted},
		{"breaks in a repetition", 3, 4, []loadtest.Result{nothing, broken, nothing}, 0, 3, 0, compare.ExitConfirmed},
		{"breaks in the last repetition", 3, 4, []loadtest.Result{nothing, nothing, broken}, 0, 3, 0, compare.ExitConfirmed},
		{"breaks after the repetitions", 3, 4, []loadtest.Result{nothing, nothing, nothing, nothing, broken}, 0, 5, 3,
			compare.ExitConfirmed},
		{"never breaks, with repetitions", 3, 4, []loadtest.Result{nothing}, 0, 7, 5, compare.ExitContradicted},
		{"breaks after a vacuous repetition", 2, 4, []loadtest.Result{vacuous, nothing, nothing, broken}, 0, 4, 2,
			compare.ExitConfirmed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ran, done, histories := 0, 0, 0
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			c, err := compare.Modes(ctx, compare.Comparing{
				Modes: []api.Mode{{Name: "setnx-finally", Available: true}},
				Plans: []plan.Plan{{Name: "demo", Repeat: tt.repeat, Insist: tt.insist}},
				Run: func(context.Context, api.Mode, plan.Plan, func(loadtest.Progress)) (loadtest.Result, error) {
					r := tt.runs[min(ran, len(tt.runs)-1)]
					ran++
					if ran == tt.stop {
						interrupt()
					}
					if r.Sent == 0 {
						return r, refused
					}
					return r, nil
				},
				Progress: func(s compare.Step) {
					if s.Total != tt.repeat {
						t.Errorf("step %d/%d, want %d", s.Index, s.Total, tt.repeat)
					}
					if s.Done {
						done++
					}
				},
				Each: func(loadtest.Result) error { histories++; return nil },
			})
			testkit.Must(t, err)
			if ran != tt.ran || done != tt.repeat || len(c.Results) != histories || len(c.Summaries) != min(1, histories) ||
				histories > tt.repeat {
				t.Errorf("%d runs, %d done, %d results, %d histories, want %d runs and one of what there is for each repetition",
					ran, done, len(c.Results), histories, tt.ran)
			}
			if histories > 0 && c.Results[histories-1].Tries != tt.tries {
				t.Errorf("tries = %d, want %d", c.Results[histories-1].Tries, tt.tries)
			}
			if s := c.Summaries; len(s) > 0 && len(c.Failed) == 0 && (s[0].Runs != tt.ran || s[0].Repetitions != tt.repeat) {
				t.Errorf("the summary says %d runs in %d repetitions, want %d in %d", s[0].Runs, s[0].Repetitions, tt.ran,
					tt.repeat)
			}
			testkit.Is(t, c.ExitCode(), tt.code, "exit code")
		})
	}
}

// After a run that was vacuous the holds of the next last four times as long as a reserve took, or twice as long as the
// holds did.
func TestCompareLengthensHolds(t *testing.T) {
	plans, _ := plan.Named("reserve")
	plans[0].Insist = 2
	var held []time.Duration
	run := func(_ context.Context, m api.Mode, p plan.Plan, _ func(loadtest.Progress)) (loadtest.Result, error) {
		held = append(held, p.Reserving.For)
		r := resulttest.Vacuous(m.Name)
		r.Plan, r.Holds = p, &loadtest.ReservationFigures{Latency: map[judge.ReservationKind]loadtest.Latency{
			judge.Reserve: {P90: 150 * time.Millisecond}}}
		return r, nil
	}
	_, err := compare.Modes(t.Context(), compare.Comparing{Modes: threeModes[:1], Plans: plans, Run: run})
	testkit.Must(t, err)
	testkit.Same(t, held, []time.Duration{100 * time.Millisecond, 600 * time.Millisecond, 1200 * time.Millisecond}, "held")
}

func TestSelect(t *testing.T) {
	all := []api.Mode{{Name: "unsafe"}, {Name: "mutex"}, {Name: "setnx"}, {Name: "setnx-ttl"}, {Name: "lua-lock"}}
	tests := []struct {
		pattern string
		want    string
		err     string
	}{
		{"all", "unsafe,mutex,setnx,setnx-ttl,lua-lock", ""},
		{"*", "unsafe,mutex,setnx,setnx-ttl,lua-lock", ""},
		{"lua-lock, unsafe", "unsafe,lua-lock", ""},
		{"set*", "setnx,setnx-ttl", ""},
		{"setnx,set*", "setnx,setnx-ttl", ""},
		{"set*,mutex,", "mutex,setnx,setnx-ttl", ""},
		{"lualock", "", `unknown mode "lualock" (did you mean "lua-lock"?); there are: unsafe, mutex, setnx, setnx-ttl, ` +
			`lua-lock`},
		{"unsafe,mutx", "", `did you mean "mutex"?`},
		{"zzzzzz", "", `unknown mode "zzzzzz"; there are:`},
		{"red*", "", `unknown mode "red*"; there are:`},
		{"", "", "no mode given"},
		{" , ", "", "no mode given"},
		{"[", "", "syntax error in pattern"},
	}
	for _, tt := range tests {
		t.Run(tt.pattern, func(t *testing.T) {
			modes, err := compare.Select(all, tt.pattern)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("Select(%q) error = %v, want %q", tt.pattern, err, tt.err)
				}
				return
			}
			testkit.Must(t, err)
			var names []string
			for _, m := range modes {
				names = append(names, m.Name)
			}
			testkit.Is(t, strings.Join(names, ","), tt.want, "Select(%q)", tt.pattern)
		})
	}
}

// A mode that reserves runs under a plan that reserves, and no other.
func TestReservingModesFitReservingPlans(t *testing.T) {
	t.Parallel()
	plans, _ := plan.Named("reserve")
	reserve, mode, other := plans[0], api.Mode{Name: "reserve-sql", Available: true, Reserves: true},
		api.Mode{Name: "good", Available: true}
	for _, tt := range []struct {
		mode api.Mode
		plan plan.Plan
		want bool
	}{{mode, reserve, true}, {mode, plan.Plan{}, false}, {other, reserve, false}, {other, plan.Plan{}, true}} {
		if err := plan.Fits(tt.mode, tt.plan); (err == nil) != tt.want {
			t.Errorf("%s, reserving %v: %v, want fit %v", tt.mode.Name, tt.plan.Reserving.On(), err, tt.want)
		}
	}
	var ran []string
	run := func(_ context.Context, m api.Mode, p plan.Plan, _ func(loadtest.Progress)) (loadtest.Result,
		error) {
		ran = append(ran, m.Name+" "+p.Name)
		return loadtest.Result{}, nil
	}
	_, err := compare.Modes(t.Context(), compare.Comparing{Modes: []api.Mode{mode, other},
		Plans: []plan.Plan{{Name: "demo"}, reserve}, Fits: plan.Fits, Run: run})
	testkit.Must(t, err)
	testkit.Same(t, ran, []string{"good demo", "reserve-sql reserve"}, "ran")
}
