// Package plain has the modes that docs/choose.md recommends, to be copied: a file each, of forty lines, with its
// schema and its traps. They need Go 1.26, database/sql and the MySQL driver, go-redis, or the client of etcd, and
// nothing of lastitem. For MySQL and MariaDB with InnoDB.
//
// A copy keeps what its mode promises about the stock, and less of its contract: one product at a time, no stored
// answers, and no limit per buyer where nothing is held. Only Idempotent, Lua, Tickets and the two that hold know a
// request that is repeated; the others sell to it again.
//
// Tickets decides in Redis and writes orders in SQL: a consumer, and a reconciler. It is longer too.
//
// ReserveSQL and ReserveRedis hold units until the buyer pays. They are longer: a hold is a sweep and three ends that
// exclude each other. They have a limit per buyer, returns, and adjustments of the stock while it sells, but no parts
// of a hold or of an order. reservation.go has what they share. They do not sell without a hold, and know no runs: if
// you set the stock again, existing holds stay.
package plain

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-sql-driver/mysql"
)

// These are answers, not failures: nothing was written.
var (
	ErrSoldOut   = errors.New("sold out")
	ErrContended = errors.New("others wrote first, several times")
	ErrOtherSale = errors.New("the key belongs to another sale")
	ErrKey       = errors.New("a key is empty, or longer than 64 bytes")
	// ErrQuantity is the trap of every statement here: units >= -20 holds, and units - -20 adds twenty.
	ErrQuantity = errors.New("quantity below one, or an adjustment by none")
)

// inTx runs a transaction, and runs it again if the database ended it in favour of another one. An error of COMMIT
// other than that is unknown: the sale may stand. Repeat it only with a key.
func inTx(ctx context.Context, db *sql.DB, body func(*sql.Tx) error) error {
	for range 10 {
		err := once(ctx, db, body)
		if !says(err, 1205, 1213) { // lock wait timeout, deadlock
			return err
		}
	}
	return ErrContended
}

func once(ctx context.Context, db *sql.DB, body func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after COMMIT it does nothing
	if err := body(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// says reports whether err is one of these errors of the server.
func says(err error, numbers ...uint16) bool {
	my, ok := errors.AsType[*mysql.MySQLError](err)
	for _, n := range numbers {
		if ok && my.Number == n {
			return true
		}
	}
	return false
}
