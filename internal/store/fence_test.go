package store_test

import (
	"errors"
	"testing"

	"lastitem/internal/store"
)

// setFenced writes with a token, in a transaction of its own.
func setFenced(t *testing.T, s *store.SQL, product, stock int64, fence uint64) (ok bool) {
	t.Helper()
	if err := inTx(t, s, func(tx *store.Tx) (err error) {
		ok, err = tx.SetFenced(product, stock, fence)
		return err
	}); err != nil {
		t.Fatalf("SetFenced(%d, %d, %d) = %v", product, stock, fence, err)
	}
	return ok
}

func TestSQLFence(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		resetSQL(t, s, 1, 9, 0)
		type call struct {
			do    string
			fence uint64
			want  bool
		}
		for i, c := range []call{
			{"set", 5, true},
			{"set", 4, false},
			{"set", 5, true},
			{"read", 4, false},
			{"read", 5, true}, // the row does not change, which must not look like a refusal
			{"read", 7, true},
			{"set", 6, false},
			{"read strictly", 7, false},
			{"read strictly", 8, true},
			{"read strictly", 8, false},
			{"set", 7, false},
			{"set", 8, true},
		} {
			var got bool
			switch c.do {
			case "set":
				got = setFenced(t, s, 1, int64(i), c.fence)
			default:
				row, ok, err := s.ReadFenced(t.Context(), 1, c.fence, c.do == "read strictly")
				if err != nil || ok && row.Stock != 2 {
					t.Errorf("%d: ReadFenced(%d) = %+v, %v, want the 2 units that call 2 wrote", i, c.fence, row, err)
				}
				got = ok
			}
			if got != c.want {
				t.Errorf("%d: %s with token %d = %t, want %t", i, c.do, c.fence, got, c.want)
			}
		}
		if row, err := s.Read(t.Context(), 1); err != nil || row.Stock != 11 {
			t.Errorf("Read() = %+v, %v, want what the last call wrote", row, err)
		}
		resetSQL(t, s, 1, 9, 0)
		if !setFenced(t, s, 1, 8, 1) {
			t.Error("after Reset token 1 is refused: a counter that was lost could never start again")
		}
	})
}

func TestSQLFenceOfOtherProducts(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		if _, _, err := s.ReadFenced(t.Context(), 1, 1, false); !errors.Is(err, store.ErrUnknownProduct) {
			t.Errorf("ReadFenced() of no product = %v, want ErrUnknownProduct", err)
		}
		resetSQL(t, s, 2, 9, 3)
		if _, _, err := s.ReadFenced(t.Context(), 2, 9, true); !errors.Is(err, store.ErrSegmented) {
			t.Errorf("ReadFenced() of a segmented product = %v, want ErrSegmented", err)
		}
	})
}
