package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
	"lastitem/internal/store/sqldb"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// cart makes an order of several products under one key, which is stored under the first product. If the key exists
// already, the order gets it all the same, as in the modes that store no answer.
func cart(t *testing.T, s *sqldb.Store, id, key string, products ...int64) {
	t.Helper()
	do(t, s, func(tx *sqldb.Tx) error {
		first, _, err := tx.ClaimKey([]byte(key), products[0], make([]byte, 32), 9)
		for _, p := range products {
			o := storetest.SomeOrder(id, p)
			o.Key, o.Fence = []byte(key), 0
			err = errors.Join(err, tx.InsertOrder(o))
		}
		if first {
			err = errors.Join(err, tx.KeepAnswer([]byte(key), idempotency.Record{Status: 200,
				Body: []byte(`{"order_id":"` + id + `"}`), Mode: "m"}))
		}
		return err
	})
}

// purgeAllKeys purges the keys of all carts so far; their orders stay.
func purgeAllKeys(t *testing.T, s *sqldb.Store) {
	t.Helper()
	_, err := s.Purge(t.Context(), time.Hour)
	testkit.Mustf(t, err, "Purge()")
}

// anyOrder: the rows were made in the same microsecond.
var anyOrder = cmpopts.SortSlices(func(a, b string) bool { return a < b })

// keysOf returns the keys in a product's ledger, and those on its orders.
func keysOf(t *testing.T, s *sqldb.Store, product int64) (stored, ordered []string) {
	t.Helper()
	f, err := storetest.Whole(t, s, product)
	testkit.Mustf(t, err, "Facts(%d)", product)
	for _, k := range f.Keys {
		stored = append(stored, string(k.Key))
	}
	for _, o := range f.Orders {
		ordered = append(ordered, string(o.Key))
	}
	return stored, ordered
}

// The key of a cart is in the ledger of each of its products, and the first reset of one of them deletes it. The rest
// stays consistent: every key on an order has an answer.
func TestSQLCartKeys(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		for reset := range int64(3) {
			for p := range int64(3) {
				resetSQL(t, s, p, 9, 0)
			}
			cart(t, s, "00000000-0000-7000-8000-00000000000a", "all", 0, 1, 2)
			cart(t, s, "00000000-0000-7000-8000-00000000000b", "two", 1, 2)
			cart(t, s, "00000000-0000-7000-8000-00000000000c", "one", 2)
			resetSQL(t, s, reset, 9, 0)
			want := [][2][]string{
				{{"all"}, {"all"}}, {{"all", "two"}, {"all", "two"}}, {{"all", "two", "one"}, {"all", "two", "one"}},
			}
			switch reset {
			case 0:
				want = [][2][]string{{nil, nil}, {{"two"}, {"", "two"}}, {{"two", "one"}, {"", "two", "one"}}}
			case 1:
				want = [][2][]string{{nil, {""}}, {nil, nil}, {{"one"}, {"", "", "one"}}}
			case 2:
				want = [][2][]string{{nil, {""}}, {nil, {"", ""}}, {nil, nil}}
			}
			for p := range int64(3) {
				stored, ordered := keysOf(t, s, p)
				if diff := cmp.Diff(want[p], [2][]string{stored, ordered}, anyOrder); diff != "" {
					t.Errorf("product %d after a reset of %d, keys stored and on orders (-want +got):\n%s", p, reset, diff)
				}
			}
		}
	})
}

