package main

import (
	"math"
	"testing"
	"time"

	"lastitem/bench/figure"
)

// hold makes a section from microseconds.
func hold(number, owner, asked, acquired, leaving int64) section {
	return section{number, owner, 1000 * asked, 1000 * acquired, 1000 * leaving, true}
}

func TestSumUpHotKey(t *testing.T) {
	first := report{
		Sections: []section{hold(1, 0, 0, 10, 20), hold(3, 0, 30, 60, 80)}, Done: []int64{2}, Commands: 5,
		Cut: []int64{5_000_000},
	}
	second := report{Sections: []section{hold(4, 1, 60, 90, 95), hold(2, 1, 0, 25, 40)}, Done: []int64{2}, Commands: 3}
	m := sumUp(scenario{kind: kindHot}, 2*time.Second, 0, []*report{&first, &second})
	want := figure.Measures{
		mRate: 2, mOwnerChanges: 1.5, mCommands: 2, mMaxMin: 1, mMin: 2, mMax: 2, mJain: 1, mViolations: 0, mErrors: 0,
		mSectionsTotal: 4,
		mHandoff50:     10, mHandoff99: 20, // 5, 20 and 10 us
		mWait50: 0.030, mWait99: 5, mWaitMax: 5, // 10, 25, 30, 30 us, and one cut off at 5 ms
	}
	for name, n := range want {
		if got := m.Of(name); math.Abs(float64(got-n)) > 1e-9 {
			t.Errorf("%s = %v, want %v", name, got, n)
		}
	}
	if len(m) != len(want) {
		t.Errorf("%d measures, want %d: %v", len(m), len(want), m)
	}
}

// The counter shows two holders at once: both have read the same value, or one has overwritten the other.
func TestSumUpSeesTwoInside(t *testing.T) {
	for name, sections := range map[string][]section{
		"the same value twice": {hold(1, 0, 0, 1, 2), hold(2, 0, 0, 3, 5), hold(2, 1, 0, 4, 6)},
		"a value is missing":   {hold(1, 0, 0, 1, 2), hold(3, 1, 0, 4, 6)},
		"the first is missing": {hold(2, 0, 0, 1, 2)},
	} {
		m := sumUp(scenario{kind: kindHot}, time.Second, 0, []*report{{Sections: sections, Done: []int64{1}}})
		r := result{Contender: "x", Rounds: figure.Rounds{{mViolations: 0}, m, {mViolations: 0}}}
		o := outcome{Name: "s", Results: []*result{&r}}
		o.conclude()
		if r.exact() || broken([]*outcome{&o}) == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

func TestJudge(t *testing.T) {
	row := func(name string, m figure.Measures) *result {
		return &result{Contender: name, Rounds: figure.Rounds{m}}
	}
	hot := &outcome{Name: "hot-64x4", Results: []*result{
		row("redsync", figure.Measures{mOwnerChanges: 50, mWait99: 10, mRate: 1000}),
		row("rueidislock-1", figure.Measures{mOwnerChanges: 1000, mWait99: 100, mRate: 1000}),
		row("fair", figure.Measures{mCommands: 2.05}),
		row("handoff", figure.Measures{mOwnerChanges: 2100, mWait99: 13, mRate: 890, mCommands: 0.31, mMaxMin: figure.Number(math.Inf(1))}),
		row(ceilingName, figure.Measures{mRate: 1000}),
	}}
	hot.conclude()
	got := map[string]figure.Target{}
	for _, target := range judge([]*outcome{hot}) {
		got[target.Measure] = target
	}
	for measure, want := range map[string]string{
		"handoff: share of raw SET NX + EVALSHA":      figure.Unmeasured,
		"handoff: share of the process mutex":         figure.Missed,
		"handoff: owner changes/s, x best library":    figure.Met,
		"handoff: p99 wait, x best library":           figure.Missed,
		"handoff: network commands per acquisition":   figure.Missed,
		"fair: network commands per acquisition":      figure.Met,
		"handoff: max/min acquisitions per goroutine": figure.Missed,
	} {
		if got[measure].Verdict != want {
			t.Errorf("%s: %s (%v), want %s", measure, got[measure].Verdict, got[measure].Measured, want)
		}
	}
	if note := got["handoff: p99 wait, x best library"].Note; note != "rueidislock-1: 100 ms; lowest redsync: 10.0" {
		t.Errorf("note %q does not name the best library and the one with the lowest wait", note)
	}
}
