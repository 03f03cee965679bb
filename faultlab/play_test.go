package faultlab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/target"
	"lastitem/testkit"
)

func TestUnclaimed(t *testing.T) {
	t.Parallel()
	m := api.Mode{Claims: map[api.Store]map[api.Hazard]api.Outcomes{"sql": {api.Slow: "O", api.Pause: ".",
		api.Late: Unclaimed}}}
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
		testkit.Is(t, unclaimed(m, p), test.want, "unclaimed(%s found at %s)", test.outcome, test.fault)
	}
}

// A schedule that showed an unclaimed letter is kept with its story, unless every story stands elsewhere.
func TestUnclaimedIsKept(t *testing.T) {
	t.Parallel()
	odd := played("SET", "O")
	odd.Story = &Story{Lines: []Line{{Actor: "A", Text: "redis: SET stock 4"}}}
	all := []Played{played("GET", "."), odd}
	r, cell := &Result{}, sum(Cell{Mode: "m", Store: api.Redis, Fault: api.Pause, Claim: api.Exact}, all)
	r.add(&lab{}, cell, all)
	if len(r.Unclaimed) != 1 || r.Unclaimed[0].Outcome != "O" {
		t.Errorf("unclaimed are %+v, want the schedule with a story", r.Unclaimed)
	}
	var told Result
	told.add(&lab{told: true}, cell, all)
	if len(told.Unclaimed) > 0 {
		t.Errorf("unclaimed are %+v, want none where every story stands elsewhere", told.Unclaimed)
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
			testkit.Is(t, played(pattern, outcome).shows(shownBy(at(pattern), committed)), want,
				"the schedule at %s with outcome %s shows its letters", pattern, outcome)
		}
	}
	forced := at("SET").expiring(Forced)
	if letters := shownBy(forced, committed); len(letters) != 2 {
		t.Errorf("shownBy(a forced expiry) = %q, want O and X", letters)
	}
}

// Schedules that found no lane because the exploration was interrupted were not played: nothing may be concluded from
// them.
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
	lane := &rig.Lane{Set: &gear.Set{Place: &gear.Place{TTL: ttl}}}
	l := &lab{modes: []api.Mode{{Name: "m", Claims: map[api.Store]map[api.Hazard]api.Outcomes{"sql": {api.Slow: ".",
		api.Pause: "O", api.Threads: "."}}}}}
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
		p := Played{Schedule: Schedule{Mode: "m", Store: "sql", Fault: test.fault}, Outcome: test.outcome,
			silence: test.silence}
		testkit.Is(t, l.stalled(lane, p, test.machine, test.witness), test.want, "%s: stalled()", name)
	}
}

// The cells of a mode whose sessions last have lanes of their own, where locks must expire; they begin first, and the
// other groups run beside them.
func TestPatientLanes(t *testing.T) {
	t.Parallel()
	expiring, plain := &group{equipment: gear.Equipment{Expiry: true}}, &group{}
	patient := &group{equipment: expiring.equipment, patient: true}
	l := &lab{groups: []*group{plain, expiring, patient}}
	consul, lock := api.Mode{Needs: []string{"redis", "consul"}}, api.Mode{Needs: []string{"redis"}}
	for _, c := range []struct {
		fault api.Hazard
		mode  api.Mode
		want  *group
	}{{api.Pause, consul, patient}, {api.Pause, lock, expiring}, {api.Threads, consul, plain},
		{api.Threads, lock, plain}} {
		f, _ := fault.Named(c.fault)
		testkit.Is(t, l.group(f, c.mode), c.want, "%s of a mode that needs %v: group", c.fault, c.mode.Needs)
	}
	if first, rest := patientFirst(l.groups); !slices.Equal(first, []*group{patient}) ||
		!slices.Equal(rest, []*group{plain, expiring}) {
		t.Errorf("patient %v, others %v", first, rest)
	}
}

// at is a schedule that holds A at a command.
func at(pattern string) Schedule {
	return Schedule{Mode: "m", Store: api.Redis, Fault: api.Pause,
		A: &rig.Position{Server: "redis", Pattern: pattern, Nth: 1, Cut: rig.Command}}
}

func played(pattern string, o api.Outcomes) Played { return Played{Schedule: at(pattern), Outcome: o} }

