package compare

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/plan"
)

// metered makes runs note the CPU time that the service uses from the first request of the load to the last answer.
func (what Comparing) metered() RunFunc {
	if what.PIDs == nil {
		return what.Run
	}
	return func(ctx context.Context, m api.Mode, p plan.Plan, tell func(loadtest.Progress)) (loadtest.Result, error) {
		var before, after map[string]time.Duration
		result, err := what.Run(ctx, m, p, func(now loadtest.Progress) {
			switch {
			case now.Phase == loadtest.Driving && before == nil:
				before = cpu(what.PIDs(m))
			case now.Phase == loadtest.Settling:
				after = cpu(what.PIDs(m))
			}
			tell(now)
		})
		if after == nil { // a baseline has nothing to settle
			after = cpu(what.PIDs(m))
		}
		if err == nil && before != nil && after != nil {
			result.CPU = map[string]time.Duration{}
			for part, used := range after {
				result.CPU[part] = used - before[part]
			}
		}
		return result, err
	}
}

// Cost is what an answer costs of the kind that a run is about: an accepted request, or a refusal as sold out where
// there are more of them.
type Cost struct {
	Answers   int
	PerSecond float64
	P50, P99  time.Duration
	CPU       map[string]time.Duration // for an answer, by part; nil = not known
}

// CostOf returns the cost of a run.
func CostOf(r loadtest.Result) Cost {
	accepted := r.Latency[client.Accepted]
	c := Cost{int(accepted.Count), r.AcceptedPerSecond, accepted.P50, accepted.P99, nil}
	if soldOut := r.Codes[string(api.SoldOut)]; soldOut > c.Answers {
		refused := r.Latency[client.Refused]
		c = Cost{soldOut, float64(soldOut) / max(r.Elapsed.Seconds(), 1e-9), refused.P50, refused.P99, nil}
	}
	if r.CPU != nil && c.Answers > 0 {
		c.CPU = map[string]time.Duration{}
		for part, used := range r.CPU {
			c.CPU[part] = used / time.Duration(c.Answers)
		}
	}
	return c
}

// tick is the unit in which the kernel counts the CPU time of a process.
const tick = 10 * time.Millisecond

// cpu reads the CPU time that processes have used since their start, by part: fields 14 and 15 of their stat, see
// proc(5). It returns nil where the system or a process does not tell.
func cpu(pids map[string][]int) map[string]time.Duration {
	used := map[string]time.Duration{}
	for part, all := range pids {
		used[part] = 0
		for _, pid := range all {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			_, after, found := strings.Cut(string(stat), ") ") // after the name, which may hold blanks
			fields := strings.Fields(after)
			if err != nil || !found || len(fields) < 13 {
				return nil
			}
			for _, field := range fields[11:13] {
				ticks, _ := strconv.Atoi(field)
				used[part] += time.Duration(ticks) * tick
			}
		}
	}
	return used
}
