package faultlab

import (
	"testing"

	"lastitem/internal/api"
)

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
	for i := range told {
		if i >= 2 {
			want[i].Cell = Cell{Mode: "m", Store: api.SQL, Fault: api.Pause}
		}
		got := told[i]
		if got.Cells != want[i].Cells || got.Done != want[i].Done || got.Schedules != want[i].Schedules || got.Expected != want[i].Expected || got.Cell.Mode != want[i].Cell.Mode {
			t.Errorf("tally %d = %+v, want %+v", i, got, want[i])
		}
	}
	if len(told) != len(want) {
		t.Errorf("%d tallies were told, want %d", len(told), len(want))
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
		if got[0] != got[1] {
			t.Errorf("%s: guess() = %d, want %d", name, got[0], got[1])
		}
	}
}