// A cell is compared with its claim both ways, and a schedule that tested nothing is reported as well.
func TestCellIsHeldAgainstItsClaim(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claim  api.Outcomes
		played []Played
		found  api.Outcomes
		wrong  []string // the beginnings of the sentences, in order
	}{
		"exact":             {".", []Played{played("GET", ".")}, ".", nil},
		"broken as claimed": {"OL", []Played{played("GET", "L"), played("SET", "O")}, "OL", nil},
		"found, not claimed": {".", []Played{played("GET", "."), played("SET", "O")}, "O",
			[]string{"found O, which is not claimed: m (redis), pause, A before redis: SET"}},
		"claimed, not found": {"O", []Played{played("GET", ".")}, ".",
			[]string{"claimed O, which no schedule showed"}},
		"one of two found": {"OL", []Played{played("GET", "O")}, "O",
			[]string{"claimed L, which no schedule showed"}},
		"position missed": {".", []Played{played("GET", "."),
			{Schedule: at("SET"), Outcome: Diverged, Why: "gone"}}, ".",
			[]string{"DIVERGED: m (redis), pause, A before redis: SET: gone"}},
		"a server did not answer": {"O", []Played{played("GET", "."),
			{Schedule: at("SET"), Outcome: Diverged, unserved: true}}, ".", nil},
		"nothing to judge": {".", []Played{{Schedule: at("SET"), Outcome: Vacuous, Why: "no data"}}, "",
			[]string{"VACUOUS: m (redis), pause, A before redis: SET: no data"}},
		"nothing was judged": {"O", []Played{{Schedule: at("SET"), Outcome: Failed, Why: "lost"}}, "",
			[]string{"FAILED: m (redis), pause, A before redis: SET: lost"}},
		"broken, no letter": {"O", []Played{played("GET", "O"),
			{Schedule: at("SET"), Outcome: Unexplained, Why: "twins"}}, "O!",
			[]string{"m (redis), pause, A before redis: SET: twins"}},
		"nothing to strike at, once": {".", []Played{played("SET", Idle), played("GET", ".")}, ".", nil},
		"nothing to strike at": {".", []Played{played("SET", Idle)}, "",
			[]string{"VACUOUS: the hazard found nothing to strike at"}},
		"nothing was played":   {".", nil, "", []string{"VACUOUS: no schedule was played"}},
		"more than it claimed": {"L", []Played{played("GET", "LX")}, "LX", []string{"found X"}},
	} {
		got := sum(Cell{Mode: "m", Store: api.Redis, Fault: api.Pause, Claim: c.claim}, c.played)
		tried := len(slices.DeleteFunc(slices.Clone(c.played), func(p Played) bool { return p.Outcome == Idle }))
		if got.Found != c.found || got.Tried != tried {
			t.Errorf("%s: found %q in %d schedules, want %q in %d", name, got.Found, got.Tried, c.found, tried)
		}
		unserved := slices.ContainsFunc(c.played, func(p Played) bool { return p.unserved })
		if unserved != (len((&Result{Cells: []Cell{got}}).Undecided()) > 0) {
			t.Errorf("%s: undecided %q, want a sentence where a server did not answer", name, got.Undecided)
		}
		if !slices.EqualFunc(got.Wrong, c.wrong, strings.HasPrefix) {
			t.Errorf("%s: wrong %q, want %q", name, got.Wrong, c.wrong)
		}
	}
}

// A cell of expiry in which nothing expired, or nothing was confirmed, proves nothing about the other; a part of its
// schedules need not show both.
func TestExpiryHasTwoEnds(t *testing.T) {
	t.Parallel()
	ended := func(state string) Played {
		p := played("GET", ".")
		p.ended = state
		return p
	}
	for name, c := range map[string]struct {
		fault  api.Hazard
		left   int
		played []Played
		want   int
	}{
		"both":              {api.Expiry, 0, []Played{ended("confirmed"), ended("expired")}, 0},
		"nothing expired":   {api.Expiry, 0, []Played{ended("confirmed")}, 1},
		"no payment won":    {api.Expiry, 0, []Played{ended("expired"), ended("cancelled")}, 1},
		"a part":            {api.Expiry, 3, []Played{ended("expired")}, 0},
		"a cancel, doubled": {api.Retry, 0, []Played{ended("cancelled")}, 0},
	} {
		got := sum(Cell{Mode: "m", Store: api.SQL, Fault: c.fault, Claim: ".", Left: c.left}, c.played)
		if len(got.Wrong) != c.want || c.want > 0 && !strings.HasPrefix(got.Wrong[0], string(Vacuous)) {
			t.Errorf("%s: wrong %q, want %d sentences", name, got.Wrong, c.want)
		}
	}
}

