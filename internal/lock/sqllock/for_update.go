package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"gorm.io/gorm"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// ErrNoConnection comes with [lock.ErrBusy]: the wait was not for the lock but for a connection of the pool.
var ErrNoConnection = errors.New("lock: no free connection in the pool")

// ForUpdate is a named row that a transaction locks and holds: SELECT ... FOR UPDATE, work, COMMIT. The connection owns
// the lock: when the connection ends, for whatever reason, the server gives the row to the next waiter.
//
// It has no fence: a number counted in the transaction that holds the row would be rolled back with it, and issued
// again.
//
// What breaks it: first, as many holders and waiters, of any keys, as the pool has connections. Every other caller then
// waits for a connection, and a holder that needs one more for its work waits forever. Give the lock a pool of its own.
// Second, a killed connection: the server lets the next waiter in at once, but the holder learns of it only when it
// next uses the connection, at most a third of ttl later.
type ForUpdate struct {
	t     table
	ttl   time.Duration
	steps *step.Stream
}

// NewForUpdate returns the lock on rows of the table record_lock of db, which must be MySQL or MariaDB (10.3 for
// NOWAIT). ttl, in whole seconds, is how long the server keeps the transaction of a silent process; the lock uses the
// connection every third of it. Keys are at most 255 bytes long.
func NewForUpdate(db *gorm.DB, ttl time.Duration, steps *step.Stream) (*ForUpdate, error) {
	t, err := newTable(db)
	if err == nil && t.dialect != "mysql" {
		err = fmt.Errorf("lock: sql-for-update: %s has no row locks", t.dialect)
	}
	return &ForUpdate{t, max(ttl.Truncate(time.Second), time.Second), steps}, err
}

// Acquire waits for a connection and then for the row. The server does the waiting in whole seconds, and wakes the
// waiter at once; the rest of less than a second is polled.
func (l *ForUpdate) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	ctx = lock.BeginWait(ctx)
	if err := lock.RefuseLease(ctx, "sql-for-update"); err != nil {
		return nil, err
	}
	l.steps.At(ctx, step.Waiting, key)
	c, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	sent, err := c.lock(ctx, key)
	// the server may have ended the connection and granted the row to the next client
	if err == nil && lock.TooLate(sent, l.ttl) {
		err = fmt.Errorf("%w: sql-for-update: the row was granted for %s, and that is over", lock.ErrBusy, l.ttl)
	}
	if err != nil {
		back, cancel := lock.Detached(ctx)
		defer cancel()
		_ = c.end(back, "ROLLBACK")
		return nil, err
	}
	s := (&lock.Session{Renew: c.alive}).Start(sent, l.ttl)
	hold := &lock.SessionLease{Session: s, Kind: "sql-for-update", Key: key, Steps: l.steps}
	hold.Free = func(ctx context.Context) error {
		s.Stop()
		if s.Lost() {
			c.discard()
			return lock.ErrLost
		}
		ctx, cancel := lock.Detached(ctx) // the time-out begins here, after the renewal in flight
		defer cancel()
		return c.end(ctx, "COMMIT")
	}
	hold.Bind(ctx)
	l.steps.At(ctx, step.Locked, key)
	return hold, nil
}

// conn takes a connection of the pool. If one is free or may be opened, that belongs to the first attempt. Otherwise it
// is part of the wait, even if other callers took the free connection first.
func (l *ForUpdate) conn(ctx context.Context) (*sql.Conn, error) {
	for {
		limit, stop := context.WithTimeout(ctx, lock.CommandTimeout)
		waits := l.exhausted()
		if waits {
			stop()
			limit, stop = lock.WaitContext(ctx)
		}
		conn, err := l.t.pool.Conn(limit)
		late := lock.Ended(limit)
		stop()
		switch {
		case err == nil:
			return conn, nil
		case lock.Ended(ctx):
			return nil, fmt.Errorf("%w: %w", lock.GaveUp(ctx), ErrNoConnection)
		case late && (waits || l.exhausted()):
			if waits || !lock.MayWait(ctx) {
				return nil, fmt.Errorf("%w: %w", lock.ErrBusy, ErrNoConnection)
			}
		default:
			return nil, fmt.Errorf("%w: sql-for-update: %w", lock.ErrUnavailable, err)
		}
	}
}

func (l *ForUpdate) exhausted() bool {
	st := l.t.pool.Stats()
	return st.MaxOpenConnections > 0 && st.InUse >= st.MaxOpenConnections
}

// connect reserves a connection of the pool for this hold.
func (l *ForUpdate) connect(ctx context.Context) (*rowConn, error) {
	conn, err := l.conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &rowConn{t: l.t, conn: conn}
	// The server ends a connection that is idle for longer, and with it the transaction: that makes it a lease. Without
	// autocommit every statement is in a transaction: after an error that ends one, such as a time-out with
	// innodb_rollback_on_timeout, the next read still locks its row.
	err = c.exec(ctx, fmt.Sprintf("SET @lastitem_wait = @@wait_timeout, @lastitem_lock = @@innodb_lock_wait_timeout, "+
		"@lastitem_auto = @@autocommit, wait_timeout = %d, innodb_lock_wait_timeout = 1, autocommit = 0",
		int(l.ttl/time.Second)))
	if err != nil {
		c.discard()
		return nil, c.failed(ctx, err)
	}
	return c, nil
}

