package store_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	"lastitem/internal/backend"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
	"lastitem/internal/testenv"
)

// onEachSQL runs a test on MariaDB or MySQL, and on SQLite.
func onEachSQL(t *testing.T, test func(*testing.T, *store.SQL)) {
	t.Parallel()
	for name, dsn := range map[string]func(testing.TB) string{"mysql": testenv.MySQL, "sqlite": testenv.SQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, openSQL(t, dsn(t)))
		})
	}
}

func openSQL(t *testing.T, dsn string) *store.SQL {
	t.Helper()
	db, err := backend.OpenSQL(dsn, 8)
	if err != nil {
		t.Fatalf("OpenSQL: %v", err)
	}
	t.Cleanup(func() {
		if pool, err := db.DB(); err == nil {
			pool.Close()
		}
	})
	if _, err := backend.Migrate(t.Context(), db); err != nil {
		t.Fatalf("Migrate: %v", err)
	}
	s, err := store.NewSQL(db)
	if err != nil {
		t.Fatalf("NewSQL: %v", err)
	}
	return s
}

func resetSQL(t *testing.T, s *store.SQL, product, stock int64, segments int) {
	t.Helper()
	if err := s.Reset(t.Context(), product, stock, segments); err != nil {
		t.Fatalf("Reset(%d, %d, %d): %v", product, stock, segments, err)
	}
}

func inTx(t *testing.T, s *store.SQL, body func(*store.Tx) error) error {
	t.Helper()
	return s.Tx(t.Context(), store.ReadCommitted, body)
}

// do runs a transaction that must succeed.
func do(t *testing.T, s *store.SQL, body func(*store.Tx) error) {
	t.Helper()
	if err := inTx(t, s, body); err != nil {
		t.Fatalf("Tx() = %v, want nil", err)
	}
}

func stockOf(t *testing.T, s *store.SQL, product int64) int64 {
	t.Helper()
	f, err := s.Facts(t.Context(), product, false)
	if err != nil {
		t.Fatalf("Facts(%d): %v", product, err)
	}
	return f.Stock
}

func TestSQLTake(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		resetSQL(t, s, 1, 5, 0)
		resetSQL(t, s, 2, 5, 3)
		for _, c := range []struct {
			product, quantity, remaining int64
			ok                           bool
		}{
			{1, 2, 3, true}, {1, 4, 0, false}, {1, 3, 0, true}, {1, 1, 0, false}, {2, 1, 0, false}, {3, 1, 0, false},
		} {
			do(t, s, func(tx *store.Tx) error {
				remaining, ok, err := tx.Take(c.product, c.quantity)
				if remaining != c.remaining || ok != c.ok || err != nil {
					t.Errorf("Take(%d, %d) = %d, %t, %v, want %d, %t", c.product, c.quantity, remaining, ok, err, c.remaining, c.ok)
				}
				return nil
			})
		}
	})
}

func TestSQLTakeAt(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		resetSQL(t, s, 1, 5, 0)
		row, err := s.Read(t.Context(), 1)
		if err != nil || row.Stock != 5 {
			t.Fatalf("Read() = %+v, %v, want 5", row, err)
		}
		for _, c := range []struct {
			quantity int64
			seq      uint64
			ok       bool
		}{
			{2, row.LeaseSeq, true}, {2, row.LeaseSeq, false}, {2, row.LeaseSeq + 2, false}, {4, row.LeaseSeq + 1, false}, {3, row.LeaseSeq + 1, true},
		} {
			do(t, s, func(tx *store.Tx) error {
				if ok, err := tx.TakeAt(1, c.quantity, c.seq); ok != c.ok || err != nil {
					t.Errorf("TakeAt(%d, seq %d) = %t, %v, want %t", c.quantity, c.seq, ok, err, c.ok)
				}
				return nil
			})
		}
		if after, err := s.Read(t.Context(), 1); err != nil || after.Stock != 0 || after.LeaseSeq != row.LeaseSeq+2 {
			t.Errorf("Read() = %+v, %v, want 0 at %d", after, err, row.LeaseSeq+2)
		}
	})
}

