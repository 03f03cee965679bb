package main

import (
	"fmt"
	"io"
)

// Verdicts on a target.
const (
	met        = "met"
	missed     = "MISSED"
	unmeasured = "not measured"
)

// A target is what a measure of ours should be.
type target struct {
	Measure  string  `json:"measure"`
	Scenario string  `json:"scenario"`
	AtLeast  bool    `json:"at_least"` // Limit is a lower bound
	Limit    float64 `json:"limit"`
	Measured number  `json:"measured"`
	Verdict  string  `json:"verdict"`
	Note     string  `json:"note,omitempty"`

	value func(o *outcome) (n number, note string)
}

// of is the value of a contender's measure.
func of(contender, name string) func(*outcome) (number, string) {
	return func(o *outcome) (number, string) { return o.of(contender).Median.of(name), "" }
}

// worst is the highest value of the engine's two locks.
func worst(name string) func(*outcome) (number, string) {
	return func(o *outcome) (number, string) {
		a, b := o.of("handoff").Median.of(name), o.of("fair").Median.of(name)
		if b > a || !a.known() {
			return b, ""
		}
		return a, ""
	}
}

// toBest compares handoff with the best library: that with the most changes of the owner.
func toBest(name string, note func(o *outcome) string) func(*outcome) (number, string) {
	return func(o *outcome) (number, string) {
		best := o.best()
		if best == nil {
			return none, ""
		}
		text := fmt.Sprintf("%s: %s", best.Contender, short(best.Median.of(name)))
		if note != nil {
			text += note(o)
		}
		return o.of("handoff").against(best, name), text
	}
}

func (o *outcome) libraries() []*result {
	var all []*result
	for _, r := range o.Results {
		if c, err := contenderOf(r.Contender); err == nil && c.family == library {
			all = append(all, r)
		}
	}
	return all
}

func (o *outcome) best() (best *result) {
	for _, r := range o.libraries() {
		if best == nil || r.Median.of(mOwnerChanges) > best.Median.of(mOwnerChanges) {
			best = r
		}
	}
	return best
}

// lowestWait names the library with the lowest p99, which need not be the best: who always takes the lock back at once has
// few waits, and long ones.
func lowestWait(o *outcome) string {
	var lowest *result
	for _, r := range o.libraries() {
		if lowest == nil || r.Median.of(mWait99) < lowest.Median.of(mWait99) {
			lowest = r
		}
	}
	if lowest == nil || lowest == o.best() {
		return " ms, the lowest of all"
	}
	return fmt.Sprintf(" ms; lowest %s: %s", lowest.Contender, short(lowest.Median.of(mWait99)))
}

// targets are those of the engine, with fence, renewal and idempotent release on.
func targets() []target {
	const hot = "hot-64x4"
	return []target{
		{Measure: "handoff: share of raw SET NX + EVALSHA", Scenario: "free-16", AtLeast: true, Limit: 0.90,
			value: func(o *outcome) (number, string) { return o.of("handoff").ToRaw.of(mRate), "" }},
		{Measure: "handoff: share of the process mutex", Scenario: hot, AtLeast: true, Limit: 0.90,
			value: func(o *outcome) (number, string) { return o.of("handoff").ToCeiling.of(mRate), "" }},
		{Measure: "handoff: owner changes/s, x best library", Scenario: hot, AtLeast: true, Limit: 2,
			value: toBest(mOwnerChanges, nil)},
		{Measure: "handoff: p99 wait, x best library", Scenario: hot, Limit: 0.125, value: toBest(mWait99, lowestWait)},
		{Measure: "handoff: network commands per acquisition", Scenario: hot, Limit: 0.30, value: of("handoff", mCommands)},
		{Measure: "fair: network commands per acquisition", Scenario: hot, Limit: 2.05, value: of("fair", mCommands)},
		{Measure: "handoff: max/min acquisitions per goroutine", Scenario: hot, Limit: 1.05, value: of("handoff", mMaxMin)},
		{Measure: "fair: hand-off p50 in round trips (PING)", Scenario: "delay-16x4", Limit: 1.15, value: of("fair", mHandoffTrips)},
		{Measure: "handoff, fair: commands/s of the waiting process", Scenario: "park-64", Limit: 0.5, value: worst(mParked)},
		{Measure: "handoff, fair: renewal commands/s", Scenario: "hold-5000", Limit: 5, value: worst(mRenewals)},
		{Measure: "handoff, fair: bytes per held lock", Scenario: "hold-5000", Limit: 600, value: worst(mBytes)},
		// Constant, and not one more for each lock; connections have goroutines too.
		{Measure: "handoff, fair: goroutines for all held locks", Scenario: "hold-5000", Limit: 16, value: worst(mGoroutines)},
	}
}

// judge holds what was measured against the targets.
func judge(outcomes []*outcome) []target {
	all := targets()
	for i := range all {
		t := &all[i]
		t.Measured, t.Verdict = none, unmeasured
		for _, o := range outcomes {
			if o.Name == t.Scenario {
				t.Measured, t.Note = t.value(o)
			}
		}
		switch {
		case !t.Measured.known():
		case t.AtLeast == (float64(t.Measured) >= t.Limit) || float64(t.Measured) == t.Limit:
			t.Verdict = met
		default:
			t.Verdict = missed
		}
	}
	return all
}

// printTargets prints those that were measured.
func printTargets(out io.Writer, all []target) {
	rows := [][]string{{"measure", "scenario", "target", "measured", "", ""}}
	good := 0
	for _, t := range all {
		relation := "<="
		if t.AtLeast {
			relation = ">="
		}
		switch t.Verdict {
		case unmeasured:
			continue
		case met:
			good++
		}
		limit := fmt.Sprintf("%s %g", relation, t.Limit)
		rows = append(rows, []string{t.Measure, t.Scenario, limit, short(t.Measured), t.Verdict, t.Note})
	}
	measured := len(rows) - 1
	if measured > 0 {
		fmt.Fprintln(out, "\n== targets of the engine, with fence, renewal and idempotent release ==")
		printRows(out, rows, 0, 1, 4, 5)
	}
	fmt.Fprintf(out, "\n%d of %d targets met", good, measured)
	if rest := len(all) - measured; rest > 0 {
		fmt.Fprintf(out, "; %d not measured", rest)
	}
	fmt.Fprintln(out)
}
