package main

import (
	"fmt"
	"runtime"

	"lastitem/bench/figure"
)

// A target is a bound for one of our measures.
type target struct {
	figure.Target
	value func(o *outcome) (n figure.Number, note string)
}

// of returns a function for the value of a contender's measure.
func of(contender, name string) func(*outcome) (figure.Number, string) {
	return func(o *outcome) (figure.Number, string) { return o.of(contender).Median.Of(name), "" }
}

// worst returns a function for the higher value of the engine's two locks.
func worst(name string) func(*outcome) (figure.Number, string) {
	return func(o *outcome) (figure.Number, string) {
		a, b := o.of("handoff").Median.Of(name), o.of("fair").Median.Of(name)
		if b > a || !a.Known() {
			return b, ""
		}
		return a, ""
	}
}

// toBest compares handoff with the best library: that with the most changes of the owner.
func toBest(name string, note func(o *outcome) string) func(*outcome) (figure.Number, string) {
	return func(o *outcome) (figure.Number, string) {
		best := o.best()
		if best == nil {
			return figure.None, ""
		}
		text := fmt.Sprintf("%s: %s", best.Contender, figure.Short(best.Median.Of(name)))
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
		if best == nil || r.Median.Of(mOwnerChanges) > best.Median.Of(mOwnerChanges) {
			best = r
		}
	}
	return best
}

// lowestWait names the library with the lowest p99, which may differ from the best: with a lock that its holder can
// always retake at once, the waits are few but long.
func lowestWait(o *outcome) string {
	var lowest *result
	for _, r := range o.libraries() {
		if lowest == nil || r.Median.Of(mWait99) < lowest.Median.Of(mWait99) {
			lowest = r
		}
	}
	if lowest == nil || lowest == o.best() {
		return " ms, the lowest of all"
	}
	return fmt.Sprintf(" ms; lowest %s: %s", lowest.Contender, figure.Short(lowest.Median.Of(mWait99)))
}

// onThreeMasters adds to the ratio how many CPUs the clients and the masters used: with few CPUs these are the limit.
func onThreeMasters(o *outcome) (figure.Number, string) {
	r := o.of("handoff-cluster")
	rate := r.Median.Of(mRate) / 1e6
	return r.Median.Of(mToSingle), fmt.Sprintf("CPUs: clients %s, masters %s of %d",
		figure.Short(rate*r.Median.Of(mClientCPU)), figure.Short(rate*r.Median.Of(mServerCPU)), runtime.NumCPU())
}

// targets returns the targets of the engine, with fence, renewal and idempotent release.
func targets() []target {
	const hot = "hot-64x4"
	return []target{
		{Target: figure.Target{Measure: "handoff: share of raw SET NX + EVALSHA", Scenario: "free-16", AtLeast: true,
			Limit: 0.95},
			value: func(o *outcome) (figure.Number, string) { return o.of("handoff").ToRaw.Of(mRate), "" }},
		{Target: figure.Target{Measure: "handoff: share of the process mutex", Scenario: hot, AtLeast: true, Limit: 0.90},
			value: func(o *outcome) (figure.Number, string) { return o.of("handoff").ToCeiling.Of(mRate), "" }},
		{Target: figure.Target{Measure: "handoff: owner changes/s, x best library", Scenario: hot, AtLeast: true, Limit: 2},
			value: toBest(mOwnerChanges, nil)},
		{Target: figure.Target{Measure: "handoff: acquisitions/s, x Redisson", Scenario: hot, AtLeast: true, Limit: 10},
			value: func(o *outcome) (figure.Number, string) {
				return o.of("handoff").against(o.of(redissonName), mRate), ""
			}},
		{Target: figure.Target{Measure: "handoff: p99 wait, x best library", Scenario: hot, Limit: 0.125},
			value: toBest(mWait99, lowestWait)},
		{Target: figure.Target{Measure: "handoff: network commands per acquisition", Scenario: hot, Limit: 0.30},
			value: of("handoff", mCommands)},
		{Target: figure.Target{Measure: "fair: network commands per acquisition", Scenario: hot, Limit: 2.05},
			value: of("fair", mCommands)},
		{Target: figure.Target{Measure: "handoff: max/min acquisitions per goroutine", Scenario: hot, Limit: 1.05},
			value: of("handoff", mMaxMin)},
		{Target: figure.Target{Measure: "fair: hand-off p50 in round trips (PING)", Scenario: "delay-16x4", Limit: 1.15},
			value: of("fair", mHandoffTrips)},
		{Target: figure.Target{Measure: "handoff: three masters, x one", Scenario: "cluster-64", AtLeast: true, Limit: 2},
			value: onThreeMasters},
		{Target: figure.Target{Measure: "handoff, fair: ms from a promotion to the next acquisition",
			Scenario: "failover-16x4", Limit: 1000},
			value: worst(mRecovery)},
		{Target: figure.Target{Measure: "handoff, fair: commands/s of the waiting process", Scenario: "park-64", Limit: 0.5},
			value: worst(mParked)},
		{Target: figure.Target{Measure: "handoff, fair: renewal commands/s", Scenario: "hold-5000", Limit: 5},
			value: worst(mRenewals)},
		{Target: figure.Target{Measure: "handoff, fair: bytes per held lock", Scenario: "hold-5000", Limit: 600},
			value: worst(mBytes)},
		// A constant number, not one per lock; connections have goroutines too.
		{Target: figure.Target{Measure: "handoff, fair: goroutines for all held locks", Scenario: "hold-5000", Limit: 16},
			value: worst(mGoroutines)},
	}
}

// judge compares the measurements with the targets.
func judge(outcomes []*outcome) []figure.Target {
	var all []figure.Target
	for _, t := range targets() {
		measured, note := figure.None, ""
		for _, o := range outcomes {
			if o.Name == t.Scenario {
				measured, note = t.value(o)
			}
		}
		t.Judge(measured, note)
		all = append(all, t.Target)
	}
	return all
}