func TestSQLFactsAndReset(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		if _, err := s.Facts(t.Context(), 1, true); !errors.Is(err, store.ErrUnknownProduct) {
			t.Errorf("Facts() of a product that nobody made = %v, want ErrUnknownProduct", err)
		}
		if _, err := s.Read(t.Context(), 1); !errors.Is(err, store.ErrUnknownProduct) {
			t.Errorf("Read() of a product that nobody made = %v, want ErrUnknownProduct", err)
		}
		resetSQL(t, s, 1, 5, 0)
		resetSQL(t, s, 2, 7, 0)
		a, b := someOrder("00000000-0000-7000-8000-00000000000a", 1), someOrder("00000000-0000-7000-8000-00000000000b", 1)
		a.Fence, b.Fence, b.Remaining, b.Key = 1<<62, 7, nil, nil
		do(t, s, func(tx *store.Tx) error {
			_, _, err := tx.ClaimKey([]byte("k"), 1, bytes.Repeat([]byte("f"), 32), 9)
			return errors.Join(err, tx.KeepAnswer([]byte("k"), idempotency.Record{Status: 200, Body: []byte("b"), Mode: "m"}),
				tx.InsertOrder(a), tx.InsertOrder(b), tx.Set(1, -2))
		})
		got, err := s.Facts(t.Context(), 1, true)
		want := store.Facts{
			Initial: 5, Stock: -2, LeaseSeq: got.LeaseSeq,
			Orders: []store.Order{a, b}, Keys: []store.KeyRow{{Key: []byte("k"), Status: 200, CreatedMicros: 9, Mode: "m"}},
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Facts(): %v (-want +got):\n%s", err, diff)
		}
		resetSQL(t, s, 1, 3, 2)
		after, err := s.Facts(t.Context(), 1, true)
		if diff := cmp.Diff(store.Facts{Initial: 3, Stock: 3, LeaseSeq: got.LeaseSeq + 1}, after); err != nil || diff != "" {
			t.Errorf("Facts() after Reset(): %v (-want +got):\n%s", err, diff)
		}
		if _, err := s.Read(t.Context(), 1); !errors.Is(err, store.ErrSegmented) {
			t.Errorf("Read() of a segmented product = %v, want ErrSegmented", err)
		}
		if got := stockOf(t, s, 2); got != 7 {
			t.Errorf("stock of the other product = %d, want 7", got)
		}
	})
}

