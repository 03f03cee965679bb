package faultlab

import (
	"testing"

	"lastitem/internal/api"
)

// Only a letter counts as broken. A hazard that had nothing to strike is not reported.
func TestDrawnAdd(t *testing.T) {
	t.Parallel()
	d := &Drawn{Outcomes: map[api.Outcomes]int{}}
	told := 0
	for _, o := range []api.Outcomes{api.Exact, Idle, Diverged, Vacuous, "O", Failed} {
		d.add(Randomly{Found: func(Played) { told++ }}, Played{Outcome: o})
	}
	if d.Schedules != 6 || len(d.Broken) != 1 || told != 4 {
		t.Errorf("%d schedules, %d broken, %d told; want 6, 1, 4", d.Schedules, len(d.Broken), told)
	}
}
