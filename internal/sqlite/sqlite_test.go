package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"lastitem/internal/sqlite"
	"lastitem/testkit"
)

// open opens a pool on a file, closed with the test.
func open(t *testing.T, file string) *gorm.DB {
	t.Helper()
	connector, err := sqlite.Connector(file)
	testkit.Must(t, err)
	pool := testkit.Closing(t, sql.OpenDB(connector))
	db, err := gorm.Open(sqlite.Dialector{Pool: pool}, &gorm.Config{SkipDefaultTransaction: true, Logger: logger.Discard})
	testkit.Must(t, err)
	return db
}

func exec(t *testing.T, db *gorm.DB, statement string, args ...any) {
	t.Helper()
	testkit.Mustf(t, db.Exec(statement, args...).Error, "%s", statement)
}

// Every connection has the settings, and the file is the one that was named, whatever signs its name has.
func TestSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "50% off? #1 a+b.db")
	for range 2 {
		db := open(t, file)
		for pragma, want := range map[string]string{"busy_timeout": "10000", "journal_mode": "wal", "synchronous": "1"} {
			var got string
			if err := db.Raw("PRAGMA " + pragma).Row().Scan(&got); err != nil || got != want {
				t.Errorf("PRAGMA %s = %s, %v, want %s", pragma, got, err, want)
			}
		}
	}
	if found, err := filepath.Glob(filepath.Join(filepath.Dir(file), "50*b.db")); err != nil || len(found) != 1 ||
		found[0] != file {
		t.Errorf("files %q, %v, want %s", found, err, file)
	}
}

// Transactions that read and then write do not fail when others write in between, since they hold the write lock from
// BEGIN on.
func TestTransactionsThatReadAndWrite(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "a.db"))
	exec(t, db, "CREATE TABLE t (n INTEGER)")
	exec(t, db, "INSERT INTO t VALUES (0)")
	const clients, each = 8, 25
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				err := db.Transaction(func(tx *gorm.DB) error {
					var n int
					if err := tx.Raw("SELECT n FROM t").Row().Scan(&n); err != nil {
						return err
					}
					return tx.Exec("UPDATE t SET n = ?", n+1).Error
				})
				testkit.Check(t, err)
			}
		})
	}
	wg.Wait()
	var n int
	if err := db.Raw("SELECT n FROM t").Row().Scan(&n); err != nil || n != clients*each {
		t.Errorf("n = %d, %v, want %d", n, err, clients*each)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "a.db"))
	exec(t, db, "CREATE TABLE number (k INTEGER PRIMARY KEY, v INTEGER CHECK (v < 10))")
	exec(t, db, "CREATE TABLE blob (k BLOB NOT NULL PRIMARY KEY)")
	exec(t, db, "CREATE TABLE pair (a INTEGER, b INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID")
	insert := func(statement string) error { return db.Exec(statement).Error }
	for _, statement := range []string{"INSERT INTO number VALUES (1, 1)", "INSERT INTO blob VALUES (x'00ff')",
		"INSERT INTO pair VALUES (1, 2)"} {
		exec(t, db, statement)
		if err := insert(statement); !sqlite.Duplicate(err) || sqlite.Busy(err) || sqlite.CannotOpen(err) {
			t.Errorf("%s again = %v, want a duplicate", statement, err)
		}
	}
	check := insert("INSERT INTO number VALUES (2, 10)")
	if check == nil || sqlite.Duplicate(check) || sqlite.Busy(check) || sqlite.CannotOpen(check) {
		t.Errorf("a value that CHECK refuses = %v, want another error", check)
	}
	connector, err := sqlite.Connector(filepath.Join(dir, "missing", "a.db"))
	testkit.Must(t, err)
	pool := sql.OpenDB(connector)
	defer pool.Close()
	if err := pool.Ping(); !sqlite.CannotOpen(err) || !sqlite.CannotOpen(fmt.Errorf("wrapped: %w", err)) ||
		sqlite.Busy(err) {
		t.Errorf("a file without a directory: %v, want one that cannot be opened", err)
	}
	for _, other := range []error{nil, errors.New("database is locked (5)")} {
		if sqlite.Busy(other) || sqlite.Duplicate(other) || sqlite.CannotOpen(other) {
			t.Errorf("%v is taken for an error of SQLite", other)
		}
	}
}

// SQLITE_BUSY is a writer that waits in vain, SQLITE_BUSY_SNAPSHOT a deferred transaction whose snapshot is old.
func TestBusy(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "a.db"))
	exec(t, db, "CREATE TABLE t (n INTEGER)")
	pool, err := db.DB()
	testkit.Must(t, err)
	late, err := pool.Conn(t.Context())
	testkit.Must(t, err)
	defer late.Close()
	run := func(statement string) error { _, err := late.ExecContext(t.Context(), statement); return err }
	for _, statement := range []string{"PRAGMA busy_timeout = 10", "BEGIN DEFERRED", "SELECT n FROM t"} {
		testkit.Mustf(t, run(statement), "%s", statement)
	}
	exec(t, db, "INSERT INTO t VALUES (1)")
	if err := run("INSERT INTO t VALUES (2)"); !sqlite.Busy(err) {
		t.Errorf("a write on an old snapshot = %v, want busy", err)
	}
	testkit.Must(t, run("ROLLBACK"))
	tx := db.Begin()
	defer tx.Rollback()
	if err := run("INSERT INTO t VALUES (3)"); !sqlite.Busy(err) {
		t.Errorf("a write beside a transaction = %v, want busy", err)
	}
}

// A statement whose context has ended is not run, and says so; one that waits for the write lock ends with its context.
func TestContext(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "a.db"))
	exec(t, db, "CREATE TABLE t (n INTEGER)")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.WithContext(ended).Exec("INSERT INTO t VALUES (1)").Error; !errors.Is(err, context.Canceled) {
		t.Errorf("under a context that has ended = %v, want %v", err, context.Canceled)
	}
	tx := db.Begin()
	short := testkit.Within(t, 50*time.Millisecond)
	began := time.Now()
	err := db.WithContext(short).Exec("INSERT INTO t VALUES (2)").Error
	if waited := time.Since(began); err == nil || waited > 8*time.Second {
		t.Errorf("a write beside a transaction = %v after %v, want an error soon after 50ms", err, waited)
	}
	tx.Rollback()
	var n int
	if err := db.Raw("SELECT COUNT(*) FROM t").Row().Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows, %v, want none", n, err)
	}
}
