package main

import (
	"fmt"
	"slices"

	"lastitem/bench/figure"
)

// A target is a bound for the ratio of two rows' rates.
type target struct {
	row, to  entry
	scenario string
	atLeast  float64
}

func one(mode string) entry { return entry{mode: mode, products: 1} }

// The accepted orders of redis-lua and queue, and the refusals of all modes, are measured against an older build, not
// against noop: see scripts/bench-versus.
var targets = []target{
	{one("queue"), one("sql-for-update"), direct, 20},
	{one("handoff"), one("mutex"), direct, 0.90},
	{segments, oneLock, far, 5},
	{perProduct, allProducts, far, 5},
	{one("sql-one-trip"), one("sql-atomic"), far, 2},
	{one("reserve-sql"), one("sql-atomic"), direct, 0.6},
	{one("reserve-unit"), one("reserve-sql"), direct, 1.5},
	{one("reserve-unit"), one("reserve-sql"), far, 3},
	{one("reserve-redis"), one("redis-lua"), direct, 0.38},
}

func (t target) measure() string {
	if t.row.mode == "segmented" {
		return fmt.Sprintf("%s with %d segments, x one lock (%s)", t.row, t.row.segments, t.to)
	}
	return fmt.Sprintf("%s, x %s", t.row, t.to)
}

func targetTitle(o options) string {
	return fmt.Sprintf("targets: rates, %d clients, one replica, direct", o.clients)
}

// judgeOutcomes compares the measurements with the targets.
func judgeOutcomes(outcomes []*outcome) []figure.Target {
	var all []figure.Target
	for _, t := range targets {
		f := figure.Target{Measure: t.measure(), Scenario: t.scenario, AtLeast: true, Limit: t.atLeast}
		measured, note := figure.None, ""
		if i := slices.IndexFunc(outcomes, func(o *outcome) bool { return o.Name == t.scenario }); i >= 0 {
			measured, note = outcomes[i].hold(t)
		}
		f.Judge(measured, note)
		all = append(all, f)
	}
	return all
}

// hold returns the ratio of a target's two rates, with the rates or the reason why there is none.
func (o *outcome) hold(t target) (figure.Number, string) {
	measured := o.against(t.row.String(), t.to.String())
	if measured.Known() {
		rate := func(e entry) string { return figure.Short(o.of(e.String()).Median.Of(mRate)) }
		return measured, rate(t.row) + "/s to " + rate(t.to) + "/s"
	}
	for _, e := range []entry{t.row, t.to} {
		if why := o.missing(e); why != "" {
			return figure.None, e.String() + ": " + why
		}
	}
	return figure.None, ""
}

// missing returns why a row has no numbers to quote; "" if it was not requested, or has not run yet.
func (o *outcome) missing(e entry) string {
	if i := slices.IndexFunc(o.Skipped, func(s skipped) bool { return s.Row == e.String() }); i >= 0 {
		return o.Skipped[i].Why
	}
	if !slices.Contains(o.known, e.mode) {
		return noSuchMode
	}
	if v := o.of(e.String()).Verdict; !v.quoted() {
		return verdicts[v]
	}
	return ""
}
