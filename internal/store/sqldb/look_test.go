package sqldb_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"lastitem/internal/store/sqldb"
)

// A shared read is of the time for which its callers waited: while the stock falls, none sees more than there was when
// it came, or less than there is when it leaves.
func TestLookIsOfItsTime(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		const units = 60
		resetSQL(t, s, 1, units, 0)
		resetSQL(t, s, 2, units, 3) // in segments
		for _, product := range []int64{2, 3} {
			if n, there, err := s.Look(t.Context(), product); there || err != nil {
				t.Errorf("Look(%d) = %d, %t, %v, want that it is not there", product, n, there, err)
			}
		}
		var before, after atomic.Int64 // what is there at most, and at least
		before.Store(units)
		after.Store(units)
		done := make(chan struct{})
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for ended := false; !ended; {
					select {
					case <-done:
						ended = true
					default:
					}
					most := before.Load()
					n, there, err := s.Look(t.Context(), 1)
					if least := after.Load(); err != nil || !there || n > most || n < least {
						t.Errorf("Look() = %d, %t, %v, want between %d and %d", n, there, err, least, most)
						return
					}
				}
			})
		}
		for left := int64(units - 1); left >= 0; left-- {
			after.Store(left)
			do(t, s, func(tx *sqldb.Tx) error { return tx.Set(1, left) })
			before.Store(left)
		}
		close(done)
		all.Wait()
	})
}
