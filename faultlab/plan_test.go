package faultlab

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/judge"
	"lastitem/target"
	"lastitem/testkit"
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

func TestDescendants(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		children map[int][]int
		want     []int
	}{
		"alone":                {map[int][]int{2: {3}}, []int{1}},
		"two generations":      {map[int][]int{1: {2, 3}, 3: {4}}, []int{1, 2, 3, 4}},
		"a pid was used again": {map[int][]int{1: {2}, 2: {3}, 3: {2}}, []int{1, 2, 3}},
	} {
		if got := descendants(1, test.children); !slices.Equal(got, test.want) {
			t.Errorf("%s: descendants(1) = %v, want %v", name, got, test.want)
		}
	}
}

// Blocked follows from the answers between the holder's pause and its resumption.
func TestBlockedFor(t *testing.T) {
	t.Parallel()
	event := func(actor string, what rig.What, text string) rig.Event {
		return rig.Event{Actor: actor, What: what, Text: text}
	}
	asked, paused, resumed := event("B", rig.Asked, ""), event("A", rig.Paused, ""), event("A", rig.Resumed, "")
	ok, busy := event("B", rig.Answered, "ok"), event("B", rig.Answered, "declined lock_busy")
	for name, c := range map[string]struct {
		events []rig.Event
		want   Blocked
	}{
		"nobody stood still": {[]rig.Event{asked, ok}, ""},
		"served at once":     {[]rig.Event{paused, asked, ok, resumed}, NotBlocked},
		"sold out is served": {[]rig.Event{paused, asked, event("B", rig.Answered, "refused sold_out"), resumed},
			NotBlocked},
		"served after a while":     {[]rig.Event{paused, asked, busy, asked, busy, asked, ok, resumed}, UntilLease},
		"never turned away, stuck": {[]rig.Event{paused, asked, event("B", rig.Blocked, ""), resumed, ok}, UntilHolder},
		"turned away to the end":   {[]rig.Event{paused, asked, busy, asked, busy, resumed, asked, ok}, UntilHolder},
		"A's own answer":           {[]rig.Event{paused, event("A", rig.Answered, "ok"), asked, busy, resumed}, UntilHolder},
	} {
		testkit.Is(t, blockedFor(c.events), c.want, "%s", name)
		cell := sum(Cell{Fault: api.Pause, Claim: Unclaimed}, []Played{{Outcome: api.Exact, Blocked: c.want,
			Report: judge.Report{Blocked: 2 * time.Second}}})
		kept := c.want == UntilLease || c.want == UntilHolder
		testkit.Is(t, cell.BlockedFor > 0, kept, "%s: blocked %q, for %v: others kept out", name, cell.Blocked,
			cell.BlockedFor)
	}
}