// Schedules that could not be judged teach an update of the matrix nothing: the known claim stays.
func TestLearnsFromWhatWasJudged(t *testing.T) {
	t.Parallel()
	l := &lab{o: Options{Learn: true}}
	known := Cell{Mode: "m", Store: api.Redis, Fault: fault.Beyond[0].Name, Claim: "O"}
	for want, all := range map[api.Outcomes][]Played{
		"L": {played("GET", "L")}, ".": {played("GET", ".")}, "O": {{Schedule: at("SET"), Outcome: Failed, Why: "lost"}},
	} {
		testkit.Is(t, l.expect(known, all).Claim, want, "%v: claim", all)
	}
}

// The witness of a letter is the first schedule that shows it.
func TestCellKeepsTheFirstWitness(t *testing.T) {
	t.Parallel()
	all := []Played{played("GET", "."), played("SET", "O"), played("RPUSH", "OL")}
	c := sum(Cell{Claim: "OL"}, all)
	want := map[string]Schedule{"O": at("SET"), "L": at("RPUSH")}
	testkit.Same(t, c.Witnesses, want, "witnesses")
	testkit.Is(t, len(witnesses(c, all)), 2, "schedules that are kept as witnesses")
}

// A schedule whose victim went on before its rival was answered is a witness, and the worst, only if there is no other.
func TestWitnessIsNotEarly(t *testing.T) {
	t.Parallel()
	event := func(all ...rig.What) (events []rig.Event) {
		for _, what := range all {
			events = append(events, rig.Event{What: what})
		}
		return events
	}
	slow, served := played("SET", "OL"), played("RPUSH", "O")
	slow.early = early(event(rig.Held, rig.Asked, rig.Blocked, rig.Passed))
	served.early = early(event(rig.Held, rig.Asked, rig.Answered, rig.Resumed, rig.Passed, rig.Blocked))
	all := []Played{slow, played("GET", "."), served}
	c := sum(Cell{Claim: Unclaimed}, all)
	testkit.Same(t, c.Witnesses, map[string]Schedule{"O": at("RPUSH"), "L": at("SET")}, "witnesses")
	testkit.Is(t, worst(all).Schedule.String(), at("RPUSH").String(), "the worst")
}

// A committed witness that shows its letter stays the witness, whatever the other schedules show beside their own
// letters.
func TestCellKeepsTheCommittedWitness(t *testing.T) {
	t.Parallel()
	committed := map[string]Schedule{"O": at("SET"), "X": at("RPUSH")}
	for _, first := range []api.Outcomes{"O", "OX"} { // the order of two events that the lab does not control
		c := sum(Cell{Claim: "OX", committed: committed}, []Played{played("SET", first), played("RPUSH", "X")})
		testkit.Same(t, c.Witnesses, committed, "witnesses if the first schedule shows %s", first)
	}
}

// A verdict becomes letters; letters that belong to another fault are left out.
func TestOutcomeOfAVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		report judge.Report
		ignore string
		want   api.Outcomes
	}{
		"exact":             {judge.Report{Verdict: judge.Exact}, "", "."},
		"broken":            {judge.Report{Verdict: judge.Broken, Found: "O L"}, "", "OL"},
		"ignored":           {judge.Report{Verdict: judge.Broken, Found: "X"}, "X", "."},
		"ignored, and more": {judge.Report{Verdict: judge.Broken, Found: "L X"}, "X", "L"},
		"ignored, and a rule": {judge.Report{Verdict: judge.Broken, Found: "X",
			Violations: []string{"an order that nobody asked for"}}, "X", Unexplained},
		"ignored, data lacks": {judge.Report{Verdict: judge.Inconclusive, Found: "X"}, "X", Vacuous},
		"broken, no letter":   {judge.Report{Verdict: judge.Broken}, "", Unexplained},
		"the ledger is shut":  {judge.Report{Verdict: judge.Inconclusive}, "", Vacuous},
		"nothing could break": {judge.Report{Verdict: judge.Vacuous}, "X", Vacuous},
	} {
		if got, _ := outcome(c.report, c.ignore); got != c.want {
			t.Errorf("%s: outcome %q, want %q", name, got, c.want)
		}
	}
}

