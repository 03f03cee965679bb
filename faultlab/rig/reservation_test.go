package rig

import "testing"

// A and C sweep, and only on a lane that wants it.
func TestTwoSweepers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sweeps bool
		name   string
		want   int
	}{{true, "A", 2}, {true, "B", 1}, {true, "C", 2}, {false, "C", 1}} {
		a := &Actor{Name: c.name, lane: &Lane{sweeps: c.sweeps, settings: []string{"X=1"}}}
		if got := a.settings(); len(got) != c.want {
			t.Errorf("%s on a lane that sweeps: %t has the settings %q", c.name, c.sweeps, got)
		}
	}
}
