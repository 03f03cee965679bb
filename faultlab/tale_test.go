package faultlab

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// Every committed witness has a recorded story that shows its letters and holds A where the schedule says, and no story is left over.
func TestTalesOfWitnesses(t *testing.T) {
	t.Parallel()
	matrix, err := Committed()
	if err != nil {
		t.Fatal(err)
	}
	tales, err := Tales()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Tale{}
	for _, x := range tales {
		byName[x.Schedule] = x
	}
	if len(byName) != len(tales) || len(tales) < 700 {
		t.Errorf("%d stories of %d schedules, want one each, and some hundred", len(tales), len(byName))
	}
	for _, w := range matrix.Witnesses() {
		name := w.Schedule.String()
		x, there := byName[name]
		delete(byName, name)
		switch {
		case !there:
			t.Errorf("%s has no story: 'shop lab --tell faultlab/stories' records it", name)
		case !w.Shows(x.Outcome):
			t.Errorf("the story of %s shows %s, want %s", name, x.Outcome, w.Letters)
		case w.Schedule.A != nil && !has(x, rig.Held) && !has(x, rig.Broken):
			t.Errorf("in the story of %s nobody is held", name)
		}
		for i, s := range x.Steps {
			if i > 0 && s.At < x.Steps[i-1].At || !slices.Contains([]string{"A", "B", "C"}, s.Actor) || s.Event == "" && s.Text == "" {
				t.Errorf("%s: step %d, %+v, is out of order or empty", name, i, s)
			}
		}
	}
	for name := range byName {
		t.Errorf("%s is no witness any more: 'shop lab --tell faultlab/stories' takes its story out", name)
	}
}

func has(x Tale, e rig.What) bool {
	for _, s := range x.Steps {
		if s.Event == e {
			return true
		}
	}
	return false
}

// A step survives JSON, to a tenth of a millisecond, and clients that are refused again and again become one step.
func TestTaleFolds(t *testing.T) {
	t.Parallel()
	p := Played{Outcome: "O", Story: &Story{Initial: 10, Left: 8, Ordered: 3, Lines: []Line{
		{At: 1234567 * time.Nanosecond, Actor: "A", Event: rig.Held, Text: "before redis: GET"},
		{At: 2 * time.Millisecond, Actor: "B", Event: rig.Asked}, {At: 3 * time.Millisecond, Actor: "B", Event: rig.Answered, Text: "declined lock_busy"},
		{At: 4 * time.Millisecond, Actor: "B", Event: rig.Asked}, {At: 5 * time.Millisecond, Actor: "B", Event: rig.Answered, Text: "declined lock_busy"},
		{At: 6 * time.Millisecond, Actor: "B", Text: "redis: SET x"},
	}}}
	text, err := talesJSON([]Tale{p.tale()})
	if err != nil {
		t.Fatal(err)
	}
	const want = `[
{"schedule":", ","outcome":"O","why":"","initial":10,"left":8,"ordered":3,"steps":[[1.2,"A","held","before redis: GET"],[2,"B","busy","2"],[6,"B","","redis: SET x"]]}
]
`
	if string(text) != want {
		t.Errorf("talesJSON = %s, want %s", text, want)
	}
	var back []Tale
	if err := json.Unmarshal(text, &back); err != nil || back[0].Steps[0] != (Step{1200 * time.Microsecond, "A", rig.Held, "before redis: GET"}) {
		t.Errorf("read back: %+v, %v", back, err)
	}
}

// Retell adds played schedules, keeps the tales it has, drops those that are no witnesses, and names a schedule that did not show its letter.
func TestRetell(t *testing.T) {
	t.Parallel()
	held := func(at string) Schedule {
		return Schedule{Mode: "m", Fault: api.Slow, A: &rig.Position{Server: "redis", Pattern: at, Nth: 1, Cut: rig.Command}}
	}
	one, two, three := held("GET"), held("SET"), held("DEL")
	m := Matrix{Cells: []Cell{{Mode: "m", Fault: api.Slow, Witnesses: map[string]Schedule{"O": one, "L": two, "A": three}}}}
	all, err := m.Retell([]Tale{{Schedule: two.String(), Why: "known"}, {Schedule: "gone"}},
		[]Played{{Schedule: one, Outcome: "OL", Story: &Story{}}, {Schedule: three, Outcome: api.Exact, Story: &Story{}}})
	if err == nil || !strings.Contains(err.Error(), three.String()+": ., want A") || strings.Contains(err.Error(), one.String()) {
		t.Errorf("Retell: %v, want that the third schedule did not show A", err)
	}
	names := map[string]string{}
	for _, x := range all {
		names[x.Schedule] = string(x.Outcome) + x.Why
	}
	if len(names) != 2 || names[one.String()] != "OL" || names[two.String()] != "known" {
		t.Errorf("Retell = %v, want the new story of one and the known one of two", names)
	}
}

// Stories survive a directory with a file for each mode; the file of a mode without stories is removed.
func TestTalesOfDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := []Tale{{Schedule: "a (redis), slow, A", Outcome: "O"}, {Schedule: "a (sql), slow, A"}, {Schedule: "b, slow, A", Steps: []Step{{Actor: "A", Text: "GET"}}}}
	for _, all := range [][]Tale{append([]Tale{{Schedule: "gone, slow, A"}}, want...), want} {
		if err := WriteTales(dir, all); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadTales(os.DirFS(dir))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ReadTales = %+v, %v; want %+v", got, err, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "c.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTales(os.DirFS(dir)); err == nil || !strings.Contains(err.Error(), "c.json") {
		t.Errorf("ReadTales of a broken file: %v, want its name", err)
	}
}