func TestSQLResetsAtOnce(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		var wg sync.WaitGroup
		for product := range int64(6) {
			wg.Go(func() {
				for range 5 {
					if err := s.Reset(t.Context(), product, 9, 0); err != nil {
						t.Errorf("Reset(%d) = %v, want nil", product, err)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestSQLClaimKey(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		digest := bytes.Repeat([]byte{0, 0xff}, 16)
		for i, key := range []string{"a", "A", "a ", "\xff", "97", strings.Repeat("\xff", 255), strings.Repeat("\xff", 254)} {
			want := idempotency.Record{Fingerprint: digest, Status: 200 + i, Body: []byte("\x00\xff" + key)}
			do(t, s, func(tx *store.Tx) error {
				if first, _, err := tx.ClaimKey([]byte(key), 1, digest, 1); !first || err != nil {
					t.Errorf("ClaimKey(%.9q) = %t, %v, want the first", key, first, err)
				}
				return tx.KeepAnswer([]byte(key), want)
			})
			do(t, s, func(tx *store.Tx) error {
				first, got, err := tx.ClaimKey([]byte(key), 2, bytes.Repeat([]byte{1}, 32), 2)
				if diff := cmp.Diff(want, got); first || err != nil || diff != "" {
					t.Errorf("ClaimKey(%.9q) again = %t, %v, want the answer (-want +got):\n%s", key, first, err, diff)
				}
				return nil
			})
		}
	})
}

// A body that fails, panics or loses its context leaves nothing.
func TestSQLRollsBack(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		resetSQL(t, s, 1, 5, 0)
		mine := errors.New("mine")
		take := func(tx *store.Tx) {
			if _, ok, err := tx.Take(1, 1); !ok || err != nil {
				t.Errorf("Take() = %t, %v, want true", ok, err)
			}
		}
		if err := inTx(t, s, func(tx *store.Tx) error { take(tx); return mine }); !errors.Is(err, mine) {
			t.Errorf("Tx() of a body that fails = %v, want its error", err)
		}
		func() {
			defer func() { recover() }()
			_ = inTx(t, s, func(tx *store.Tx) error { take(tx); panic("crash") })
		}()
		ctx, cancel := context.WithCancel(t.Context())
		if err := s.Tx(ctx, store.ReadCommitted, func(tx *store.Tx) error { take(tx); cancel(); return nil }); err == nil {
			t.Error("Tx() whose context ended before COMMIT = nil, want an error")
		}
		if err := s.Tx(ctx, store.ReadCommitted, func(*store.Tx) error { return nil }); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Tx() under an ended context = %v, want ErrUnavailable", err)
		}
		do(t, s, func(tx *store.Tx) error { // it would wait for a transaction that is still open
			if row, err := tx.Read(1); err != nil || row.Stock != 5 {
				t.Errorf("Read() = %+v, %v, want 5", row, err)
			}
			take(tx)
			return nil
		})
	})
}

// Two transactions take the same two rows in opposite order.
func TestSQLDeadlock(t *testing.T) {
	t.Parallel()
	s := openSQL(t, testenv.MySQL(t))
	resetSQL(t, s, 1, 5, 0)
	resetSQL(t, s, 2, 5, 0)
	var both sync.WaitGroup
	both.Add(2)
	errs := make(chan error, 2)
	for _, order := range [][2]int64{{1, 2}, {2, 1}} {
		go func() {
			errs <- inTx(t, s, func(tx *store.Tx) error {
				_, _, err := tx.Take(order[0], 1)
				both.Done()
				both.Wait()
				if err == nil {
					_, _, err = tx.Take(order[1], 1)
				}
				return err
			})
		}()
	}
	a, b := <-errs, <-errs
	if (a == nil) == (b == nil) || !errors.Is(errors.Join(a, b), store.ErrConflict) {
		t.Errorf("Tx() twice = %v and %v, want one nil and one ErrConflict", a, b)
	}
	if one, two := stockOf(t, s, 1), stockOf(t, s, 2); one != 4 || two != 4 {
		t.Errorf("stocks = %d and %d, want 4 and 4: the loser rolled back", one, two)
	}
}

// impatientMySQL returns a database whose sessions wait for a row lock for one second.
func impatientMySQL(t *testing.T) string {
	t.Helper()
	cfg, err := mysql.ParseDSN(testenv.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["innodb_lock_wait_timeout"] = "1"
	return cfg.FormatDSN()
}

// Error 1205 ends only the statement: the earlier writes of the transaction must be rolled back too.
func TestSQLLockWaitTimeout(t *testing.T) {
	t.Parallel()
	s := openSQL(t, impatientMySQL(t))
	resetSQL(t, s, 1, 5, 0)
	resetSQL(t, s, 2, 5, 0)
	do(t, s, func(holder *store.Tx) error {
		if _, ok, err := holder.Take(1, 1); !ok || err != nil {
			t.Errorf("the holder's Take() = %t, %v, want true", ok, err)
		}
		err := inTx(t, s, func(tx *store.Tx) error {
			if _, ok, err := tx.Take(2, 1); !ok || err != nil {
				t.Errorf("the rival's first Take() = %t, %v, want true", ok, err)
			}
			_, _, err := tx.Take(1, 1)
			return err
		})
		if !errors.Is(err, store.ErrConflict) {
			t.Errorf("the rival's Tx() = %v, want ErrConflict", err)
		}
		return nil
	})
	if one, two := stockOf(t, s, 1), stockOf(t, s, 2); one != 4 || two != 5 {
		t.Errorf("stocks = %d and %d, want 4 and 5: all of the rival rolled back", one, two)
	}
}

// through returns a store behind a proxy, and one beside it.
func through(t *testing.T, pattern string) (s, direct *store.SQL, p *cutProxy) {
	t.Helper()
	dsn := testenv.MySQL(t)
	direct = openSQL(t, dsn)
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p = newCutProxy(t, cfg.Addr, pattern)
	cfg.Addr = p.addr
	return openSQL(t, cfg.FormatDSN()), direct, p
}

func TestSQLLostCommit(t *testing.T) {
	t.Parallel()
	s, direct, p := through(t, "\x03COMMIT")
	resetSQL(t, direct, 1, 5, 0)
	p.armed.Store(true)
	err := inTx(t, s, func(tx *store.Tx) error {
		_, _, err := tx.Take(1, 1)
		return err
	})
	if !errors.Is(err, store.ErrUnknown) || p.cuts.Load() != 1 {
		t.Errorf("Tx() whose COMMIT was not answered = %v after %d cuts, want ErrUnknown after 1", err, p.cuts.Load())
	}
	if got := stockOf(t, direct, 1); got != 4 {
		t.Errorf("stock = %d, want 4: it was committed, once", got)
	}
}

func TestSQLLostStatement(t *testing.T) {
	t.Parallel()
	s, direct, p := through(t, "LAST_INSERT_ID")
	resetSQL(t, direct, 1, 5, 0)
	p.armed.Store(true)
	err := inTx(t, s, func(tx *store.Tx) error {
		_, _, err := tx.Take(1, 1)
		return err
	})
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) || p.cuts.Load() != 1 {
		t.Errorf("Tx() whose UPDATE was not answered = %v after %d cuts, want ErrUnavailable after 1", err, p.cuts.Load())
	}
	do(t, direct, func(tx *store.Tx) error {
		if remaining, _, err := tx.Take(1, 1); remaining != 4 || err != nil {
			t.Errorf("Take() afterwards = %d, %v, want 4: the lost one was rolled back", remaining, err)
		}
		return nil
	})
}

func TestSQLRefused(t *testing.T) {
	t.Parallel()
	db, err := backend.OpenSQL("root@tcp(127.0.0.1:1)/shop", 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.NewSQL(db)
	if err != nil {
		t.Fatal(err)
	}
	_, readErr := s.Read(t.Context(), 1)
	_, factsErr := s.Facts(t.Context(), 1, true)
	for name, err := range map[string]error{
		"Read": readErr, "Facts": factsErr, "Reset": s.Reset(t.Context(), 1, 1, 0),
		"Tx": inTx(t, s, func(*store.Tx) error { t.Error("the body ran without a server"); return nil }),
	} {
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s from nobody = %v, want ErrUnavailable", name, err)
		}
	}
}
