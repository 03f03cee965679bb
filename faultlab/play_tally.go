package faultlab

import "sync"

// Tally is the progress of an exploration.
type Tally struct {
	Cells, Done int // the cells that are selected, and those that are complete
	// Schedules have been played, of Expected: the number is known of the cells that have begun, and estimated for the
	// others from the committed matrix. 0 = nobody knows, as for random schedules.
	Schedules, Expected int
	// Cell is the cell of the schedule that was played last.
	Cell Cell
}

// tallying keeps the tally of an exploration and reports its changes.
type tallying struct {
	tell func(Tally) // receives every change; nil = not called

	mu      sync.Mutex
	now     Tally
	begun   int // cells whose number of schedules is known
	planned int // their schedules
	guessed int // the schedules of the cells that have not begun, where the matrix has them
	unknown int // the cells that have not begun and are not in the matrix
}

// change edits the tally and reports it.
func (t *tallying) change(edit func()) {
	if t.tell == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	edit()
	t.now.Expected = t.planned + t.guessed
	if t.unknown > 0 && t.begun > 0 { // as many as the others have
		t.now.Expected += t.unknown * t.planned / t.begun
	}
	t.tell(t.now)
}

// selected notes the cells that will be played, and how many schedules each probably has (-1 = nobody knows).
func (t *tallying) selected(guesses []int) {
	t.change(func() {
		t.now.Cells = len(guesses)
		for _, n := range guesses {
			t.guess(n, 1)
		}
	})
}

// begin replaces the guess for a cell by the number of its schedules.
func (t *tallying) begin(guess, planned int) {
	t.change(func() {
		t.guess(guess, -1)
		t.begun, t.planned = t.begun+1, t.planned+planned
	})
}

// guess adds a guess, or takes it away.
func (t *tallying) guess(n, times int) {
	if n < 0 {
		t.unknown += times
	} else {
		t.guessed += times * n
	}
}

// played counts a schedule.
func (t *tallying) played(s Schedule) {
	t.change(func() {
		t.now.Schedules++
		t.now.Cell = Cell{Mode: s.Mode, Store: s.Store, Fault: s.Fault}
	})
}

// done counts a cell.
func (t *tallying) done() { t.change(func() { t.now.Done++ }) }
