package faultlab

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"lastitem/faultlab/fault"
	"lastitem/internal/api"
)

// The hazards of the ladder stand in one table. Of all hazards each has its column, in several tables that fit, and a row is where it has a cell.
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
	r := &Result{}
	for _, name := range all {
		r.Cells = append(r.Cells, Cell{Mode: "m", Store: api.SQL, Fault: name, Found: api.Exact})
	}
	r.Cells = append(r.Cells, Cell{Mode: "n", Store: api.SQL, Fault: all[0], Found: "O", Wrong: []string{"why"}})
	var b strings.Builder
	r.writeTable(&b, reportWords["en"])
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); n > 130 {
			t.Errorf("%d columns, want at most 130: %s", n, line)
		}
	}
	if n := strings.Count(b.String(), "\nm "); n != len(bands(all)) {
		t.Errorf("mode m has %d rows, want one in each of %d tables", n, len(bands(all)))
	}
	if n := strings.Count(b.String(), "\nn "); n != 1 || !strings.Contains(b.String(), "O (!)") {
		t.Errorf("mode n has %d rows, want one, with O (!):\n%s", n, b.String())
	}
}

// The report tells a schedule that showed an unclaimed letter, with its commands.
func TestUnclaimedIsTold(t *testing.T) {
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
	var b strings.Builder
	if err := r.Write(&b, "en"); err != nil || !strings.Contains(b.String(), odd.Schedule.String()+": O\n") || !strings.Contains(b.String(), "SET stock 4") {
		t.Errorf("Write() = %v, want the schedule and its commands:\n%s", err, b.String())
	}
}
