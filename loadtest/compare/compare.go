// Package compare runs several modes under the same plans ([Modes]), and says what the runs show together: a
// [Comparison], with a [Summary] for each mode, the thresholds, and the exit code.
package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
	"lastitem/target"
)

// Modes runs every mode under every plan, interleaved: repetition 1 of all, then repetition 2 of all, so that a busy
// minute of the machine does not affect only one mode. Modes that are not available, or do not fit a plan, are skipped;
// a failed run is recorded and the rest goes on. When ctx ends, the results so far are returned with Partial set. The
// error is the error of Each, or [target.ErrUnauthorized], which every further run would return.
func Modes(ctx context.Context, what Comparing) (Comparison, error) {
	c := Comparison{Environment: ThisEnvironment(), Stack: what.Stack, Instead: what.Instead,
		Plans: namedApart(what.Plans), Results: []loadtest.Result{}}
	c.Environment.Version = what.Version
	c.Environment.Replicas, c.Environment.RTT, c.Environment.Servers = what.Replicas, what.RTT, what.Servers
	jobs := c.jobs(what)
	what.Run = what.metered()
	var failed error
	for i, j := range jobs {
		if ctx.Err() != nil || failed != nil {
			c.Partial = true
			break
		}
		failed = c.run(ctx, what, j, Step{
			Index: i + 1, Total: len(jobs), Mode: j.mode.Name, Plan: j.plan.Name, Repetition: j.repetition,
		})
	}
	c.finish()
	return c, failed
}

// namedApart returns the plans with distinct names, "segments-1" and "segments-2", because a line of the table is for
// one mode and one plan.
func namedApart(plans []plan.Plan) []plan.Plan {
	named := slices.Clone(plans)
	times := map[string]int{}
	for _, p := range plans {
		times[p.Name]++
	}
	seen := map[string]int{}
	for i, p := range plans {
		if times[p.Name] < 2 {
			continue
		}
		seen[p.Name]++
		named[i].Name = fmt.Sprintf("%s-%d", cmp.Or(p.Name, "plan"), seen[p.Name])
	}
	return named
}

// job is one planned run.
type job struct {
	mode       api.Mode
	plan       plan.Plan
	repetition int
}