// The committed matrix has the format of 'shop lab --update', so that the diff of an update shows only changed cells.
func TestMatrixIsAsWritten(t *testing.T) {
	t.Parallel()
	m, err := Committed()
	testkit.Must(t, err)
	said, err := m.JSON()
	testkit.Must(t, err)
	if !bytes.Equal(said, committed) {
		t.Error("matrix.json is not what Matrix.JSON writes")
	}
}

// A request that is held until a lock expires, or for as long as one may take to, must not be given up by its client:
// that would be a lost reply. A living session of Consul once outlasted the client by 5 s under slow.
func TestClientsOutlastLocks(t *testing.T) {
	t.Parallel()
	for _, need := range []string{"", "etcd", "zookeeper", "consul"} {
		if d := outlive(api.Mode{Needs: []string{need}}, DefaultTTL); d+5*time.Second > rig.Patience {
			t.Errorf("a lock of %q may outlive its holder by %s, and clients wait %s", need, d, rig.Patience)
		}
	}
}

// A fault that was not played, or that could not strike inside a command, is a "?" with its reason.
func TestUntested(t *testing.T) {
	t.Parallel()
	path := func(pattern string) rig.Path {
		return rig.Path{Steps: []rig.Position{{Server: gear.Database, Pattern: "SELECT a"},
			{Server: gear.Database, Pattern: pattern}}}
	}
	service := target.Foreign{Request: "POST /buy"}
	r := &Result{Serve: &service, Took: time.Second}
	for _, name := range []api.Hazard{api.Threads, api.Replicas, api.Crash} {
		f, _ := fault.Named(name)
		p := played("GET", ".")
		if name == api.Replicas {
			p = played("GET", "O")
		}
		r.add(&lab{}, sum(Cell{Mode: target.ServiceName, Fault: name, Claim: Unclaimed,
			Untested: untested(f, path("CALL buy(?)"))}, []Played{p}), []Played{p})
	}
	r.Cells = append(r.Cells, (&lab{o: Options{Serve: &service}}).untried()...)
	// nothing is left to clean up
	r.Cells = append(r.Cells, sum(Cell{Mode: target.ServiceName, Fault: api.Late, Claim: Unclaimed}, nil))
	if got := r.Untested(); !slices.Equal(got, []string{"threads", "retry"}) || r.Broken() != 1 {
		t.Errorf("untested %v, broken %d, want threads and retry, and replicas broken all the same", got, r.Broken())
	}
	for i, want := range map[int]string{0: `"CALL buy(?)" runs a procedure`, 3: "--repeat-without-key"} {
		if why := r.Cells[i].Untested.String(); !strings.Contains(why, want) {
			t.Errorf("%s is untested because %q, want %q", r.Cells[i].Fault, why, want)
		}
	}
	var said []string
	for _, g := range (&lab{o: Options{Serve: &service, Faults: []api.Hazard{api.Threads, api.Replicas, api.Crash,
		api.Failover, api.Retry, api.Late}}}).gaps(r.Cells) {
		said = append(said, fmt.Sprintf("%v %.16s %.16s", g.Faults, g.What, g.Why))
	}
	testkit.Same(t, said[:len(said)-1], []string{
		"[threads replicas]  \"CALL buy(?)\" ru", "[threads replicas] with the rival h --pairs plays th",
		"[slow pause stale redelivery late-write expiry]  --fault does not", "[late]  the request send",
		"[failover]  the service uses",
		"[retry]  the requests car",
	}, "gaps")
	service.RepeatWithoutKey = true
	got, claim := (&lab{o: Options{Serve: &service}}).untried(), foreignMode(&service).Claims[""][api.Retry]
	if got != nil || claim != Unclaimed {
		t.Errorf("with --repeat-without-key: untried %v, and retry is not played", got)
	}
	differs := rig.Path{Differs: []rig.Position{{Server: "redis", Pattern: "RPOP jobs"}}}
	if why := untested(fault.Crash, differs).String(); !strings.Contains(why, `"RPOP jobs" of redis came in some only`) {
		t.Errorf("where the commands differ crash is untested because %q", why)
	}
	for _, pattern := range []string{"UPDATE stock SET n = n - ? WHERE n >= ?",
		"SELECT n FROM stock WHERE id = ? FOR UPDATE"} {
		if why := untested(fault.Threads, path(pattern)); why != (text.Text{}) {
			t.Errorf("%s: %s, want nothing inside", pattern, why)
		}
	}
}