// A key that another request used before or after a cart belongs to that request: a reset of one of the cart's products
// leaves it, so that the request is not executed again.
func TestSQLResetKeepsTheKeyOfAnotherRequest(t *testing.T) {
	const a, b = "00000000-0000-7000-8000-00000000000a", "00000000-0000-7000-8000-00000000000b"
	type keys = [2][]string // in a product's ledger, and on its orders
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		for _, c := range []struct {
			name          string
			first, second []int64
			purge         bool // between the two
			kept          bool
			want          [3]keys // by product from 1 on, after a reset of product 2
		}{
			{"later, for one product", []int64{1, 2}, []int64{1}, true, true, [3]keys{{{"k"}, {"k", "k"}}, {}, {}}},
			{"later, for another product", []int64{1, 2}, []int64{3}, true, true, [3]keys{{nil, {"k"}}, {}, {{"k"}, {"k"}}}},
			{"later, for another cart", []int64{1, 2}, []int64{3, 1}, true, true,
				[3]keys{{{"k"}, {"k", "k"}}, {}, {{"k"}, {"k"}}}},
			{"later, for the same cart", []int64{1, 2}, []int64{1, 2}, true, false, [3]keys{{nil, {"k", ""}}, {}, {}}},
			{"later, for the cart in another order", []int64{1, 2}, []int64{2, 1}, true, false,
				[3]keys{{nil, {"k", ""}}, {}, {}}},
			{"earlier, and the cart has no answer", []int64{1}, []int64{1, 2}, false, true,
				[3]keys{{{"k"}, {"k", "k"}}, {}, {}}},
		} {
			for p := range int64(3) {
				resetSQL(t, s, p+1, 9, 0)
			}
			cart(t, s, a, "k", c.first...)
			if c.purge {
				purgeAllKeys(t, s)
			}
			cart(t, s, b, "k", c.second...)
			resetSQL(t, s, 2, 9, 0)
			for i, want := range c.want {
				stored, ordered := keysOf(t, s, int64(i+1))
				if diff := cmp.Diff(want, keys{stored, ordered}, anyOrder); diff != "" {
					t.Errorf("%s: product %d after a reset of 2, keys stored and on orders (-want +got):\n%s", c.name, i+1, diff)
				}
			}
			do(t, s, func(tx *sqldb.Tx) error {
				first, _, err := tx.ClaimKey([]byte("k"), c.second[0], make([]byte, 32), 9)
				if first == c.kept {
					t.Errorf("%s: ClaimKey() after a reset of 2 says new: %t, want %t", c.name, first, !c.kept)
				}
				return err
			})
			purgeAllKeys(t, s)
		}
	})
}

// named lists keys, each with the mode that answered, if one has.
func named(keys []ledger.KeyRow) (all []string) {
	for _, k := range keys {
		name := string(k.Key)
		if k.Mode != "" {
			name += " of " + k.Mode
		}
		all = append(all, name)
	}
	return all
}

// readings lists the keys of a product, named, in every way that they are read.
func readings(t *testing.T, s *sqldb.Store, product int64) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	read := func(how string, keys []ledger.KeyRow) { all[how] = append(all[how], named(keys)...) }
	for _, n := range []int{1, 4, 9} {
		how, want := fmt.Sprintf("pages of %d", n), ledger.Want{Orders: n, Keys: n}
		f, p, err := s.Snapshot(t.Context(), product, want)
		read(how, f.Keys)
		total, orders := f.Totals.Orders, len(f.Orders)
		for tries := 0; err == nil && !p.End() && tries < 20; tries++ {
			f, p, err = s.Page(t.Context(), product, storetest.ThroughJSON(t, p), want)
			read(how, f.Keys)
			orders += len(f.Orders)
		}
		if err != nil || !p.End() || int64(orders) != total {
			t.Errorf("%s of product %d end at %+v, %v, after %d of %d orders", how, product, p, err, orders, total)
		}
	}
	if err := s.Scan(t.Context(), product, func(snap *ledger.Snapshot) error {
		return snap.Keys(func(batch []ledger.KeyRow) error { read("scan", batch); return nil })
	}); err != nil {
		t.Errorf("Scan(%d) = %v", product, err)
	}
	return all
}

// A key that was used again after its retention is listed once per product of its last use, with its mode, however many
// orders have it.
func TestSQLListsAKeyOnce(t *testing.T) {
	const a, b, c = "00000000-0000-7000-8000-00000000000a", "00000000-0000-7000-8000-00000000000b",
		"00000000-0000-7000-8000-00000000000c"
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		for _, last := range [][]int64{{1, 2}, {2, 1}, {1}, {3}, {3, 2}} {
			for p := range int64(3) {
				resetSQL(t, s, p+1, 9, 0)
			}
			cart(t, s, a, "k", 1, 2)
			purgeAllKeys(t, s)
			cart(t, s, b, "k", 1, 2)
			purgeAllKeys(t, s)
			cart(t, s, c, "k", last...)
			for p := range int64(3) {
				var want []string
				if slices.Contains(last, p+1) {
					want = []string{"k of m"}
				}
				for how, got := range readings(t, s, p+1) {
					testkit.Same(t, got, want, "last use for %v: product %d, %s: keys", last, p+1, how)
				}
			}
			purgeAllKeys(t, s)
		}
	})
}

