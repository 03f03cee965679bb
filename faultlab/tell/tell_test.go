package tell

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"lastitem/contract/api"
	"lastitem/faultlab"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/testkit"
)

// Where stderr is no terminal, the lab says now and then how far it is, without a control character, and the lines of
// others are left alone.
func TestStatusLineElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		line := NewStatusLine(&out, "zh")
		cell := faultlab.Cell{Mode: "lua-lock", Store: api.SQL, Fault: api.Pause}
		for n := range 61 { // a schedule a second
			line.Tally(faultlab.Tally{Cells: 4, Done: 1, Schedules: n + 1, Expected: 121, Cell: cell})
			if n == 40 {
				fmt.Fprintln(line, "a cell")
			}
			time.Sleep(time.Second)
		}
		line.Clear()
		spark := "  " + strings.Repeat("█", lineRates) + " 1.0/秒"
		want := "[1/4] lua-lock sql pause  调度 31/121" + spark + "  约剩 1m30s\na cell\n[1/4] lua-lock sql pause  调度 61/121" +
			spark + "  约剩 1m0s\n"
		if out.String() != want {
			t.Errorf("the lab said:\n%s\nwant:\n%s", out.String(), want)
		}
	})
}

// How long it takes follows the schedules of late where they take longer than those before.
func TestStatusLineSlows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		line := NewStatusLine(&out, "en")
		for n := range 30 {
			line.Tally(faultlab.Tally{Cells: 1, Schedules: n + 1, Expected: 40})
			time.Sleep(map[bool]time.Duration{true: 100 * time.Millisecond, false: lineSlow}[n < 20])
		}
		if !strings.Contains(out.String(), "30 of 40 schedules") || !strings.Contains(out.String(), "about 5m0s left") {
			t.Errorf("the lab said:\n%s\nwant the ten that are left at 30 s each", out.String())
		}
	})
}

// The repeated refusals of a rival take one line of the story.
func TestStoryFoldsBusyAnswers(t *testing.T) {
	t.Parallel()
	var lines []faultlab.Line
	add := func(actor string, event rig.What, text string) {
		lines = append(lines, faultlab.Line{At: time.Duration(len(lines)) * time.Millisecond, Actor: actor,
			Event: event, Text: text})
	}
	add("A", rig.Held, "before redis: SET stock:{#}")
	for range 3 {
		add("B", rig.Asked, "")
		add("B", "", "redis: SET lock NX")
		add("B", rig.Answered, "declined lock_busy")
	}
	add("B", rig.Asked, "")
	add("B", "", "redis: SET lock NX")
	add("B", rig.Answered, "ok")
	var b strings.Builder
	writeStory(&b, &faultlab.Story{Lines: lines, Initial: 10, Left: 9, Ordered: 1}, storyTexts.In("en"))
	text := b.String()
	for what, times := range map[string]int{"> asks 3 times: lock_busy": 1, "> a client asks": 1, "SET lock NX": 1,
		"< ok": 1, "ledger: 10 at first, 9 left, 1 ordered": 1} {
		if got := strings.Count(text, what); got != times {
			t.Errorf("%q stands %d times, want %d:\n%s", what, got, times, text)
		}
	}
}

// The hazards of the ladder stand in one table. Of all hazards each has its column, in several tables that fit, and a
// row is where it has a cell.
func TestOutcomesFit(t *testing.T) {
	t.Parallel()
	var ladder []api.Hazard
	for _, f := range fault.Ladder {
		ladder = append(ladder, f.Name)
	}
	if got := bands(ladder); len(got) != 1 {
		t.Errorf("the ladder takes %d tables, want 1", len(got))
	}
	all := fault.Names()
	if got := slices.Concat(bands(all)...); !slices.Equal(got, all) {
		t.Errorf("the tables have %v, want %v", got, all)
	}
	r := &faultlab.Result{}
	for _, name := range all {
		r.Cells = append(r.Cells, faultlab.Cell{Mode: "m", Store: api.SQL, Fault: name, Found: api.Exact})
	}
	r.Cells = append(r.Cells, faultlab.Cell{Mode: "n", Store: api.SQL, Fault: all[0], Found: "O", Wrong: []string{"why"}})
	var b strings.Builder
	writeTable(&b, r, "en")
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); n > 136 {
			t.Errorf("%d columns, want at most 136: %s", n, line)
		}
	}
	if n := strings.Count(b.String(), "\nm "); n != len(bands(all)) {
		t.Errorf("mode m has %d rows, want one in each of %d tables", n, len(bands(all)))
	}
	if n := strings.Count(b.String(), "\nn "); n != 1 || !strings.Contains(b.String(), "O (!)") {
		t.Errorf("mode n has %d rows, want one, with O (!):\n%s", n, b.String())
	}
}

