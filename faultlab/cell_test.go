package faultlab

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/internal/api"
	"lastitem/internal/audit"
)

// at is a schedule that holds A at a command.
func at(pattern string) Schedule {
	return Schedule{Mode: "m", Store: api.Redis, Fault: api.Pause, A: &rig.Position{Server: "redis", Pattern: pattern, Nth: 1, Cut: rig.Command}}
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
		"exact":                      {".", []Played{played("GET", ".")}, ".", nil},
		"broken as claimed":          {"OL", []Played{played("GET", "L"), played("SET", "O")}, "OL", nil},
		"found, not claimed":         {".", []Played{played("GET", "."), played("SET", "O")}, "O", []string{"found O, which is not claimed: m (redis), pause, A before redis: SET"}},
		"claimed, not found":         {"O", []Played{played("GET", ".")}, ".", []string{"claimed O, which no schedule showed"}},
		"one of two found":           {"OL", []Played{played("GET", "O")}, "O", []string{"claimed L, which no schedule showed"}},
		"position missed":            {".", []Played{played("GET", "."), {Schedule: at("SET"), Outcome: Diverged, Why: "gone"}}, ".", []string{"DIVERGED: m (redis), pause, A before redis: SET: gone"}},
		"nothing to judge":           {".", []Played{{Schedule: at("SET"), Outcome: Vacuous, Why: "no data"}}, "", []string{"VACUOUS: m (redis), pause, A before redis: SET: no data"}},
		"nothing was judged":         {"O", []Played{{Schedule: at("SET"), Outcome: Failed, Why: "lost"}}, "", []string{"FAILED: m (redis), pause, A before redis: SET: lost"}},
		"broken, no letter":          {"O", []Played{played("GET", "O"), {Schedule: at("SET"), Outcome: Unexplained, Why: "twins"}}, "O!", []string{"m (redis), pause, A before redis: SET: twins"}},
		"nothing to strike at, once": {".", []Played{played("SET", Idle), played("GET", ".")}, ".", nil},
		"nothing to strike at":       {".", []Played{played("SET", Idle)}, "", []string{"VACUOUS: the hazard found nothing to strike at"}},
		"nothing was played":         {".", nil, "", []string{"VACUOUS: no schedule was played"}},
		"more than it claimed":       {"L", []Played{played("GET", "LX")}, "LX", []string{"found X"}},
	} {
		got := sum(Cell{Mode: "m", Store: api.Redis, Fault: api.Pause, Claim: c.claim}, c.played)
		tried := len(slices.DeleteFunc(slices.Clone(c.played), func(p Played) bool { return p.Outcome == Idle }))
		if got.Found != c.found || got.Tried != tried {
			t.Errorf("%s: found %q in %d schedules, want %q in %d", name, got.Found, got.Tried, c.found, tried)
		}
		if !slices.EqualFunc(got.Wrong, c.wrong, strings.HasPrefix) {
			t.Errorf("%s: wrong %q, want %q", name, got.Wrong, c.wrong)
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
		if got := l.expect(known, all).Claim; got != want {
			t.Errorf("%v: claim %q, want %q", all, got, want)
		}
	}
}

// The witness of a letter is the first schedule that shows it.
func TestCellKeepsTheFirstWitness(t *testing.T) {
	t.Parallel()
	c := sum(Cell{Claim: "OL"}, []Played{played("GET", "."), played("SET", "O"), played("RPUSH", "OL")})
	want := map[string]Schedule{"O": at("SET"), "L": at("RPUSH")}
	if diff := cmp.Diff(want, c.Witnesses); diff != "" {
		t.Errorf("witnesses (-want +got):\n%s", diff)
	}
}

// A committed witness that shows its letter stays the witness, whatever the other schedules show beside their own letters.
func TestCellKeepsTheCommittedWitness(t *testing.T) {
	t.Parallel()
	committed := map[string]Schedule{"O": at("SET"), "X": at("RPUSH")}
	for _, first := range []api.Outcomes{"O", "OX"} { // the order of two events that the lab does not control
		c := sum(Cell{Claim: "OX", committed: committed}, []Played{played("SET", first), played("RPUSH", "X")})
		if diff := cmp.Diff(committed, c.Witnesses); diff != "" {
			t.Errorf("witnesses if the first schedule shows %s (-want +got):\n%s", first, diff)
		}
	}
}

// A verdict becomes letters; letters that belong to another fault are left out.
func TestOutcomeOfAVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		report audit.Report
		ignore string
		want   api.Outcomes
	}{
		"exact":               {audit.Report{Verdict: audit.Exact}, "", "."},
		"broken":              {audit.Report{Verdict: audit.Broken, Found: "O L"}, "", "OL"},
		"ignored":             {audit.Report{Verdict: audit.Broken, Found: "X"}, "X", "."},
		"ignored, and more":   {audit.Report{Verdict: audit.Broken, Found: "L X"}, "X", "L"},
		"ignored, and a rule": {audit.Report{Verdict: audit.Broken, Found: "X", Violations: []string{"an order that nobody asked for"}}, "X", Unexplained},
		"ignored, data lacks": {audit.Report{Verdict: audit.Inconclusive, Found: "X"}, "X", Vacuous},
		"broken, no letter":   {audit.Report{Verdict: audit.Broken}, "", Unexplained},
		"the ledger is shut":  {audit.Report{Verdict: audit.Inconclusive}, "", Vacuous},
		"nothing could break": {audit.Report{Verdict: audit.Vacuous}, "X", Vacuous},
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
	if err != nil {
		t.Fatal(err)
	}
	text, err := m.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, committed) {
		t.Error("matrix.json is not what Matrix.JSON writes")
	}
}

// A request that is held until a lock expires, or for as long as one may take to, must not be given up by its client: that would be a lost
// reply. A living session of Consul once outlasted the client by 5 s under slow.
func TestClientsOutlastLocks(t *testing.T) {
	t.Parallel()
	for _, need := range []string{"", "etcd", "zookeeper", "consul"} {
		if d := outlive(api.Mode{Needs: []string{need}}, DefaultTTL); d+5*time.Second > rig.Patience {
			t.Errorf("a lock of %q may outlive its holder by %s, and clients wait %s", need, d, rig.Patience)
		}
	}
}
