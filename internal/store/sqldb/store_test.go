package sqldb_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/idempotency"
	"lastitem/internal/sqlite"
	"lastitem/internal/store"
	"lastitem/internal/store/sqldb"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// onEachSQL runs a test on MariaDB or MySQL, and on SQLite.
func onEachSQL(t *testing.T, test func(*testing.T, *sqldb.Store)) {
	dsns := map[string]func(testing.TB) string{"mysql": testenv.MySQL, "sqlite": testenv.SQLite}
	testkit.Each(t, dsns, func(t *testing.T, dsn func(testing.TB) string) {
		test(t, openSQL(t, dsn(t)))
	})
}

// openSet opens a database with at most conns connections for plain transactions, and for group commits, without
// probes.
func openSet(t *testing.T, dsn string, conns int) *backend.Set {
	t.Helper()
	set, err := backend.Open(backend.Config{SQL: dsn, Conns: conns, Health: backend.Health{Every: -1}})
	testkit.Must(t, err)
	t.Cleanup(func() { set.Close() })
	_, err = backend.Migrate(t.Context(), set.DB)
	testkit.Mustf(t, err, "Migrate")
	return set
}

func openSQL(t *testing.T, dsn string) *sqldb.Store {
	t.Helper()
	return openSet(t, dsn, 8).SQL
}

// transact runs a body in a transaction.
type transact func(ctx context.Context, body func(*sqldb.Tx) error) error

// everyTx are the ways to do so.
var everyTx = map[string]func(*sqldb.Store) transact{
	"Tx": func(s *sqldb.Store) transact {
		return func(ctx context.Context, body func(*sqldb.Tx) error) error {
			return s.Tx(ctx, sqldb.ReadCommitted, body)
		}
	},
	"GroupTx": func(s *sqldb.Store) transact { return s.GroupTx },
	"TripTx":  func(s *sqldb.Store) transact { return s.TripTx },
}

// onEveryTx runs a test with Tx, GroupTx and TripTx, on a database with at most conns connections for each.
func onEveryTx(t *testing.T, dsn func(*testing.T) string, conns int, test func(*testing.T, *sqldb.Store, transact)) {
	testkit.Each(t, everyTx, func(t *testing.T, of func(*sqldb.Store) transact) {
		s := openSet(t, dsn(t), conns).SQL
		test(t, s, of(s))
	})
}

func mySQL(t *testing.T) string { t.Helper(); return testenv.MySQL(t) }

// take returns a body that takes a unit of a product, and returns err.
func take(t *testing.T, product int64, err error) func(*sqldb.Tx) error {
	return func(tx *sqldb.Tx) error {
		if _, ok, err := tx.Take(product, 1); !ok || err != nil {
			t.Errorf("Take(%d) = %t, %v, want true", product, ok, err)
		}
		return err
	}
}

func resetSQL(t *testing.T, s *sqldb.Store, product, stock int64, segments int) {
	t.Helper()
	err := s.Reset(t.Context(), product, stock, ledger.Rules{Segments: segments})
	testkit.Mustf(t, err, "Reset(%d, %d, %d)", product, stock, segments)
}

func inTx(t *testing.T, s *sqldb.Store, body func(*sqldb.Tx) error) error {
	t.Helper()
	return s.Tx(t.Context(), sqldb.ReadCommitted, body)
}

// do runs a transaction that must succeed.
func do(t *testing.T, s *sqldb.Store, body func(*sqldb.Tx) error) {
	t.Helper()
	testkit.Mustf(t, inTx(t, s, body), "Tx()")
}

func stockOf(t *testing.T, s *sqldb.Store, product int64) int64 {
	t.Helper()
	f, err := s.Facts(t.Context(), product)
	testkit.Mustf(t, err, "Facts(%d)", product)
	return f.Stock
}

