package store_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	"lastitem/internal/backend"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
	"lastitem/internal/testenv"
)

// openGroups returns a store with at most conns connections for group commits.
func openGroups(t *testing.T, dsn string, conns int) *backend.Set {
	t.Helper()
	set, err := backend.Open(backend.Config{SQL: dsn, Conns: conns})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	if _, err := backend.Migrate(t.Context(), set.DB); err != nil {
		t.Fatal(err)
	}
	return set
}

// take returns a body that takes a unit of a product, and returns err.
func take(t *testing.T, product int64, err error) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		if _, ok, err := tx.Take(product, 1); !ok || err != nil {
			t.Errorf("Take(%d) = %t, %v, want true", product, ok, err)
		}
		return err
	}
}

// A failed transaction leaves nothing to the next one on its connection. Here there is only one connection.
func TestGroupTxRollsBack(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]func(testing.TB) string{"mysql": testenv.MySQL, "sqlite": testenv.SQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openGroups(t, dsn(t), 1).SQL
			resetSQL(t, s, 1, 9, 0)
			resetSQL(t, s, 2, 9, 0)
			next := func(after string) {
				t.Helper()
				if err := s.GroupTx(t.Context(), take(t, 2, nil)); err != nil {
					t.Errorf("GroupTx() after %s = %v, want nil", after, err)
				}
			}
			next("nothing")
			mine := errors.New("mine")
			if err := s.GroupTx(t.Context(), take(t, 1, mine)); !errors.Is(err, mine) {
				t.Errorf("GroupTx() of a body that fails = %v, want its error", err)
			}
			next("an error")
			func() {
				defer func() { recover() }()
				_ = s.GroupTx(t.Context(), func(tx *store.Tx) error { panic(take(t, 1, nil)(tx)) })
			}()
			next("a panic")
			ctx, cancel := context.WithCancel(t.Context())
			err := s.GroupTx(ctx, func(tx *store.Tx) error { defer cancel(); return take(t, 1, nil)(tx) })
			if err == nil {
				t.Error("GroupTx() whose context ended before COMMIT = nil, want an error")
			}
			next("a context's end")
			if err := s.GroupTx(ctx, take(t, 1, nil)); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("GroupTx() under an ended context = %v, want ErrUnavailable", err)
			}
			if one, two := stockOf(t, s, 1), stockOf(t, s, 2); one != 9 || two != 5 {
				t.Errorf("stocks = %d and %d, want 9 and 5", one, two)
			}
		})
	}
}

// The sessions read what others commit meanwhile; the sessions of the other pool keep the server's defaults.
func TestGroupTxSessions(t *testing.T) {
	t.Parallel()
	set := openGroups(t, testenv.MySQL(t), 1)
	s := set.SQL
	settings := func() map[string]string {
		t.Helper()
		rows, err := set.DB.WithContext(t.Context()).
			Raw("SHOW SESSION VARIABLES WHERE variable_name IN ('autocommit', 'tx_isolation', 'transaction_isolation')").Rows()
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		all := map[string]string{}
		for rows.Next() {
			var name, value string
			if err := rows.Scan(&name, &value); err != nil {
				t.Fatal(err)
			}
			all[name] = value
		}
		if err := rows.Err(); err != nil || all["autocommit"] != "ON" || len(all) < 2 {
			t.Errorf("settings = %v, %v, want autocommit and the isolation", all, err)
		}
		return all
	}
	before := settings()
	resetSQL(t, s, 1, 5, 0)
	err := s.GroupTx(t.Context(), func(tx *store.Tx) error {
		for want := int64(5); want > 3; want-- {
			if row, err := tx.Read(1); err != nil || row.Stock != want {
				t.Errorf("Read() = %+v, %v, want %d", row, err, want)
			}
			do(t, s, take(t, 1, nil))
		}
		return nil
	})
	if err != nil {
		t.Errorf("GroupTx() = %v, want nil", err)
	}
	if diff := cmp.Diff(before, settings()); diff != "" {
		t.Errorf("the other pool's session (-before +after):\n%s", diff)
	}
	var pools []string
	for _, p := range set.Pools() {
		pools = append(pools, p.Name)
		if p.Total != 1 {
			t.Errorf("pool %s has %d connections, want 1", p.Name, p.Total)
		}
	}
	if diff := cmp.Diff([]string{"sql", "sql_groups"}, pools); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}

