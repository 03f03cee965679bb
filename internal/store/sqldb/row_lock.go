package sqldb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"lastitem/internal/store"
)

// Numbers of server errors that say that a locking read did not get its row in time.
const (
	erMaxStatementTime = 1969 // MariaDB
	erQueryTimeout     = 3024 // MySQL
	erLockNoWait       = 3572 // MySQL; MariaDB says 1205, as it does after innodb_lock_wait_timeout
)

// ReadForUpdate reads the row of a product that is not segmented and keeps it locked until the transaction ends. MySQL
// only. The server ends the wait after wait, 0 = at once: [store.ErrRowBusy]. So does ctx, at the price of the
// connection.
//
// The limit is part of the statement. A deadline of ctx alone would not suffice: the driver closes the connection, but
// the server does not notice while the statement waits, so every statement that gave up would stay in the row's queue.
// innodb_lock_wait_timeout has whole seconds and would remain set in the session.
func (t *Tx) ReadForUpdate(ctx context.Context, product int64, wait time.Duration) (Row, error) {
	query, args := t.q.ReadForUpdateNowait, []any{product}
	if ms := (min(wait, t.rowWait) + time.Millisecond - 1).Milliseconds(); ms > 0 { // rounded up: 0 would be no limit
		query, args = t.q.ReadForUpdate, []any{float64(ms) / 1000, ms, product}
	}
	row, err := readRow(t.conn.QueryRowContext(ctx, query, args...), product)
	switch {
	case err == nil:
		return row, nil
	case ctx.Err() != nil:
		return row, fmt.Errorf("%w: %w", store.ErrRowBusy, context.Cause(ctx))
	case outOfTime(err):
		return row, fmt.Errorf("%w: product %d: %w", store.ErrRowBusy, product, err)
	}
	return row, err
}

// outOfTime says that a locking read ended because another transaction kept the row.
func outOfTime(err error) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Number {
	case erMaxStatementTime, erQueryTimeout, erLockNoWait, erLockWaitTimeout:
		return true
	}
	return false
}
