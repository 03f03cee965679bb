package rig

import (
	"net/http"
	"testing"

	"lastitem/faultlab/rig/gear"
	"lastitem/target"
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

// The buyer of an order that is to be cancelled and the last customer are arranged before the purchase, without the
// time limit of buyers who come while a fault is at work.
func TestBoughtIsArranged(t *testing.T) {
	t.Parallel()
	f := target.Foreign{Buy: []target.Step{{Method: http.MethodPost, Path: "/buy"}}}
	l := idle(t, Service{Waits: true, learnt: &learnt{}})
	l.client, l.B.URL = http.DefaultClient, testkit.Serve(t, http.NotFoundHandler()).URL
	s := &Scene{Lane: l, buyers: buyers{client: l.client, begin: func() *target.Visit { return f.NewVisit(1, 1, "") }}}
	_, err := bought(t.Context(), s)
	spare := [2]int{len(s.buyers.spare[l.B.URL]), len(s.buyers.spare[l.C.URL])}
	testkit.Is(t, spare, [2]int{1, 2}, "buyers of B and C who are left (%v)", err)
}
