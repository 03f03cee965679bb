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

// A fencing token guards the row of a product: the row remembers the highest token that it has seen, in its column
// fence, and the statements here do nothing for a lower one.

// ReadFenced shows the row of a product that is not segmented a fencing token, and reads it, in one transaction. ok is
// false when the row has seen a higher token, or, strictly, when it has seen this one. After any error the stock is
// unchanged.
func (s *Store) ReadFenced(ctx context.Context, product int64, fence uint64, strictly bool) (row Row, ok bool,
	err error) {
	query := s.q.RaiseFence
	if strictly {
		query = s.q.RaiseFenceStrictly
	}
	err = s.Tx(ctx, ReadCommitted, func(tx *Tx) error {
		n, err := tx.affected(query, fence, product, fence)
		if err != nil {
			return err
		}
		ok = n > 0
		row, err = tx.Read(product)
		return err
	})
	if errors.Is(err, store.ErrUnknown) { // unknown is only whether the row has the token
		err = fmt.Errorf("%w: a read without its answer: %s", store.ErrUnavailable, err.Error())
	}
	return row, ok, err
}

// SetFenced writes the count absolutely, unless the row has seen a higher token than fence; ok is false when it has.
func (t *Tx) SetFenced(product, stock int64, fence uint64) (ok bool, err error) {
	n, err := t.affected(t.q.SetFenced, stock, fence, product, fence)
	if err == nil && n == 0 {
		err = t.RefuseHeld(product)
	}
	return n > 0, err
}