// A reset deletes a lock without expiry, and keeps one that has a fence.
func TestSQLResetDeletesLocks(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		db := s.DB().WithContext(t.Context())
		for key, rest := range map[string]string{"mine": "NULL, 0", "theirs": "NULL, 0", "fenced": "1, 7"} {
			insert := fmt.Sprintf("INSERT INTO record_lock (lock_key, owner, expires_us, fence) VALUES (x'%x', '', %s)", key,
				rest)
			testkit.Must(t, db.Exec(insert).Error)
		}
		testkit.Must(t, s.Reset(t.Context(), 1, 5, ledger.Rules{}, "mine", "fenced", "nobody's"))
		var left []string
		testkit.Must(t, db.Raw("SELECT lock_key FROM record_lock ORDER BY lock_key").Scan(&left).Error)
		testkit.Same(t, left, []string{"fenced", "theirs"}, "locks after Reset()")
	})
}

func TestSQLCompareAndSet(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		resetSQL(t, s, 1, 5, 0)
		row, err := s.Read(t.Context(), 1)
		testkit.Must(t, err)
		for i, want := range []bool{true, false} {
			do(t, s, func(tx *sqldb.Tx) error {
				if ok, err := tx.SetVersion(1, 4, row.Version); ok != want || err != nil {
					t.Errorf("SetVersion(%d) number %d = %t, %v, want %t", row.Version, i+1, ok, err, want)
				}
				return nil
			})
		}
		for at, want := range map[string]bool{"2001-01-01 00:00:00": false, updatedAt(t, s): true} {
			do(t, s, func(tx *sqldb.Tx) error {
				if ok, err := tx.SetUpdated(1, 3, at); ok != want || err != nil {
					t.Errorf("SetUpdated(%s) = %t, %v, want %t", at, ok, err, want)
				}
				return nil
			})
		}
		do(t, s, func(tx *sqldb.Tx) error { // every write raises both
			_, _, err := tx.Take(1, 1)
			_, atErr := tx.TakeAt(1, 1, row.LeaseSeq+3)
			return errors.Join(err, atErr, tx.Set(1, 9))
		})
		after, err := s.Read(t.Context(), 1)
		if err != nil || after.Stock != 9 || after.Version != row.Version+5 || after.LeaseSeq != row.LeaseSeq+5 {
			t.Errorf("Read() after five writes = %+v, %v, want 9, and both counters five above %+v", after, err, row)
		}
	})
}

func updatedAt(t *testing.T, s *sqldb.Store) string {
	t.Helper()
	row, err := s.Read(t.Context(), 1)
	testkit.Must(t, err)
	return row.UpdatedAt
}

func TestSQLReadForUpdate(t *testing.T) {
	t.Parallel()
	s := openSQL(t, testenv.MySQL(t))
	resetSQL(t, s, 1, 5, 0)
	resetSQL(t, s, 2, 5, 3)
	read := func(ctx context.Context, product int64, wait time.Duration) (row sqldb.Row, took time.Duration, err error) {
		begin := time.Now()
		err = s.Tx(t.Context(), sqldb.ReadCommitted, func(tx *sqldb.Tx) (err error) {
			row, err = tx.ReadForUpdate(ctx, product, wait)
			return err
		})
		return row, time.Since(begin), err
	}
	do(t, s, func(holder *sqldb.Tx) error {
		if row, err := holder.ReadForUpdate(t.Context(), 1, 0); err != nil || row.Stock != 5 {
			t.Errorf("ReadForUpdate() of a free row = %+v, %v, want 5", row, err)
		}
		for _, wait := range []time.Duration{0, 50 * time.Millisecond} {
			if _, took, err := read(t.Context(), 1, wait); !errors.Is(err, store.ErrRowBusy) || took < wait {
				t.Errorf("ReadForUpdate() of a locked row, waiting %v = %v after %v, want ErrRowBusy", wait, err, took)
			}
		}
		ctx := testkit.Within(t, 50*time.Millisecond)
		if _, _, err := read(ctx, 1, longTime); !errors.Is(err, store.ErrRowBusy) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ReadForUpdate() whose caller has gone = %v, want ErrRowBusy and its cause", err)
		}
		return nil
	})
	if row, _, err := read(t.Context(), 1, longTime); err != nil || row.Stock != 5 {
		t.Errorf("ReadForUpdate() once it is free = %+v, %v, want 5", row, err)
	}
	_, _, err := read(t.Context(), 2, 0)
	testkit.IsError(t, err, store.ErrSegmented, "ReadForUpdate() of a segmented product")
	_, _, err = read(t.Context(), 3, longTime)
	testkit.IsError(t, err, store.ErrUnknownProduct, "ReadForUpdate() of a product that nobody made")
}

// longTime is longer than any wait of these tests may take.
const longTime = 20 * time.Second
