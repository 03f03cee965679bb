package faultlab

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

func TestUnclaimed(t *testing.T) {
	t.Parallel()
	m := api.Mode{Claims: map[api.Store]map[api.Hazard]api.Outcomes{"sql": {api.Slow: "O", api.Pause: ".", api.Late: Unclaimed}}}
	for _, test := range []struct {
		fault   api.Hazard
		outcome api.Outcomes
		want    bool
	}{
		{api.Pause, "O", true}, {api.Slow, "O", false}, {api.Slow, "OX", true}, {api.Slow, Unexplained, true},
		{"lost-reply", "O", false}, // nobody makes a claim about it
		{api.Late, "O", false},     // nor does a foreign service
	} {
		p := Played{Schedule: Schedule{Store: "sql", Fault: test.fault}, Outcome: test.outcome}
		if got := unclaimed(m, p); got != test.want {
			t.Errorf("unclaimed(%s found at %s) = %t, want %t", test.outcome, test.fault, got, test.want)
		}
	}
}

// A witness is played again until it shows the letters that it is committed for; another letter does not do.
func TestWitnessShowsItsLetters(t *testing.T) {
	t.Parallel()
	committed := map[string]Schedule{"O": at("SET"), "X": at("SET"), "L": at("RPUSH")}
	for pattern, of := range map[string]map[api.Outcomes]bool{
		"SET":   {"OX": true, "OLX": true, "O": false, "L": false, ".": false, Idle: false, Vacuous: false},
		"RPUSH": {"L": true, "OL": true, "O": false, ".": false, Idle: false, Diverged: false},
		"GET":   {"O": true, ".": true, Idle: true}, // no witness
	} {
		for outcome, want := range of {
			if got := played(pattern, outcome).shows(shownBy(at(pattern), committed)); got != want {
				t.Errorf("the schedule at %s with outcome %s shows its letters: %t, want %t", pattern, outcome, got, want)
			}
		}
	}
	forced := at("SET").expiring(Forced)
	if letters := shownBy(forced, committed); len(letters) != 2 {
		t.Errorf("shownBy(a forced expiry) = %q, want O and X", letters)
	}
}

// Schedules that found no lane because the exploration was interrupted were not played: nothing may be concluded from them.
func TestInterruptedSchedulesAreNoFinding(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	cancel(interrupted)
	wait, err := new(lab).start(ctx, &group{free: make(chan *rig.Lane)}, []Schedule{{Mode: "m"}}, nil)
	played, failed := wait()
	if !errors.Is(err, interrupted) || !errors.Is(failed, interrupted) {
		t.Errorf("start: %v, wait: %v with %d schedules; want %v from both", err, failed, len(played), interrupted)
	}
}

func TestStalled(t *testing.T) {
	t.Parallel()
	const ttl = 600 * time.Millisecond
	lane := &rig.Lane{TTL: ttl}
	l := &lab{modes: []api.Mode{{Name: "m", Claims: map[api.Store]map[api.Hazard]api.Outcomes{"sql": {api.Slow: ".", api.Pause: "O", api.Threads: "."}}}}}
	for name, test := range map[string]struct {
		fault   api.Hazard
		outcome api.Outcomes
		silence time.Duration
		machine time.Duration
		witness bool
		want    time.Duration
	}{
		"nothing broke":                                  {api.Slow, ".", ttl, ttl, false, 0},
		"the process had no processor":                   {api.Slow, "O", ttl, 0, false, ttl},
		"a claimed letter needs no renewals":             {api.Pause, "O", ttl, 0, false, 0},
		"a renewal was in time":                          {api.Slow, "O", ttl / 3, 0, false, 0},
		"the lab stood still":                            {api.Slow, "O", 0, ttl / 4, false, ttl / 4},
		"the lab stood still, and the letter is claimed": {api.Pause, "O", 0, ttl / 2, false, ttl / 2},
		"a witness, as claimed":                          {api.Pause, "O", 0, ttl / 2, true, 0},
		"a witness that shows more than is claimed":      {api.Pause, "OX", 0, ttl / 2, true, ttl / 2},
		"no lock expires":                                {api.Threads, "O", ttl, ttl, false, 0},
		"not met":                                        {api.Slow, Diverged, ttl, ttl, false, 0},
	} {
		p := Played{Schedule: Schedule{Mode: "m", Store: "sql", Fault: test.fault}, Outcome: test.outcome, silence: test.silence}
		if got := l.stalled(lane, p, test.machine, test.witness); got != test.want {
			t.Errorf("%s: stalled() = %v, want %v", name, got, test.want)
		}
	}
}

// The cells of a mode whose sessions last have lanes of their own, where locks must expire; they begin first, and the other groups run beside
// them.
func TestPatientLanes(t *testing.T) {
	t.Parallel()
	expiring, plain := &group{equipment: rig.Equipment{Expiry: true}}, &group{}
	patient := &group{equipment: expiring.equipment, patient: true}
	l := &lab{groups: []*group{plain, expiring, patient}}
	consul, lock := api.Mode{Needs: []string{"redis", "consul"}}, api.Mode{Needs: []string{"redis"}}
	for _, c := range []struct {
		fault api.Hazard
		mode  api.Mode
		want  *group
	}{{api.Pause, consul, patient}, {api.Pause, lock, expiring}, {api.Threads, consul, plain}, {api.Threads, lock, plain}} {
		f, _ := fault.Named(c.fault)
		if got := l.group(f, c.mode); got != c.want {
			t.Errorf("%s of a mode that needs %v: group %+v, want %+v", c.fault, c.mode.Needs, got, c.want)
		}
	}
	if first, rest := patientFirst(l.groups); !slices.Equal(first, []*group{patient}) || !slices.Equal(rest, []*group{plain, expiring}) {
		t.Errorf("patient %v, others %v", first, rest)
	}
}
