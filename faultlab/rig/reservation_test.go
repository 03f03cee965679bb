package rig

import (
	"testing"

	"lastitem/faultlab/rig/gear"
	"lastitem/testkit"
)

// A and C sweep, and only on a lane that wants it.
func TestTwoSweepers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sweeps bool
		name   string
		want   int
	}{{true, "A", 2}, {true, "B", 1}, {true, "C", 2}, {false, "C", 1}} {
		l := &Lane{Set: &gear.Set{Place: &gear.Place{}}, settings: []string{"X=1"},
			turns: workOf(gear.Equipment{Sweep: c.sweeps})}
		testkit.Must(t, l.wire())
		for _, a := range l.actors() {
			if a.Name == c.name && len(a.settings) != c.want {
				t.Errorf("%s on a lane that sweeps: %t has the settings %q", c.name, c.sweeps, a.settings)
			}
		}
	}
}
