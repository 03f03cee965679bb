package compare

import (
	"context"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/plan"
)

// Comparison is several modes under the same plans: what `shop demo` and `shop loadtest` print, and their JSON.
type Comparison struct {
	Environment Environment `json:"environment"`
	// Stack describes the servers behind the address, one sentence each, worded by the caller.
	Stack []string `json:"stack,omitempty"`
	// Instead says of each store that is not the one that the user will take it for why it is not, worded by the caller.
	Instead []string    `json:"instead,omitempty"`
	Plans   []plan.Plan `json:"plans"`
	// Results holds every run, in the order they were made.
	Results []loadtest.Result `json:"results"`
	// Summaries has a line per mode and plan, in the order of the modes.
	Summaries []Summary     `json:"summaries"`
	Skipped   []SkippedMode `json:"skipped,omitempty"`
	Failed    []FailedRun   `json:"failed,omitempty"`
	// Thresholds has every threshold with the measured value, and Crossed those that did not hold.
	Thresholds []Checked  `json:"thresholds,omitempty"`
	Crossed    []Crossing `json:"crossed,omitempty"`
	// Command is the command line of the comparison, worded by the caller, without tokens and passwords.
	Command string `json:"command,omitempty"`
	// Partial says that the comparison was interrupted.
	Partial bool `json:"partial,omitempty"`
}

// SkippedMode is a requested mode that is not available, or that does not fit a plan.
type SkippedMode struct {
	Mode string `json:"mode"`
	Why  string `json:"why"`
	// Down says that a backend did not work: the mode may be available later.
	Down bool `json:"down,omitempty"`
}

// FailedRun is a run that could not be made, for instance because the stock could not be set.
type FailedRun struct {
	Mode       string `json:"mode"`
	Plan       string `json:"plan,omitempty"`
	Repetition int    `json:"repetition"`
	Why        string `json:"why"`
	// Log holds the last lines that the service's processes logged during the run, if they can be read.
	Log []string `json:"log,omitempty"`
}

// Crossing is a threshold that did not hold for one mode.
type Crossing struct {
	Mode      string `json:"mode"`
	Plan      string `json:"plan,omitempty"`
	Threshold string `json:"threshold"`
	// Value is the measured value with its unit, or why there is none.
	Value string `json:"value"`
}

// Checked is a threshold and whether it held.
type Checked struct {
	Crossing
	Held bool `json:"held"`
}

// Step is the progress of a comparison: run Index of Total.
type Step struct {
	Index      int // from 1
	Total      int
	Mode       string
	Plan       string
	Repetition int
	// Running is the state of the run, nil when it starts and when it has ended.
	Running *loadtest.Progress
	// Done says that the run has ended after Elapsed, with Result unless Err is set.
	Done    bool
	Elapsed time.Duration
	Result  *loadtest.Result
	Err     error
}

// RunFunc makes one run of one mode, like [loadtest.Run] with a given control.
type RunFunc func(ctx context.Context, m api.Mode, p plan.Plan, tell func(loadtest.Progress)) (loadtest.Result, error)

// Comparing describes a comparison.
type Comparing struct {
	// Version is the commit of lastitem, for the environment.
	Version string
	Modes   []api.Mode
	Plans   []plan.Plan // every mode runs each; Plan.Repeat times
	Run     RunFunc
	// Fits returns why a plan cannot run against a mode, which is then skipped; nil = every plan fits. See [plan.Fits].
	Fits func(api.Mode, plan.Plan) error
	// Replicas is how many processes are behind the address; 0 = as many as X-Replica shows.
	Replicas int
	// Lang is the language of the reasons why a mode was skipped or a run failed: "zh", else English.
	Lang string
	// RTT is the round trip added between the replicas and their servers, for the report only; 0 = none.
	RTT            time.Duration
	Stack, Instead []string // see [Comparison]
	// Servers are the kinds and versions of the servers by their names, for the report only; nil = not known.
	Servers map[string]string
	// MarkLogs is called before each run. It returns a function that returns the last lines, at most n per process, that
	// the service has logged since; a run that failed, was contradicted or stayed undecided keeps them. nil = logs cannot
	// be read.
	MarkLogs func() (since func(n int) []string)
	// PIDs lists the service's processes, by the parts of [loadtest.Result].CPU; a mode's stores are those that it needs.
	// nil = not known.
	PIDs func(api.Mode) map[string][]int
	// Progress is called at every step, by one goroutine at a time; nil = not called.
	Progress func(Step)
	// Each is called with every result and its history, which the comparison then drops; nil = not called.
	Each func(loadtest.Result) error
}

// logLines is how many lines of each process's log a failed run keeps.
const logLines = 5

// Exit codes of `shop demo` and `shop loadtest`, as [Comparison.ExitCode] returns them.
const (
	ExitConfirmed    = 0   // every claim was confirmed
	ExitContradicted = 1   // at least one was contradicted
	ExitUndecided    = 3   // at least one was not decided: no data, or data that could not have shown a failure
	ExitThreshold    = 99  // a threshold was crossed
	ExitInterrupted  = 130 // the comparison was cut short
)

// ExitCode judges the whole comparison: an interruption has precedence, then a contradicted claim, a crossed threshold,
// and a run that is undecided or does not count ([loadtest.Result].Discounted). The baseline claims nothing and cannot
// contradict, but it must have answered.
func (c Comparison) ExitCode() int {
	if c.Partial {
		return ExitInterrupted
	}
	undecided := len(c.Failed) > 0 || len(c.Summaries) == 0
	for _, r := range c.Results {
		undecided = undecided || r.Discounted != ""
	}
	for _, s := range c.Summaries {
		switch s.Standing() {
		case judge.Contradicted:
			return ExitContradicted
		case judge.Undecided:
			undecided = true
		}
	}
	switch {
	case len(c.Crossed) > 0:
		return ExitThreshold
	case undecided:
		return ExitUndecided
	}
	return ExitConfirmed
}
