package faultlab

import (
	"encoding/json"
	"errors"
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
		`a third request is not held at a cut "si`: {Fault: api.Pause, A: held, B: held, C: broken},
		"crash does not hold a third request":      {Fault: api.Crash, A: held, B: held, C: held},
		"late does not hold a third request":       {Fault: api.Late, A: held, B: held, C: held},
		"pause does not hold a third request here": {Fault: api.Pause, A: held, C: held},
		"there is no position c":                   {Fault: api.Pause, A: held, B: held, Order: "BAC"},
		`the order "ABB" is none of A, B and C`:    {Fault: api.Pause, A: held, B: held, C: held, Order: "ABB"},
		`locks do not expire "forced" in a sched`:  {Fault: api.Slow, A: held, Expiry: Forced},
		`locks do not expire "now" in a schedule`:  {Fault: api.Pause, A: held, Expiry: "now"},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check(%v) = %v, want %q", s, err, want)
		}
	}
	for _, s := range []Schedule{
		{Fault: api.Pause, A: held, B: held, C: held, Order: "CAB", Expiry: Forced}, {Fault: api.Slow, A: held, B: held, C: held},
		{Fault: api.Crash, A: held, Expiry: Forced}, {Fault: api.Pause, A: held, Expiry: Awaited},
	} {
		if err := s.Check(); err != nil {
			t.Errorf("Check(%v) = %v, want nil", s, err)
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

// A file that is older than third requests and forced expiry keeps its meaning; a new file stores both.
func TestScheduleFile(t *testing.T) {
	t.Parallel()
	const old = `{"mode":"lua-lock","store":"sql","fault":"pause","a":{"server":"redis","pattern":"GET","nth":1,"cut":"command"},` +
		`"b":{"server":"redis","pattern":"SET","nth":2,"cut":"answer"}}`
	added := strings.TrimSuffix(old, "}") + `,"c":{"server":"sql","pattern":"COMMIT","nth":1,"cut":"command"},"order":"CBA","expiry":"forced"}`
	for _, file := range []string{old, added} {
		var s Schedule
		if err := errors.Join(json.Unmarshal([]byte(file), &s), s.Check()); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(s); err != nil || string(got) != file {
			t.Errorf("written again: %s, %v; want %s", got, err, file)
		}
		if s.Order == "CBA" && !strings.HasSuffix(s.String(), "C before sql: COMMIT, on in the order CBA, expiry forced") {
			t.Errorf("String() = %q", s)
		}
	}
}

// If nothing can be played, the reason names the mode and the obstacle.
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