// rowConn is a connection that holds a row, or waits for it.
type rowConn struct {
	t    table
	conn *sql.Conn // nil once it was returned
}

func (c *rowConn) exec(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, lock.CommandTimeout)
	defer cancel()
	_, err := c.conn.ExecContext(ctx, statement)
	return err
}

// alive uses the connection. If it fails, the driver closes it, and the row is free.
func (c *rowConn) alive(ctx context.Context) error {
	if err := c.exec(ctx, "DO 1"); err != nil {
		return fmt.Errorf("%w: %w", lock.ErrLost, err)
	}
	return nil
}

// rowWait is the longest single wait at the server: a dead waiter stays in the server's queue for that time.
const rowWait = 5 * time.Second

// lock locks the row, in a transaction that begins with the locking read. sent is when its last statement was sent.
func (c *rowConn) lock(ctx context.Context, key string) (sent time.Time, err error) {
	for wait := time.Duration(0); ; { // the first attempt does not wait
		sent = time.Now()
		err := c.row(ctx, key, wait)
		switch {
		case err == nil && wait > 0: // after a long wait, send another statement: the TTL counts from its sending
			sent = time.Now()
			if err = c.exec(ctx, "DO 1"); err == nil {
				return sent, nil
			}
		case err == nil:
			return sent, nil
		case errors.Is(err, sql.ErrNoRows):
			err = c.make(ctx, key)
		case sqlTaken(err) || sqlDeadlock(err):
			err = nil
			if wait = c.share(ctx); wait == 0 {
				err = lock.Pause(ctx, time.Millisecond+rand.N(sqlRetry), nil)
			}
		}
		if err != nil {
			return sent, c.failed(ctx, err)
		}
	}
}

// share returns the next wait at the server in whole seconds; 0 if less than a second is left.
func (c *rowConn) share(ctx context.Context) time.Duration {
	until, bounded := lock.WaitUntil(ctx)
	if !bounded {
		return rowWait
	}
	return max(0, min(rowWait, time.Until(until).Truncate(time.Second)))
}

// row reads the row with a lock.
func (c *rowConn) row(ctx context.Context, key string, wait time.Duration) error {
	statement := c.t.statements["for_update"]
	if wait > 0 {
		statement = strings.TrimSuffix(statement, " NOWAIT")
		if err := c.exec(ctx, fmt.Sprintf("SET innodb_lock_wait_timeout = %d", int(wait/time.Second))); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, wait+lock.CommandTimeout)
	defer cancel()
	var got []byte
	return c.conn.QueryRowContext(ctx, statement, []byte(key)).Scan(&got)
}

// make makes the row, in a separate transaction: an uncommitted row is invisible to others, and a read that missed the
// row has locked its gap, so that two such reads would block each other's insert. It is no error if somebody else has
// made the row meanwhile, and perhaps locked it.
func (c *rowConn) make(ctx context.Context, key string) error {
	if err := c.exec(ctx, "ROLLBACK"); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, lock.CommandTimeout)
	defer cancel()
	_, err := c.conn.ExecContext(bounded, c.t.statements["make"], []byte(key))
	if err != nil && !sqlDuplicate(err) && !sqlTaken(err) && !sqlDeadlock(err) {
		return err
	}
	return c.exec(ctx, "COMMIT")
}

// failed is the error of an attempt that ended with err.
func (c *rowConn) failed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, lock.ErrBusy):
		return err
	case lock.Ended(ctx):
		return lock.GaveUp(ctx)
	}
	return fmt.Errorf("%w: sql-for-update: %w", lock.ErrUnavailable, err)
}

// end ends the transaction, and returns the connection to the pool with its original settings. A connection that fails
// is closed, which ends the transaction once the server notices.
func (c *rowConn) end(ctx context.Context, how string) error {
	if c.conn == nil {
		return lock.ErrLost // the transaction has ended before, or the lock was closed
	}
	if err := c.exec(ctx, how); err != nil {
		c.discard()
		if errors.Is(err, driver.ErrBadConn) { // it was closed before this was sent
			return lock.ErrLost
		}
		return err
	}
	if err := c.exec(ctx, "SET wait_timeout = @lastitem_wait, innodb_lock_wait_timeout = @lastitem_lock, autocommit = "+
		"@lastitem_auto"); err != nil {
		c.discard()
		return nil //nolint:nilerr // the lock is released; only the connection is lost
	}
	_ = c.conn.Close()
	c.conn = nil
	return nil
}

// discard closes the connection.
func (c *rowConn) discard() {
	if c.conn == nil {
		return
	}
	_ = c.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = c.conn.Close()
	c.conn = nil
}