// A lost answer to COMMIT: the outcome is unknown, and the key tells it. A lost answer to a statement: nothing happened.
func TestGroupTxLostAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		err     error
		fresh   int
	}{
		{"\x03COMMIT", store.ErrUnknown, 0}, {"INSERT INTO idempotent_log", store.ErrUnavailable, 1}, {"LAST_INSERT_ID", store.ErrUnavailable, 1},
	} {
		t.Run(c.pattern, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.MySQL(t)
			direct := openSQL(t, dsn)
			resetSQL(t, direct, 1, 5, 0)
			cfg, err := mysql.ParseDSN(dsn)
			if err != nil {
				t.Fatal(err)
			}
			p := newCutProxy(t, cfg.Addr, c.pattern)
			cfg.Addr = p.addr
			s := openGroups(t, cfg.FormatDSN(), 1).SQL
			answers := []store.KeyedAnswer{{
				Key: []byte("k"), Answer: idempotency.Record{Fingerprint: bytes.Repeat([]byte("f"), 32), Status: 200, Body: []byte("b")},
			}}
			inserted, taken := 0, errors.New("taken")
			sell := func(tx *store.Tx) (err error) {
				if _, _, err = tx.Take(1, 1); err != nil {
					return err
				}
				if inserted, err = tx.InsertAnswers(1, 3, answers); err == nil && inserted == 0 {
					err = taken
				}
				return err
			}
			p.armed.Store(true)
			if err := s.GroupTx(t.Context(), sell); !errors.Is(err, c.err) || p.cuts.Load() != 1 {
				t.Errorf("GroupTx(), cut off = %v after %d cuts, want %v after 1", err, p.cuts.Load(), c.err)
			}
			if err := s.GroupTx(t.Context(), sell); inserted != c.fresh || errors.Is(err, taken) != (c.fresh == 0) {
				t.Errorf("GroupTx() again = %v, %d new keys, want %d", err, inserted, c.fresh)
			}
			if got := stockOf(t, direct, 1); got != 4 {
				t.Errorf("stock = %d, want 4: it was taken once", got)
			}
			if got, err := s.Answers(t.Context(), [][]byte{[]byte("k")}); err != nil || string(got["k"].Body) != "b" {
				t.Errorf("Answers() = %v, %v, want the answer", got, err)
			}
		})
	}
}

// The transaction that loses a deadlock is rolled back as a whole, and may be retried on the same connection.
func TestGroupTxDeadlock(t *testing.T) {
	t.Parallel()
	s := openGroups(t, testenv.MySQL(t), 2).SQL
	resetSQL(t, s, 1, 5, 0)
	resetSQL(t, s, 2, 5, 0)
	var both, ended sync.WaitGroup
	both.Add(2)
	conflicts := make(chan error, 2)
	for _, order := range [][2]int64{{1, 2}, {2, 1}} {
		ended.Go(func() {
			met := sync.OnceFunc(func() { both.Done(); both.Wait() })
			swap := func(tx *store.Tx) error {
				_, _, err := tx.Take(order[0], 1)
				met()
				if err == nil {
					_, _, err = tx.Take(order[1], 1)
				}
				return err
			}
			err := s.GroupTx(t.Context(), swap)
			for ; errors.Is(err, store.ErrConflict); err = s.GroupTx(t.Context(), swap) {
				conflicts <- err
			}
			if err != nil {
				t.Errorf("GroupTx() = %v, want nil in the end", err)
			}
		})
	}
	ended.Wait()
	if len(conflicts) != 1 {
		t.Errorf("%d conflicts, want 1", len(conflicts))
	}
	if one, two := stockOf(t, s, 1), stockOf(t, s, 2); one != 3 || two != 3 {
		t.Errorf("stocks = %d and %d, want 3 and 3", one, two)
	}
}

// Error 1205 ends only the statement.
func TestGroupTxLockWaitTimeout(t *testing.T) {
	t.Parallel()
	s := openGroups(t, impatientMySQL(t), 1).SQL
	resetSQL(t, s, 1, 5, 0)
	resetSQL(t, s, 2, 5, 0)
	both := func(tx *store.Tx) error {
		if err := take(t, 2, nil)(tx); err != nil {
			return err
		}
		_, _, err := tx.Take(1, 1)
		return err
	}
	do(t, s, func(holder *store.Tx) error {
		err := take(t, 1, nil)(holder)
		if err := s.GroupTx(t.Context(), both); !errors.Is(err, store.ErrConflict) {
			t.Errorf("GroupTx() = %v, want ErrConflict", err)
		}
		return err
	})
	if err := s.GroupTx(t.Context(), both); err != nil {
		t.Errorf("GroupTx() again = %v, want nil", err)
	}
	if one, two := stockOf(t, s, 1), stockOf(t, s, 2); one != 3 || two != 4 {
		t.Errorf("stocks = %d and %d, want 3 and 4: all of the one that waited rolled back", one, two)
	}
}

func TestGroupTxRefused(t *testing.T) {
	t.Parallel()
	set, err := backend.Open(backend.Config{SQL: "root@tcp(127.0.0.1:1)/shop", Conns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	err = set.SQL.GroupTx(t.Context(), func(*store.Tx) error { t.Error("the body ran without a server"); return nil })
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("GroupTx() with nobody = %v, want ErrUnavailable", err)
	}
}