// jobs orders the runs by repetition, then plan, then mode, and records the skipped modes.
func (c *Comparison) jobs(what Comparing) []job {
	first := c.fitting(what)
	most := 0
	for _, p := range c.Plans {
		most = max(most, p.Repeat, 1)
	}
	var jobs []job
	for repetition := 1; repetition <= most; repetition++ {
		for _, j := range first {
			if repetition <= max(j.plan.Repeat, 1) {
				j.repetition = repetition
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}

// fitting returns one job for each mode and plan that can run, and records the modes that cannot.
func (c *Comparison) fitting(what Comparing) []job {
	var jobs []job
	for _, m := range what.Modes {
		if !m.Available {
			c.skip(SkippedMode{Mode: m.Name, Why: m.Why, Down: m.Down})
		}
	}
	for _, p := range c.Plans {
		for _, m := range what.Modes {
			if !m.Available {
				continue
			}
			p := p.For(m)
			if !p.Suits(m) && slices.ContainsFunc(c.Plans, func(o plan.Plan) bool { return o.For(m).Suits(m) }) {
				continue // another plan is made for it
			}
			if what.Fits != nil {
				if err := what.Fits(m, p); err != nil {
					c.skip(SkippedMode{Mode: m.Name, Why: strings.TrimPrefix(text.ErrorIn(what.Lang, err), "loadtest: ")})
					continue
				}
			}
			jobs = append(jobs, job{mode: m, plan: p})
		}
	}
	return jobs
}

// skip records a mode that is not run, once for each reason.
func (c *Comparison) skip(s SkippedMode) {
	if !slices.Contains(c.Skipped, s) {
		c.Skipped = append(c.Skipped, s)
	}
}

// run makes one run and records its result. Its error ends the comparison.
func (c *Comparison) run(ctx context.Context, what Comparing, j job, step Step) error {
	tell := func(s Step) {
		if what.Progress != nil {
			what.Progress(s)
		}
	}
	tell(step)
	logged := func(int) []string { return nil }
	if what.MarkLogs != nil {
		logged = what.MarkLogs()
	}
	start := time.Now()
	result, err := what.run(ctx, j, c.insist(j), func(p loadtest.Progress) {
		running := step
		running.Running, running.Elapsed = &p, time.Since(start)
		tell(running)
	})
	step.Done, step.Elapsed, step.Err = true, time.Since(start), err
	if ctx.Err() != nil {
		c.Partial = true
	}
	if errors.Is(err, target.ErrUnauthorized) {
		return err
	}
	if err != nil && ctx.Err() == nil {
		c.Failed = append(c.Failed, FailedRun{Mode: j.mode.Name, Plan: j.plan.Name, Repetition: j.repetition,
			Why: text.ErrorIn(what.Lang, err), Log: logged(logLines)})
	}
	if err != nil && result.Sent == 0 {
		tell(step)
		return nil
	}
	result.Repetition = j.repetition
	if result.Finding == judge.Contradicted || result.Finding == judge.Undecided ||
		result.Latency[client.Failed].Count > 0 {
		result.Log = logged(logLines)
	}
	step.Result = &result
	tell(step)
	var eachErr error
	if what.Each != nil {
		eachErr = what.Each(result)
	}
	result.History = nil
	if result.Holds != nil {
		result.Holds.History = nil
	}
	c.Results = append(c.Results, result)
	return eachErr
}

// insist is how often a run that does not confirm a claim to break is repeated: Plan.Insist times, and only after the
// last repetition of a mode of which no earlier repetition broke, as claimed or otherwise.
func (c *Comparison) insist(j job) int {
	if j.repetition < max(j.plan.Repeat, 1) {
		return 0
	}
	for _, r := range c.Results {
		decided := r.Finding == judge.Confirmed || r.Finding == judge.Contradicted && !showedNothing(r)
		if r.Mode == j.mode.Name && r.Plan.Name == j.plan.Name && decided {
			return 0
		}
	}
	return j.plan.Insist
}

// run executes a job, and repeats it at most insist times while it confirms nothing, and as often as the plan insists
// while it is vacuous. Of these runs it returns the last that says most. If a repetition fails, run returns the result
// before it, and the error.
func (what Comparing) run(ctx context.Context, j job, insist int,
	progress func(loadtest.Progress)) (loadtest.Result, error) {
	result, err := what.Run(ctx, j.mode, j.plan, progress)
	last, vacuous := result, 0
	for try := 2; err == nil && ctx.Err() == nil && (try <= 1+insist && showedNothing(last) ||
		try <= 1+j.plan.Insist && wasVacuous(last)); try++ {
		if wasVacuous(last) && last.Holds != nil {
			j.plan = j.plan.More(last.Holds.Latency[judge.Reserve].P90, last.Plan.Reserving.For)
		}
		last, err = what.Run(ctx, j.mode, j.plan, progress)
		if err != nil && last.Sent == 0 {
			break
		}
		if wasVacuous(last) || wasVacuous(result) { // whichever is not kept
			vacuous++
		}
		if !wasVacuous(last) || wasVacuous(result) {
			result = last
		}
		result.Tries, result.Vacuous = try, vacuous
	}
	return result, err
}

// wasVacuous reports whether a run could not have shown a failure. A service that is not ours may not be repeatable.
func wasVacuous(r loadtest.Result) bool {
	verdict, _ := r.Verdict()
	return verdict == judge.Vacuous && r.Finding == judge.Undecided && !r.Foreign
}

// finish computes the summaries, and the facts that only the runs show.
func (c *Comparison) finish() {
	c.Summaries = Summarize(c.Results)
	seen := map[string]bool{}
	for _, r := range c.Results {
		c.Environment.Engine = r.Engine
		c.Partial = c.Partial || r.Partial
		for name := range r.Served {
			seen[name] = true
		}
	}
	if c.Environment.Replicas == 0 {
		c.Environment.Replicas = len(seen)
	}
}
