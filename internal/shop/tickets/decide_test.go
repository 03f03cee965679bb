package tickets

import (
	"errors"
	"testing"

	"lastitem/contract/ledger"
	"lastitem/internal/stock"
	"lastitem/testkit"
)

// Of two looks the smaller drift is corrected. Where they differ in sign, or somebody has corrected between them,
// nothing is.
func TestDecide(t *testing.T) {
	t.Parallel()
	look := func(drift, generation int64) (s sides) { // the book has so much more than Redis
		s.Book, s.Generation, s.last = 10+drift, generation, 4
		s.Front = 10
		return s
	}
	for _, c := range []struct {
		first, second sides
		want          int64
		err           error
	}{
		{look(2, 3), look(3, 3), 2, nil},
		{look(3, 3), look(2, 3), 2, nil},
		{look(-3, 3), look(-2, 3), -2, nil},
		{look(3, 3), look(0, 3), 0, nil},
		{look(3, 3), look(-1, 3), 0, stock.ErrReconcile},
		{look(-1, 3), look(3, 3), 0, stock.ErrReconcile},
		{look(2, 3), look(2, 4), 0, stock.ErrContended},
	} {
		got, err := decide(7, c.first, c.second)
		if got.Leaked-got.Forgotten != c.want || !errors.Is(err, c.err) {
			t.Errorf("decide(%d, %d) = %+v, %v; want %d units, %v", c.first.Drift(), c.second.Drift(), got, err, c.want, c.err)
		}
		if c.err == nil {
			testkit.Is(t, ledger.Correction{Base: got.Base, Generation: got.Generation},
				ledger.Correction{Base: 3, Generation: 5}, "a correction's generations")
		}
	}
}
