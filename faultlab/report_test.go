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
