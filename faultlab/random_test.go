package faultlab

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// The same seed draws the same schedules, each hazard can play its schedules, and every position, cut and variant is drawn.
func TestDrawn(t *testing.T) {
	t.Parallel()
	var steps []rig.Position
	for _, pattern := range []string{"SET", "GET", "SET", "DEL"} {
		steps = append(steps, rig.Position{Server: "redis", Pattern: pattern, Nth: 1, Cut: rig.Command})
	}
	path := rig.Path{Steps: steps, Finished: 3}
	for _, f := range fault.Ladder {
		draw := func(n uint64) (Schedule, bool) {
			return drawn(api.Mode{Name: "m"}, Cell{Mode: "m", Store: api.Redis, Fault: f.Name}, path, rand.New(rand.NewPCG(7, n)))
		}
		kinds, orders, none := map[string]bool{}, map[string]bool{}, 0
		for n := range uint64(400) {
			s, ok := draw(n)
			again, _ := draw(n)
			if s.String() != again.String() {
				t.Fatalf("%s: %s, and the second time %s", f.Name, s, again)
			}
			switch {
			case !ok:
				none++
				continue
			case s.A == nil && !f.AtEnd:
				t.Errorf("%s: nobody is held: %s", f.Name, s)
			case s.A != nil && !slices.Contains(f.Cuts, s.A.Cut):
				t.Errorf("%s: a cut of another hazard: %s", f.Name, s)
			case s.A != nil && f.Finished && s.A.Pattern != "DEL":
				t.Errorf("%s: the victim has not finished: %s", f.Name, s)
			case f.Rival && s.B == nil || s.B != nil && !f.Rival && !f.Pairs:
				t.Errorf("%s: the rival: %s", f.Name, s)
			case s.C != nil && s.B == nil || (s.C == nil) != (s.Order == ""):
				t.Errorf("%s: the third request: %s", f.Name, s)
			case s.Check() != nil:
				t.Errorf("%s: %s: %v", f.Name, s, s.Check())
			}
			kinds[fmt.Sprint(s.A == nil, s.B == nil, s.Variant)] = true
			if s.C != nil {
				orders[s.Order] = true
			}
			if s.A != nil {
				kinds[s.A.Pattern+string(s.A.Cut)] = true
			}
		}
		if thirds := f.Pairs; thirds && len(orders) != len(fault.Orders) || !thirds && len(orders) > 0 {
			t.Errorf("%s: orders of three in 400 draws: %v", f.Name, orders)
		}
		want := 3 * len(f.Cuts)
		if f.Finished {
			want = len(f.Cuts)
		}
		if len(kinds) < want || none == 400 {
			t.Errorf("%s: only %v in 400 draws, %d of them none", f.Name, kinds, none)
		}
	}
}
