package faultlab

import (
	"context"
	"errors"
	"testing"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

func TestUnclaimed(t *testing.T) {
	t.Parallel()
	m := api.Mode{Claims: map[api.Store]map[api.Hazard]api.Outcomes{"sql": {api.Slow: "O", api.Pause: "."}}}
	for _, test := range []struct {
		fault   api.Hazard
		outcome api.Outcomes
		want    bool
	}{
		{api.Pause, "O", true}, {api.Pause, ".", false}, {api.Slow, "O", false}, {api.Slow, "OX", true}, {api.Slow, Unexplained, true},
		{api.Pause, Diverged, false}, {api.Pause, Vacuous, false}, {api.Pause, Idle, false}, {api.Pause, Failed, false},
		{"lost-reply", "O", false}, // nobody makes a claim about it
	} {
		p := Played{Schedule: Schedule{Store: "sql", Fault: test.fault}, Outcome: test.outcome}
		if got := unclaimed(m, p); got != test.want {
			t.Errorf("unclaimed(%s found at %s) = %t, want %t", test.outcome, test.fault, got, test.want)
		}
	}
}

// Schedules that found no lane because the exploration was interrupted were not played: nothing may be concluded from them.
func TestInterruptedSchedulesAreNoFinding(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	cancel(interrupted)
	wait, err := new(lab).start(ctx, &group{free: make(chan *rig.Lane)}, []Schedule{{Mode: "m"}})
	played, failed := wait()
	if !errors.Is(err, interrupted) || !errors.Is(failed, interrupted) {
		t.Errorf("start: %v, wait: %v with %d schedules; want %v from both", err, failed, len(played), interrupted)
	}
}
