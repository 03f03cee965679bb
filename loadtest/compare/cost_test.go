package compare_test

import (
	"context"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/loadtest"
	"lastitem/loadtest/compare"
	"lastitem/loadtest/plan"
	"lastitem/testkit"
	"lastitem/testkit/resulttest"
)

// burn makes this process use so much CPU time, however busy the machine is.
func burn(t *testing.T, d time.Duration) {
	t.Helper()
	own := func() time.Duration {
		var r syscall.Rusage
		testkit.Must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	for end := own() + d; own() < end; {
		runtime.Gosched()
	}
}

// The CPU time is that of the load alone, for a baseline too, which has no phase after it; without processes, or
// without a system that tells, there is none.
func TestCPUOfTheLoad(t *testing.T) {
	us := map[string][]int{"replicas": {os.Getpid()}, "stores": nil}
	const load, rest = 100 * time.Millisecond, 300 * time.Millisecond
	for name, tt := range map[string]struct {
		pids     map[string][]int
		baseline bool
		known    bool
	}{
		"a mode": {us, false, true}, "a baseline": {us, true, true},
		"nobody": {map[string][]int{"replicas": {1 << 30}}, false, false},
	} {
		c, err := compare.Modes(t.Context(), compare.Comparing{
			Modes: []api.Mode{{Name: "m", Available: true, Baseline: tt.baseline}}, Plans: []plan.Plan{{}},
			PIDs: func(api.Mode) map[string][]int { return tt.pids },
			Run: func(_ context.Context, m api.Mode, _ plan.Plan, tell func(loadtest.Progress)) (loadtest.Result, error) {
				tell(loadtest.Progress{Phase: loadtest.Warming})
				burn(t, rest)
				tell(loadtest.Progress{Phase: loadtest.Driving})
				burn(t, load)
				tell(loadtest.Progress{Phase: loadtest.Driving})
				if !m.Baseline {
					tell(loadtest.Progress{Phase: loadtest.Settling})
					burn(t, rest)
				}
				return resulttest.Exact("m", time.Millisecond), nil
			},
		})
		testkit.Must(t, err)
		used, known := c.Results[0].CPU["replicas"]
		if !known && runtime.GOOS != "linux" {
			continue
		}
		if known != tt.known || known && (used < load-20*time.Millisecond || used > load+rest/2) {
			t.Errorf("%s: %v, known %t; want about %v, %t", name, used, known, load, tt.known)
		}
	}
}

func TestCostOf(t *testing.T) {
	r := resulttest.Exact("m", time.Millisecond) // 500 accepted, 240 sold out in 0.9 s
	r.CPU = map[string]time.Duration{"replicas": 50 * time.Millisecond}
	testkit.Same(t, compare.CostOf(r), compare.Cost{Answers: 500, PerSecond: 625, P50: time.Millisecond,
		P99: 5 * time.Millisecond, CPU: map[string]time.Duration{"replicas": 100 * time.Microsecond}}, "of an order")
	r.Codes["sold_out"] = 900
	testkit.Same(t, compare.CostOf(r), compare.Cost{Answers: 900, PerSecond: 1000, P50: time.Millisecond / 2,
		P99: time.Millisecond * 5 / 2, CPU: map[string]time.Duration{"replicas": 50 * time.Millisecond / 900}},
		"of a refusal")
	if c := compare.CostOf(loadtest.Result{CPU: r.CPU}); c.CPU != nil {
		t.Errorf("of nothing: %+v", c)
	}
}