// The same seed draws the same schedules, each hazard can play its schedules, and every position, cut and variant is
// drawn.
func TestDrawn(t *testing.T) {
	t.Parallel()
	var steps []rig.Position
	for _, pattern := range []string{"SET", "GET", "SET", "DEL"} {
		steps = append(steps, rig.Position{Server: "redis", Pattern: pattern, Nth: 1, Cut: rig.Command, Plain: true})
	}
	path := rig.Path{Steps: steps, Finished: 3}
	for _, f := range fault.Ladder {
		draw := func(n uint64) (Schedule, bool) {
			rng, variant := rand.New(rand.NewPCG(7, n)), ""
			if f.Variants != nil {
				variant = pick(rng, f.Variants(api.Mode{Name: "m"}))
			}
			return drawn(Cell{Mode: "m", Store: api.Redis, Fault: f.Name}, variant, path, path, rng)
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
		if thirds := f.ThirdHeld(); thirds && len(orders) != len(fault.Orders) || !thirds && len(orders) > 0 {
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

// A file with a schedule that cannot be played is refused before anything is started; every committed witness can be
// played.
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
		"expiry does not hold a third request":     {Fault: api.Expiry, A: held, B: held, C: held},
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
		{Fault: api.Pause, A: held, B: held, C: held, Order: "CAB", Expiry: Forced},
		{Fault: api.Slow, A: held, B: held, C: held},
		{Fault: api.Crash, A: held, Expiry: Forced}, {Fault: api.Pause, A: held, Expiry: Awaited},
	} {
		testkit.Is(t, s.Check(), nil, "Check(%v)", s)
	}
	matrix, err := Committed()
	testkit.Must(t, err)
	for _, c := range matrix.Cells {
		for letter, s := range c.Witnesses {
			testkit.Is(t, s.Check(), nil, "the witness of %s %s %s %s", c.Mode, c.Store, c.Fault, letter)
		}
	}
}

// Requests about reservations are played with the last unit, on modes that hold units only.
func TestReservations(t *testing.T) {
	t.Parallel()
	if got := fault.Retry.Variants(api.Mode{}); len(got) != 1 {
		t.Errorf("retry of a mode that holds nothing has the variants %q", got)
	}
	variants := fault.Retry.Variants(api.Mode{Reserves: true, Cart: true})
	for _, variant := range variants[1:] {
		about := fault.Retry.About(variant)
		want := int64(1)
		if about.Part > 0 {
			want = 3
		}
		if about.Limited {
			want++ // so that the limit refuses, and not the stock
		}
		if got := fault.Retry.Stock(variant); about.Kind == "" || got != want {
			t.Errorf("retry %q: A asks for %+v, of %d units, want %d", variant, about, got, want)
		}
		if about.Cart && slices.Contains(fault.Retry.Variants(api.Mode{Reserves: true}), variant) {
			t.Errorf("retry %q of a mode without carts", variant)
		}
	}
	testkit.Is(t, fault.Retry.Stock(""), rig.Stock, "the units of a deduction")
	testkit.Is(t, len(variants), 27, "the variants of retry")
	for _, variant := range fault.Expiry.Variants(api.Mode{Cart: true}) {
		about := fault.Expiry.About(variant)
		late := strings.HasPrefix(variant, "late-") || about.Rehold || about.Kind == rig.SweepDue
		if about.Kind == "" || about.Overdue != late {
			t.Errorf("expiry %q: A asks for %+v", variant, about)
		} else if sweep := fault.Expiry.Rivals(variant); sweep.Kind != "" && sweep.Units() != about.Units() {
			t.Errorf("expiry %q is about %d units, and its rival sweeps %d", variant, about.Units(), sweep.Units())
		}
	}
	for _, variant := range fault.Replicas.Variants(api.Mode{Adjusts: true})[1:] {
		testkit.Is(t, fault.Replicas.Stock(variant), 1, "the units of replicas %s", variant)
	}
	if foreignMode(&target.Foreign{}).Claims[""][api.Expiry] != "" {
		t.Error("expiry is played on a foreign service, whose reservations the lab does not know")
	}
}

// A file that is older than third requests and forced expiry keeps its meaning; a new file stores both.
func TestScheduleFile(t *testing.T) {
	t.Parallel()
	const old = `{"mode":"lua-lock","store":"sql","fault":"pause",` +
		`"a":{"server":"redis","pattern":"GET","nth":1,"cut":"command"},` +
		`"b":{"server":"redis","pattern":"SET","nth":2,"cut":"answer"}}`
	added := strings.TrimSuffix(old, "}") +
		`,"c":{"server":"sql","pattern":"COMMIT","nth":1,"cut":"command"},"order":"CBA","expiry":"forced"}`
	for _, file := range []string{old, added} {
		var s Schedule
		testkit.Must(t, errors.Join(json.Unmarshal([]byte(file), &s), s.Check()))
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
	claims := map[api.Hazard]api.Outcomes{api.Threads: ".", api.Replicas: ".", api.Slow: "–", api.Retry: "O"}
	modes := []api.Mode{
		{Name: "safe", Stores: []api.Store{api.SQL}, Claims: map[api.Store]map[api.Hazard]api.Outcomes{api.SQL: claims}},
		{Name: "broken", Stores: []api.Store{api.SQL},
			Claims: map[api.Store]map[api.Hazard]api.Outcomes{api.SQL: {api.Threads: "O"}}},
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Modes: []string{"safe"}, Faults: []api.Hazard{api.Replicas}}, ""},
		{Options{Modes: []string{"safe"}, Faults: []api.Hazard{api.Slow}}, "safe (sql), slow: cannot happen to this mode"},
		{Options{Modes: []string{"safe"}, Faults: []api.Hazard{api.Expiry}}, "expiry: retry breaks the mode already (O)"},
		{Options{Modes: []string{"broken"}, Faults: []api.Hazard{api.Pause}},
			"broken (sql), pause: threads breaks the mode already (O)"},
		{Options{Modes: []string{"broken"}, Faults: []api.Hazard{fault.LostReply.Name}}, "threads breaks the mode already"},
		{Options{Modes: []string{"safe"}, Stores: []api.Store{api.Redis}}, "safe keeps its count in sql, not in redis"},
	} {
		err := CheckCells(modes, c.o)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("CheckCells(%v %v) = %v, want %q", c.o.Modes, c.o.Faults, err, c.want)
		}
	}
}