// A schedule in which the rival never got in proves nothing about a lease that may be longer, and units that somebody
// may bring back are no leak.
func TestLeftOpen(t *testing.T) {
	t.Parallel()
	kept, unsettled, lost := played("GET", "."), played("SET", "."), played("DECR", "O")
	kept.keptOut, unsettled.unsettled = time.Second, true
	ttl, none := rig.Lease{Key: "lock", TTL: time.Second}, rig.Lease{Key: "lease"}
	for name, c := range map[string]struct {
		fault  api.Hazard
		lab    *lab
		played Played
		found  api.Outcomes
		why    string
	}{
		"a lease in a table":    {api.Slow, &lab{}, kept, "?", "kept out all the time, for up to 1s"},
		"its TTL is given":      {api.Slow, &lab{ends: true}, kept, ".", ""},
		"its TTL was seen":      {api.Slow, &lab{leases: []rig.Lease{ttl}}, kept, ".", ""},
		"nobody renews it":      {api.Pause, &lab{leases: []rig.Lease{ttl}}, kept, "?", "--lock-ttl"},
		"a key without a TTL":   {api.Slow, &lab{leases: []rig.Lease{ttl, none}}, kept, "?", "--lock-ttl"},
		"missing, with a relay": {api.Crash, &lab{}, unsettled, "?", "--settle"},
		"broken all the same":   {api.Slow, &lab{}, lost, "O", ""},
		"nothing":               {api.Slow, &lab{}, played("GET", "."), ".", ""},
	} {
		all := []Played{c.played}
		got := sum(c.lab.leftOpen(Cell{Fault: c.fault, Claim: Unclaimed}, all), all)
		if got.Found != c.found || !strings.Contains(got.Untested.En, c.why) || (c.why == "") != (got.Untested.En == "") {
			t.Errorf("%s: found %q, untested because %q; want %q, %q", name, got.Found, got.Untested.En, c.found, c.why)
		}
	}
}

// The number of schedules in all is estimated from the cells that have begun, and from the matrix.
func TestTallyExpects(t *testing.T) {
	t.Parallel()
	var told []Tally
	x := tallying{tell: func(t Tally) { told = append(told, t) }}
	s := Schedule{Mode: "m", Store: api.SQL, Fault: api.Pause}
	x.selected([]int{10, 20, -1})
	x.begin(10, 12)
	x.played(s)
	x.begin(20, 2)
	x.done()
	x.begin(-1, 5)
	want := []Tally{
		{Cells: 3, Expected: 30},
		{Cells: 3, Expected: 12 + 20 + 12},
		{Cells: 3, Expected: 44, Schedules: 1},
		{Cells: 3, Expected: 12 + 2 + 7, Schedules: 1},
		{Cells: 3, Expected: 21, Schedules: 1, Done: 1},
		{Cells: 3, Expected: 19, Schedules: 1, Done: 1},
	}
	for i := range want[2:] {
		want[i+2].Cell = Cell{Mode: "m", Store: api.SQL, Fault: api.Pause}
	}
	if !reflect.DeepEqual(told, want) {
		t.Errorf("told %+v, want %+v", told, want)
	}
}

// What will be played of a cell is known from the matrix: its witnesses, or all its schedules.
func TestGuess(t *testing.T) {
	t.Parallel()
	s := Schedule{Mode: "m", Store: api.SQL, Fault: api.Pause}
	known := Cell{Mode: "m", Store: api.SQL, Fault: api.Pause, Tried: 30, Witnesses: map[string]Schedule{"O": s}}
	exact := Cell{Mode: "m", Store: api.SQL, Fault: api.Threads, Tried: 12}
	l := &lab{matrix: Matrix{Cells: []Cell{known, exact}}}
	guess := func(c Cell, o Options) int { l.o = o; return l.guess(c) }
	for name, got := range map[string][2]int{
		"witnesses":   {guess(known, Options{}), 1},
		"all":         {guess(known, Options{All: true}), 30},
		"exact":       {guess(exact, Options{}), 12},
		"unknown":     {guess(Cell{Mode: "other"}, Options{}), -1},
		"with a pair": {guess(exact, Options{Pairs: true}), -1},
	} {
		testkit.Is(t, got[0], got[1], "%s: guess()", name)
	}
}