func TestSQLTake(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		resetSQL(t, s, 1, 5, 0)
		resetSQL(t, s, 2, 5, 3)
		for _, c := range []struct {
			product, quantity, remaining int64
			ok                           bool
		}{
			{1, 2, 3, true}, {1, 4, 0, false}, {1, 3, 0, true}, {1, 1, 0, false}, {2, 1, 0, false}, {3, 1, 0, false},
		} {
			do(t, s, func(tx *sqldb.Tx) error {
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
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
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
			{2, row.LeaseSeq, true}, {2, row.LeaseSeq, false}, {2, row.LeaseSeq + 2, false}, {4, row.LeaseSeq + 1, false},
			{3, row.LeaseSeq + 1, true},
		} {
			do(t, s, func(tx *sqldb.Tx) error {
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
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		_, err := s.Facts(t.Context(), 1)
		testkit.IsError(t, err, store.ErrUnknownProduct, "Facts() of a product that nobody made")
		_, err = s.Read(t.Context(), 1)
		testkit.IsError(t, err, store.ErrUnknownProduct, "Read() of a product that nobody made")
		resetSQL(t, s, 1, 5, 0)
		resetSQL(t, s, 2, 7, 0)
		a := storetest.SomeOrder("00000000-0000-7000-8000-00000000000a", 1)
		b := storetest.SomeOrder("00000000-0000-7000-8000-00000000000b", 1)
		a.Fence, b.Fence, b.Remaining, b.Key = 1<<62, 7, nil, nil
		do(t, s, func(tx *sqldb.Tx) error {
			_, _, err := tx.ClaimKey([]byte("k"), 1, bytes.Repeat([]byte("f"), 32), 9)
			return errors.Join(err, tx.KeepAnswer([]byte("k"), idempotency.Record{Status: 200, Body: []byte("b"), Mode: "m"}),
				tx.InsertOrder(a), tx.InsertOrder(b), tx.Set(1, -2))
		})
		storetest.WantFacts(t, s, 1, ledger.Facts{
			Initial: 5, Stock: -2, Sold: ledger.Absolutely, Orders: []ledger.Order{a, b},
			Keys: []ledger.KeyRow{{Key: []byte("k"), Status: 200, CreatedMicros: 9, Mode: "m"}},
		}, "after the writes")
		before, err := s.Facts(t.Context(), 1)
		testkit.Must(t, err)
		resetSQL(t, s, 1, 3, 2)
		storetest.WantFacts(t, s, 1, ledger.Facts{Initial: 3, Stock: 3, Sold: ledger.InSegments}, "after a reset")
		after, err := s.Facts(t.Context(), 1)
		if err != nil || after.LeaseSeq != before.LeaseSeq+1 || after.Run == before.Run {
			t.Errorf("Facts() after Reset() = %+v, %v, want another run, and one write more than %+v", after, err, before)
		}
		_, err = s.Read(t.Context(), 1)
		testkit.IsError(t, err, store.ErrSegmented, "Read() of a segmented product")
		testkit.Is(t, stockOf(t, s, 2), 7, "stock of the other product")
	})
}

func TestSQLResetsAtOnce(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		var wg sync.WaitGroup
		for product := range int64(6) {
			wg.Go(func() {
				for range 5 {
					testkit.Is(t, s.Reset(t.Context(), product, 9, ledger.Rules{}), nil, "Reset(%d)", product)
				}
			})
		}
		wg.Wait()
	})
}

// A body that fails, panics or loses its context leaves nothing, and nothing to the next one on its connection. Here
// there is only one.
func TestSQLRollsBack(t *testing.T) {
	for name, dsn := range map[string]func(*testing.T) string{
		"mysql": mySQL, "sqlite": func(t *testing.T) string { t.Helper(); return testenv.SQLite(t) },
	} {
		t.Run(name, func(t *testing.T) {
			onEveryTx(t, dsn, 1, func(t *testing.T, s *sqldb.Store, tx transact) {
				resetSQL(t, s, 1, 9, 0)
				resetSQL(t, s, 2, 9, 0)
				next := func(after string) {
					t.Helper()
					testkit.Is(t, tx(t.Context(), take(t, 2, nil)), nil, "a transaction after %s", after)
				}
				next("nothing")
				mine := errors.New("mine")
				if err := tx(t.Context(), take(t, 1, mine)); !errors.Is(err, mine) {
					t.Errorf("a transaction whose body fails = %v, want its error", err)
				}
				next("an error")
				func() {
					defer func() { recover() }()
					_ = tx(t.Context(), func(tx *sqldb.Tx) error { panic(take(t, 1, nil)(tx)) })
				}()
				next("a panic")
				ctx, cancel := context.WithCancel(t.Context())
				err := tx(ctx, func(tx *sqldb.Tx) error { defer cancel(); return take(t, 1, nil)(tx) })
				if err == nil {
					t.Error("a transaction whose context ended before COMMIT = nil, want an error")
				}
				next("a context's end")
				testkit.IsError(t, tx(ctx, take(t, 1, nil)), store.ErrUnavailable, "a transaction under an ended context")
				if one, two := stockOf(t, s, 1), stockOf(t, s, 2); one != 9 || two != 5 {
					t.Errorf("stocks = %d and %d, want 9 and 5", one, two)
				}
			})
		})
	}
}

// Two transactions take the same two rows in opposite order: the one that loses is rolled back as a whole, and may be
// retried.
func TestSQLDeadlock(t *testing.T) {
	onEveryTx(t, mySQL, 2, func(t *testing.T, s *sqldb.Store, tx transact) {
		resetSQL(t, s, 1, 5, 0)
		resetSQL(t, s, 2, 5, 0)
		var both, ended sync.WaitGroup
		both.Add(2)
		conflicts := make(chan error, 2)
		for _, order := range [][2]int64{{1, 2}, {2, 1}} {
			ended.Go(func() {
				met := sync.OnceFunc(func() { both.Done(); both.Wait() })
				swap := func(tx *sqldb.Tx) error {
					_, _, err := tx.Take(order[0], 1)
					met()
					if err == nil {
						_, _, err = tx.Take(order[1], 1)
					}
					return err
				}
				err := tx(t.Context(), swap)
				for ; errors.Is(err, store.ErrConflict); err = tx(t.Context(), swap) {
					conflicts <- err
				}
				if err != nil {
					t.Errorf("a transaction = %v, want nil in the end", err)
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
	})
}

// impatientMySQL returns a database whose sessions wait for a row lock for one second.
func impatientMySQL(t *testing.T) string {
	t.Helper()
	cfg, err := mysql.ParseDSN(testenv.MySQL(t))
	testkit.Must(t, err)
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["innodb_lock_wait_timeout"] = "1"
	return cfg.FormatDSN()
}

// Error 1205 ends only the statement: the earlier writes of the transaction must be rolled back too.
func TestSQLLockWaitTimeout(t *testing.T) {
	onEveryTx(t, impatientMySQL, 2, func(t *testing.T, s *sqldb.Store, tx transact) {
		resetSQL(t, s, 1, 5, 0)
		resetSQL(t, s, 2, 5, 0)
		both := func(tx *sqldb.Tx) error {
			if err := take(t, 2, nil)(tx); err != nil {
				return err
			}
			_, _, err := tx.Take(1, 1)
			return err
		}
		do(t, s, func(holder *sqldb.Tx) error {
			err := take(t, 1, nil)(holder)
			if err := tx(t.Context(), both); !errors.Is(err, store.ErrConflict) {
				t.Errorf("the rival's transaction = %v, want ErrConflict", err)
			} else {
				t.Logf("A has updated product 1. B updates product 2, then product 1: %v", err)
			}
			return err
		})
		testkit.Is(t, tx(t.Context(), both), nil, "the rival's transaction again")
		one, two := stockOf(t, s, 1), stockOf(t, s, 2)
		if one != 3 || two != 4 {
			t.Errorf("stocks = %d and %d, want 3 and 4: all of the one that waited rolled back", one, two)
		}
		t.Logf("A commits, and B runs again: stocks 5 and 5 are now %d and %d, so B's first try left nothing", one, two)
	})
}

// A lost answer to COMMIT: the outcome is unknown, and the key tells it. A lost answer to a statement: nothing
// happened.
func TestSQLLostAnswers(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]error{
		"^COMMIT$": store.ErrUnknown, "INSERT INTO idempotent_log": store.ErrUnavailable,
		"LAST_INSERT_ID": store.ErrUnavailable,
	} {
		for name, of := range everyTx {
			t.Run(name+"/"+pattern, func(t *testing.T) {
				t.Parallel()
				cfg, err := mysql.ParseDSN(testenv.MySQL(t))
				testkit.Must(t, err)
				p := storetest.Gate(t, cfg.Addr, codec.MySQL)
				cfg.Addr = p.Addr
				s := openSet(t, cfg.FormatDSN(), 1).SQL
				tx, committed := of(s), errors.Is(want, store.ErrUnknown)
				resetSQL(t, s, 1, 5, 0)
				answers := []sqldb.KeyedAnswer{{
					Key: []byte("k"), Answer: idempotency.Record{Fingerprint: bytes.Repeat([]byte("f"), 32), Status: 200,
						Body: []byte("b")},
				}}
				inserted, taken := 0, errors.New("taken")
				sell := func(tx *sqldb.Tx) (err error) {
					if _, _, err = tx.Take(1, 1); err != nil {
						return err
					}
					if inserted, err = tx.InsertAnswers(1, 3, answers); err == nil && inserted == 0 {
						err = taken
					}
					return err
				}
				lost := storetest.Cut(t, p, pattern)
				if err := tx(t.Context(), sell); !errors.Is(err, want) || errors.Is(err, store.ErrUnknown) != committed ||
					!storetest.WasCut(lost) {
					t.Errorf("a transaction, cut off: %t = %v, want %v", storetest.WasCut(lost), err, want)
				}
				if err := tx(t.Context(), sell); errors.Is(err, taken) != committed || inserted == 0 != committed {
					t.Errorf("a transaction again = %v, %d new keys, want that the key was there: %t", err, inserted, committed)
				}
				if got := stockOf(t, s, 1); got != 4 {
					t.Errorf("stock = %d, want 4: it was taken once", got)
				}
				if got, err := s.Answers(t.Context(), [][]byte{[]byte("k")}); err != nil || string(got["k"].Body) != "b" {
					t.Errorf("Answers() = %v, %v, want the answer", got, err)
				}
			})
		}
	}
}

func TestSQLRefused(t *testing.T) {
	t.Parallel()
	set, err := backend.Open(backend.Config{SQL: "root@tcp(127.0.0.1:1)/shop", Conns: 1,
		Health: backend.Health{Every: -1}})
	testkit.Must(t, err)
	defer set.Close()
	s := set.SQL
	_, readErr := s.Read(t.Context(), 1)
	_, factsErr := s.Facts(t.Context(), 1)
	body := func(*sqldb.Tx) error { t.Error("the body ran without a server"); return nil }
	for name, err := range map[string]error{
		"Read": readErr, "Facts": factsErr, "Reset": s.Reset(t.Context(), 1, 1, ledger.Rules{}), "Tx": inTx(t, s, body),
		"GroupTx": s.GroupTx(t.Context(), body), "TripTx": s.TripTx(t.Context(), body),
	} {
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s from nobody = %v, want ErrUnavailable", name, err)
		}
	}
}

// A disk without room is met at COMMIT, where SQLite writes its file: the transaction is rolled back, and that is
// known.
func TestSQLiteIsFull(t *testing.T) {
	t.Parallel()
	file := strings.TrimPrefix(testenv.SQLite(t), "sqlite:")
	resetSQL(t, openSQL(t, "sqlite:"+file), 1, 5, 0)
	connector, err := sqlite.Connector(file)
	testkit.Must(t, err)
	full := &fullConnector{Connector: connector}
	pool := testkit.Closing(t, sql.OpenDB(full))
	db, err := gorm.Open(sqlite.Dialector{Pool: pool}, &gorm.Config{SkipDefaultTransaction: true})
	testkit.Must(t, err)
	full.err = db.Exec("PRAGMA max_page_count = 1; CREATE TABLE more AS SELECT zeroblob(100000)").Error
	if !sqlite.Full(full.err) {
		t.Fatalf("a table in a file without room: %v", full.err)
	}
	s, err := sqldb.New(db)
	testkit.Must(t, err)
	err = inTx(t, s, take(t, 1, nil))
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) ||
		!errors.Is(sqldb.Refusal(err), store.ErrRefused) {
		t.Errorf("COMMIT on a full disk = %v, want a refusal", err)
	}
	testkit.Is(t, stockOf(t, s, 1), 5, "stock")
}

// fullConnector makes connections on which COMMIT answers err, once that is set.
type fullConnector struct {
	driver.Connector
	err error
}

func (f *fullConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := f.Connector.Connect(ctx)
	return fullConn{c, f}, err
}

type fullConn struct {
	driver.Conn
	f *fullConnector
}

func (c fullConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	begun, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
	return fullTx{begun, c.f}, err
}

type fullTx struct {
	driver.Tx
	f *fullConnector
}

func (t fullTx) Commit() error { return errors.Join(t.Rollback(), t.f.err) }
