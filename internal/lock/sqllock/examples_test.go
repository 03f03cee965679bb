package sqllock_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gorm.io/gorm"

	"lastitem/internal/backend"
	"lastitem/internal/lock/sqllock"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// exampleMySQL is the address of the server for the example that has no embedded one. It has no output for the go
// command to check, which would run it without a server; TestSQLServerExample runs it.
var exampleMySQL string

// TestSQLServerExample runs the example that needs a server, and compares what it prints.
func TestSQLServerExample(t *testing.T) {
	exampleMySQL = testenv.MySQL(t)
	const want = "made: <nil>\na rival: lock: busy\nreleased: <nil>\n"
	locktest.WantPrinted(t, ExampleForUpdate, want)
}

// exampleDB returns a database with its tables.
func exampleDB(dsn string) (db *gorm.DB, stop func()) {
	db, err := backend.OpenSQL(dsn, 4)
	if err != nil {
		panic(err)
	}
	pool, err := db.DB()
	if err != nil {
		panic(err)
	}
	if _, err := backend.Migrate(context.Background(), db); err != nil {
		panic(err)
	}
	return db, func() { _ = pool.Close() }
}

// exampleSQLite returns a SQLite database in a file.
func exampleSQLite() (db *gorm.DB, stop func()) {
	dir, err := os.MkdirTemp("", "lock-example-")
	if err != nil {
		panic(err)
	}
	db, closeDB := exampleDB("sqlite:" + filepath.Join(dir, "lastitem.db"))
	return db, func() {
		closeDB()
		_ = os.RemoveAll(dir)
	}
}

// A row under a unique index: the client that inserts the row holds the lock, forever if it dies.
func ExampleUnique() {
	db, stop := exampleSQLite()
	defer stop()
	locker, err := sqllock.NewUnique(db, nil)
	fmt.Println("made:", err)
	lease, _ := locktest.TryOnce(locker, "product 101")
	_, err = locktest.TryOnce(locker, "product 101")
	fmt.Println("a rival:", err)
	fmt.Println("released:", lease.Release(context.Background()))
	// Output:
	// made: <nil>
	// a rival: lock: busy
	// released: <nil>
}

// The same with an expiry, by the database's clock, and a fence that rises with every hold. A write should check the
// fence.
func ExampleLeaseRow() {
	db, stop := exampleSQLite()
	defer stop()
	locker, err := sqllock.NewLeaseRow(db, 10*time.Second, nil)
	fmt.Println("made:", err)
	for range 2 {
		lease, _ := locktest.TryOnce(locker, "product 101")
		fmt.Println("fence:", lease.Fence())
		fmt.Println("released:", lease.Release(context.Background()))
	}
	// Output:
	// made: <nil>
	// fence: 1
	// released: <nil>
	// fence: 2
	// released: <nil>
}

// A row that a transaction locks: rivals wait in the server's queue.
func ExampleForUpdate() {
	db, stop := exampleDB(exampleMySQL)
	defer stop()
	locker, err := sqllock.NewForUpdate(db, 10*time.Second, nil)
	fmt.Println("made:", err)
	lease, _ := locktest.TryOnce(locker, "product 101")
	_, err = locktest.TryOnce(locker, "product 101")
	fmt.Println("a rival:", err)
	fmt.Println("released:", lease.Release(context.Background()))
}