// Every hazard of the ladder is seen to break a mode. Every committed witness has a recorded story that shows
// its letters and holds A where the schedule says, and no story is left over.
func TestTalesOfWitnesses(t *testing.T) {
	t.Parallel()
	matrix, err := faultlab.Committed()
	testkit.Must(t, err)
	tales, err := Tales()
	testkit.Must(t, err)
	byName := map[string]Tale{}
	for _, x := range tales {
		byName[x.Schedule] = x
	}
	for _, f := range fault.Ladder {
		if !slices.ContainsFunc(matrix.Witnesses(), func(w faultlab.Witness) bool { return w.Schedule.Fault == f.Name }) {
			t.Errorf("no cell of %s is red: the lab was never seen to find what it plays", f.Name)
		}
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
			t.Errorf("%s has no story: 'shop lab --tell faultlab/tell/stories' records it", name)
		case !w.Shows(x.Outcome):
			t.Errorf("the story of %s shows %s, want %s", name, x.Outcome, w.Letters)
		case w.Schedule.A != nil && !slices.ContainsFunc(x.Steps, func(s Step) bool {
			return s.Event == rig.Held || s.Event == rig.Broken || w.Schedule.A.Cut == rig.Copied && s.Event == rig.Struck
		}):
			t.Errorf("in the story of %s nobody is held", name)
		}
		for i, s := range x.Steps {
			if i > 0 && s.At < x.Steps[i-1].At || !slices.Contains([]string{"A", "B", "C"}, s.Actor) ||
				s.Event == "" && s.Text == "" {
				t.Errorf("%s: step %d, %+v, is out of order or empty", name, i, s)
			}
		}
	}
	for name := range byName {
		t.Errorf("%s is no witness any more: 'shop lab --tell faultlab/tell/stories' takes its story out", name)
	}
}

// A step survives JSON, to a tenth of a millisecond, and clients that are refused again and again become one step.
func TestTaleFolds(t *testing.T) {
	t.Parallel()
	p := faultlab.Played{Outcome: "O", Story: &faultlab.Story{Initial: 10, Left: 8, Ordered: 3, Lines: []faultlab.Line{
		{At: 1234567 * time.Nanosecond, Actor: "A", Event: rig.Held, Text: "before redis: GET"},
		{At: 2 * time.Millisecond, Actor: "B", Event: rig.Asked}, {At: 3 * time.Millisecond, Actor: "B", Event: rig.Answered,
			Text: "declined lock_busy"},
		{At: 4 * time.Millisecond, Actor: "B", Event: rig.Asked}, {At: 5 * time.Millisecond, Actor: "B", Event: rig.Answered,
			Text: "declined lock_busy"},
		{At: 6 * time.Millisecond, Actor: "B", Text: "redis: SET x"},
	}}}
	text, err := talesJSON([]Tale{tale(p)})
	testkit.Must(t, err)
	const want = `[
{"schedule":", ","outcome":"O","why":"","initial":10,"left":8,` +
		`"ordered":3,"steps":[[1.2,"A","held","before redis: GET"],[2,"B","busy","2"],[6,"B","","redis: SET x"]]}
]
`
	if string(text) != want {
		t.Errorf("talesJSON = %s, want %s", text, want)
	}
	var back []Tale
	if err := json.Unmarshal(text, &back); err != nil || back[0].Steps[0] != (Step{1200 * time.Microsecond, "A", rig.Held,
		"before redis: GET"}) {
		t.Errorf("read back: %+v, %v", back, err)
	}
}

// Retell adds played schedules, keeps the tales it has, drops those that are no witnesses, and names a schedule that
// did not show its letter.
func TestRetell(t *testing.T) {
	t.Parallel()
	held := func(at string) faultlab.Schedule {
		return faultlab.Schedule{Mode: "m", Fault: api.Slow,
			A: &rig.Position{Server: "redis", Pattern: at, Nth: 1, Cut: rig.Command}}
	}
	one, two, three := held("GET"), held("SET"), held("DEL")
	m := faultlab.Matrix{Cells: []faultlab.Cell{{Mode: "m", Fault: api.Slow,
		Witnesses: map[string]faultlab.Schedule{"O": one, "L": two,
			"A": three}}}}
	all, err := Retell(m, []Tale{{Schedule: two.String(), Why: "known"}, {Schedule: "gone"}},
		[]faultlab.Played{{Schedule: one, Outcome: "OL", Story: &faultlab.Story{}},
			{Schedule: three, Outcome: api.Exact, Story: &faultlab.Story{}}})
	if err == nil || !strings.Contains(err.Error(), three.String()+": ., want A") ||
		strings.Contains(err.Error(), one.String()) {
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

// Stories survive their file, whose bytes are the same each time; what says the same is not written again, and a
// broken file is named.
func TestTalesOfDirectory(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir(), t.TempDir()}
	want := []Tale{
		{Schedule: "a (redis), slow, A", Outcome: "O"}, {Schedule: "a (sql), slow, A"},
		{Schedule: "b, slow, A", Steps: []Step{{Actor: "A", Text: "GET"}}},
	}
	if got, err := ReadTales(os.DirFS(dirs[0])); got != nil || err != nil {
		t.Errorf("ReadTales of an empty directory = %v, %v, want none", got, err)
	}
	var packed [][]byte
	for _, dir := range dirs {
		for _, all := range [][]Tale{{{Schedule: "gone, slow, A"}}, want} {
			testkit.Must(t, WriteTales(dir, all))
		}
		got, err := ReadTales(os.DirFS(dir))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("ReadTales = %+v, %v; want %+v", got, err, want)
		}
		said := testkit.Read(t, filepath.Join(dir, talesFile))
		packed = append(packed, said)
	}
	if !bytes.Equal(packed[0], packed[1]) {
		t.Error("the same stories are other bytes the second time")
	}
	file := filepath.Join(dirs[0], talesFile)
	other := slices.Clone(packed[0])
	other[4] = 1 // the time in the header
	testkit.Must(t, errors.Join(os.WriteFile(file, other, 0o600), WriteTales(dirs[0], want)))
	if now, _ := os.ReadFile(file); !bytes.Equal(now, other) {
		t.Error("a file that says the same was written again")
	}
	testkit.Must(t, os.WriteFile(file, []byte("{}"), 0o600))
	if _, err := ReadTales(os.DirFS(dirs[0])); err == nil || !strings.Contains(err.Error(), talesFile) {
		t.Errorf("ReadTales of a broken file: %v, want its name", err)
	}
}
