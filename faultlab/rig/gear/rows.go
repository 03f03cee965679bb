package gear

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Tables are the shop's tables whose rows a request may lock.
var Tables = []string{"product_stock", "orders", "idempotent_log", "record_lock"}

// rowsOf returns a query that locks the lane's rows of a table, or all rows if the table has no column for the product.
// It also locks the gaps between them against inserts.
func (s *SQL) rowsOf(table string) string {
	switch table {
	case "product_stock":
		return fmt.Sprintf("SELECT 1 FROM product_stock WHERE id = %d FOR UPDATE", s.place.Product())
	case "orders":
		return fmt.Sprintf("SELECT 1 FROM orders WHERE product_id = %d FOR UPDATE", s.place.Product())
	default:
		return "SELECT 1 FROM " + table + " FOR UPDATE"
	}
}

// Rows is a transaction of the lab that holds row locks.
type Rows struct {
	db *SQL
	tx *sql.Tx
	id int64 // of its session
}

// The numbers of MySQL's errors about locks.
const (
	lockWaitTimeout = 1205
	lockNoWait      = 3572 // MySQL; MariaDB says 1205
	// LockWaitTimeout, Deadlock and ReadOnlyError are the numbers in the form of [wire.Call].
	LockWaitTimeout = "1205"
	Deadlock        = "1213"
	ReadOnlyError   = "1290"
)

// LockRows locks the lane's rows of a table in a transaction of the lab. ErrNothing: another transaction has locked
// them. The caller unlocks.
func (s *SQL) LockRows(ctx context.Context, table string) (*Rows, error) {
	db, err := s.DB()
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return nil, fmt.Errorf("faultlab: %w", err)
	}
	r := &Rows{db: s, tx: tx}
	if err := errors.Join(tx.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&r.id), r.try(ctx, table)); err != nil {
		r.Unlock()
		return nil, err
	}
	return r, nil
}

// try locks the rows of a table without waiting. ErrNothing: another transaction has locked them.
func (r *Rows) try(ctx context.Context, table string) error {
	rows, err := r.tx.QueryContext(ctx, r.db.rowsOf(table)+" NOWAIT")
	if err == nil {
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			continue // drain the rows
		}
		err = rows.Err()
	}
	var known *mysql.MySQLError
	if errors.As(err, &known) && (known.Number == lockWaitTimeout || known.Number == lockNoWait) {
		return ErrNothing
	}
	return err
}

// Unlock rolls back the transaction and so releases its locks.
func (r *Rows) Unlock() { _ = r.tx.Rollback() }

// Weigh makes the transaction modify many rows and wait long for locks, so that InnoDB chooses the other transaction as
// the deadlock victim.
func (r *Rows) Weigh(ctx context.Context) error {
	err := r.db.exec(ctx, "CREATE TABLE IF NOT EXISTS lab_weight (n INT)")
	if err == nil {
		_, err = r.tx.ExecContext(ctx, "SET SESSION innodb_lock_wait_timeout = 30")
	}
	if err == nil {
		_, err = r.tx.ExecContext(ctx, "INSERT INTO lab_weight VALUES (1)"+strings.Repeat(", (1)", 500)) //nolint:gosec // a constant
	}
	if err != nil {
		return fmt.Errorf("faultlab: %w", err)
	}
	return nil
}

// Cross makes the transaction wait for rows that another transaction has locked in a table other than but, and returns
// when it waits. ErrNothing: no such rows are locked.
func (r *Rows) Cross(ctx context.Context, but string) error {
	i := slices.IndexFunc(Tables, func(table string) bool {
		return table != but && errors.Is(r.try(ctx, table), ErrNothing)
	})
	if i < 0 {
		return ErrNothing
	}
	// ends when the deadlock is resolved, or at Unlock
	go func() { _, _ = r.tx.ExecContext(ctx, r.db.rowsOf(Tables[i])) }()
	db, err := r.db.DB()
	if err != nil {
		return err
	}
	return Until(ctx, "the lab's transaction to wait", func() bool {
		var state string
		err := db.QueryRowContext(ctx, "SELECT trx_state FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = ?",
			r.id).Scan(&state)
		return err == nil && state == "LOCK WAIT"
	})
}
