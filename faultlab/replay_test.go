package faultlab

import (
	"strings"
	"testing"

	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// A file with a schedule that cannot be played is refused before anything is started; every committed witness can be played.
func TestScheduleCheck(t *testing.T) {
	t.Parallel()
	held := &rig.Position{Server: "redis", Pattern: "GET", Nth: 1, Cut: rig.Command}
	broken := &rig.Position{Server: "redis", Pattern: "GET", Nth: 1, Cut: "sideways"}
	for want, s := range map[string]Schedule{
		`unknown fault "nofault"`:                  {Fault: "nofault", A: held},
		"needs the position of the victim":         {Fault: api.Pause},
		`does not hold the victim at a cut "sidew`: {Fault: api.Pause, A: broken},
		"needs the position of the rival":          {Fault: api.Late, A: held},
		`a rival is not held at a cut "sideways"`:  {Fault: api.Pause, A: held, B: broken},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check(%v) = %v, want %q", s, err, want)
		}
	}
	matrix, err := Committed()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range matrix.Cells {
		for letter, s := range c.Witnesses {
			if err := s.Check(); err != nil {
				t.Errorf("the witness of %s %s %s %s: %v", c.Mode, c.Store, c.Fault, letter, err)
			}
		}
	}
}

// The reason why nothing can be played names the mode, and what it is about.
func TestCheckCells(t *testing.T) {
	t.Parallel()
	claims := map[api.Hazard]api.Outcomes{api.Threads: ".", api.Replicas: ".", api.Slow: "–"}
	modes := []api.Mode{
		{Name: "safe", Stores: []api.Store{api.SQL}, Claims: map[api.Store]map[api.Hazard]api.Outcomes{api.SQL: claims}},
		{Name: "broken", Stores: []api.Store{api.SQL}, Claims: map[api.Store]map[api.Hazard]api.Outcomes{api.SQL: {api.Threads: "O"}}},
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Modes: []string{"safe"}, Faults: []api.Hazard{api.Replicas}}, ""},
		{Options{Modes: []string{"safe"}, Faults: []api.Hazard{api.Slow}}, "safe (sql), slow: cannot happen to this mode"},
		{Options{Modes: []string{"broken"}, Faults: []api.Hazard{api.Pause}}, "broken (sql), pause: threads breaks the mode already (O)"},
		{Options{Modes: []string{"broken"}, Faults: []api.Hazard{fault.LostReply.Name}}, "threads breaks the mode already"},
		{Options{Modes: []string{"safe"}, Stores: []api.Store{api.Redis}}, "safe keeps its count in sql, not in redis"},
	} {
		err := CheckCells(modes, c.o)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("CheckCells(%v %v) = %v, want %q", c.o.Modes, c.o.Faults, err, c.want)
		}
	}
}