// Options.For plays the schedules at commands that write first; the seed decides their order. The rest is not begun,
// and the report says so.
func TestFitsIntoTime(t *testing.T) {
	t.Parallel()
	order := func(seed uint64) (verbs []string) {
		all := []Schedule{at("GET k"), at("SET a"), at("LRANGE k"), at("SET b"), at("SET c"), at("SET d"), at("EVAL e")}
		telling(all, seed)
		for _, s := range all {
			verbs = append(verbs, s.A.Pattern)
		}
		return verbs
	}
	if first := order(1); strings.Contains(strings.Join(first[:5], " "), "k") || slices.Equal(first, order(2)) {
		t.Errorf("the order is %q, with another seed %q; want what writes first", first, order(2))
	}
	testkit.Same(t, order(1), order(1), "the same seed")
	l := &lab{o: Options{For: time.Minute}}
	g := &group{free: make(chan *rig.Lane, 1), cells: make([]Cell, 4)}
	g.free <- nil
	l.groups = []*group{g}
	if l.allot(g, groupsAtOnce); time.Until(g.ends) < 50*time.Second {
		t.Errorf("a group alone ends in %v, want all the time", time.Until(g.ends))
	}
	if g.begin(2, 0); time.Until(g.until) > 30*time.Second || l.over(g) {
		t.Errorf("the third of four cells ends in %v, want half the time", time.Until(g.until))
	}
	if g.begin(2, time.Hour); time.Until(g.until) < 30*time.Minute {
		t.Errorf("after a trace of an hour the third cell ends in %v, want half of it more", time.Until(g.until))
	}
	g.until = time.Now().Add(-time.Second)
	wait, err := l.start(t.Context(), g, []Schedule{at("SET"), at("GET")}, nil)
	played, failed := wait()
	if err != nil || failed != nil || len(played) != 0 || len(g.free) != 1 {
		t.Errorf("start() = %v and %v, played %v, %d lanes free; want nothing played", err, failed, played, len(g.free))
	}
	theirs := sum(l.cut(Cell{Claim: Unclaimed}, 2), nil)
	if !strings.Contains(theirs.Untested.En, "2 schedules did not fit into --for 1m0s") || theirs.Found != Untested {
		t.Errorf("a service: found %q, untested %q", theirs.Found, theirs.Untested.En)
	}
	if ours := sum(l.cut(Cell{Claim: "O"}, 2), nil); len(ours.Undecided) != 1 || len(ours.Wrong) != 0 || ours.Found != "" {
		t.Errorf("a mode: found %q, wrong %q, undecided %q", ours.Found, ours.Wrong, ours.Undecided)
	}
}
