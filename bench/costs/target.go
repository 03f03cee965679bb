package main

import (
	"fmt"

	"lastitem/bench/figure"
)

// targets are bounds for the ratio of two rows' rates. The accepted orders of redis-lua and queue, and the refusals of
// all modes, are measured against an older build, not against noop: see scripts/bench-versus.
var targets = []struct {
	mode, plan, to, under string
	atLeast               float64
}{
	{"queue", direct, "sql-for-update", direct, 20},
	{"handoff", direct, "mutex", direct, 0.90},
	{"segmented", "far-segments", "handoff", "far", 5},
	{"handoff", "far-products", "global-lock", "far-products", 5},
	{"sql-one-trip", "far", "sql-atomic", "far", 2},
	{"reserve-sql", direct, "sql-atomic", direct, 0.6},
	{"reserve-unit", direct, "reserve-sql", direct, 1.5},
	{"reserve-unit", "far", "reserve-sql", "far", 3},
	{"reserve-redis", direct, "redis-lua", direct, 0.38},
}

// targets compares the measurements with the targets; the note has the two rates, or the row that sold wrongly.
func (m costs) targets() (all []figure.Target) {
	for _, t := range targets {
		f := figure.Target{Measure: t.mode + ", x " + t.to, Scenario: t.plan, AtLeast: true, Limit: t.atLeast}
		a, b := m.of(t.mode, t.plan), m.of(t.to, t.under)
		measured, note := figure.None, ""
		for _, r := range []row{b, a} {
			if len(r.rounds) > 0 && !r.quoted() {
				note = fmt.Sprintf("%s: %s", r.mode, r.verdict)
			}
		}
		if a.quoted() && b.quoted() {
			measured = a.rounds.Against(b.rounds, rate)
			note = figure.Short(a.median.Of(rate)) + "/s to " + figure.Short(b.median.Of(rate)) + "/s"
		}
		f.Judge(measured, note)
		all = append(all, f)
	}
	return all
}
