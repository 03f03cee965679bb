package sqldb_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
	"lastitem/internal/store/sqldb"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// The rows of a product are read as in every store.
func TestRows(t *testing.T) {
	open := func(dsn func(testing.TB) string) func(*testing.T) storetest.Shelf {
		return func(t *testing.T) storetest.Shelf {
			s := openSQL(t, dsn(t))
			return storetest.Shelf{
				Reader: s, Blind: true,
				Reset: func(t *testing.T, product, stock int64) { resetSQL(t, s, product, stock, 0) },
				Sell: func(ctx context.Context, o ledger.Order) error {
					return s.Tx(ctx, sqldb.ReadCommitted, func(tx *sqldb.Tx) error {
						if _, _, err := tx.Take(o.ProductID, o.Quantity); err != nil {
							return err
						}
						return tx.InsertOrder(o)
					})
				},
				Lose: func(ctx context.Context, product int64) error {
					return s.DB().WithContext(ctx).Exec("DELETE FROM product_stock WHERE id = ?", product).Error
				}}
		}
	}
	storetest.Run(t, map[string]func(*testing.T) storetest.Shelf{"mysql": open(testenv.MySQL),
		"sqlite": open(testenv.SQLite)})
}

// A read-only server with threads of replication, or that does not say whether it has any, is not read for a judgement.
func TestSQLCopyIsNotRead(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQLNodes(t, 1)[0]
	admin := openSQL(t, dsn)
	resetSQL(t, admin, 1, 5, 0)
	exec := func(statement string) {
		t.Helper()
		testkit.Mustf(t, admin.DB().Exec(statement).Error, "%s", statement)
	}
	exec("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'secret'")
	exec("GRANT SELECT ON lastitem.* TO app@'127.0.0.1'")
	cfg, err := mysql.ParseDSN(dsn)
	testkit.Must(t, err)
	cfg.User, cfg.Passwd = "app", "secret"
	set, err := backend.Open(backend.Config{SQL: cfg.FormatDSN(), Conns: 1, Health: backend.Health{Every: -1}})
	testkit.Must(t, err)
	testkit.Closes(t, set)
	change, start := "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'nobody'", "START SLAVE"
	var version string
	testkit.Must(t, admin.DB().Raw("SELECT VERSION()").Scan(&version).Error)
	if !strings.Contains(version, "MariaDB") {
		change = strings.ReplaceAll(strings.ReplaceAll(change, "MASTER TO", "REPLICATION SOURCE TO"), "MASTER_", "SOURCE_")
		start = "START REPLICA"
	}
	for _, at := range []struct {
		statement          string
		byAdmin, byAccount bool // whether it is a copy
	}{
		{"SET GLOBAL read_only = 1", false, true},
		{change, true, true},
		{start, true, true},
		{"SET GLOBAL read_only = 0", false, false},
	} {
		exec(at.statement)
		for s, want := range map[*sqldb.Store]bool{admin: at.byAdmin, set.SQL: at.byAccount} {
			_, _, err := s.Snapshot(t.Context(), 1, ledger.Want{})
			if got := errors.Is(err, store.ErrCopy); got != want || !got && err != nil {
				t.Errorf("after %q: %v, want a copy: %t", at.statement, err, want)
			}
		}
	}
}

// Keys come in pages too, each once; the key of a cart comes with the orders of each of its products.
func TestSQLPagesOfKeys(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		resetSQL(t, s, 1, 100, 0)
		resetSQL(t, s, 2, 100, 0)
		claim := func(tx *sqldb.Tx, key string, product int64) error {
			_, _, err := tx.ClaimKey([]byte(key), product, make([]byte, 32), 5)
			return err
		}
		do(t, s, func(tx *sqldb.Tx) (err error) {
			for n := range 9 {
				o := storetest.Nth(n, 1, 0)
				o.Key = []byte{byte(n), 0xff}
				err = errors.Join(err, claim(tx, string(o.Key), 1), tx.InsertOrder(o))
			}
			cart := storetest.Nth(9, 1, 0)
			cart.Key = []byte("cart")
			err = errors.Join(err, claim(tx, "cart", 2), tx.InsertOrder(cart), claim(tx, "of the other", 2),
				claim(tx, "refused", 1),
				tx.KeepAnswer(cart.Key, idempotency.Record{Status: 200, Body: []byte(cart.ID), Mode: "m"}))
			cart.ProductID = 2
			return errors.Join(err, tx.InsertOrder(cart))
		})
		want := []string{"\x00\xff", "\x01\xff", "\x02\xff", "\x03\xff", "\x04\xff", "\x05\xff", "\x06\xff", "\x07\xff",
			"\x08\xff", "cart of m", "refused"}
		for how, got := range readings(t, s, 1) {
			slices.Sort(got)
			testkit.Same(t, got, want, "%s: keys", how)
		}
		if f, p, err := s.Snapshot(t.Context(), 2, ledger.Want{Orders: 4}); err != nil || len(f.Orders) != 1 || !p.NoKeys {
			t.Errorf("Snapshot() without keys = %+v, %+v, %v", f, p, err)
		}
		if _, _, err := s.Page(t.Context(), 1, ledger.Position{Order: "é", Until: "z"},
			ledger.Want{Orders: 3}); !errors.Is(err,
			store.ErrPosition) {
			t.Errorf("Page() after no id = %v, want ErrPosition", err)
		}
	})
}
