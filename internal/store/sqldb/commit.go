package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"
)

// MySQL transactions send their statements on a connection of the pool. database/sql's Tx is not used, since it ignores
// the context while it waits for the answer to COMMIT.

// ReadCommitted is the isolation that the modes pin: a REPEATABLE READ snapshot may be older than the lock that guards
// it. SQLite is always serializable.
const ReadCommitted = sql.LevelReadCommitted

// Tx runs body in one transaction. An error of body rolls back and is returned as it is. [store.ErrConflict] and
// [store.ErrUnavailable]: rolled back. [store.ErrUnknown]: COMMIT was sent and its answer lost.
func (s *Store) Tx(ctx context.Context, isolation sql.IsolationLevel, body func(*Tx) error) error {
	if s.MySQL() {
		c, err := s.begin(ctx, isolation)
		if err != nil {
			return statementError(err)
		}
		return s.finish(ctx, c, false, body)
	}
	tx := s.db.WithContext(ctx).Begin()
	if tx.Error != nil {
		return statementError(tx.Error)
	}
	ended := false
	defer func() {
		if !ended { // an error, or a panic
			tx.Rollback() // its own failure closes the connection, and the server rolls back
		}
	}()
	t := Tx{ctx: ctx, conn: tx.Statement.ConnPool, q: &s.q, places: &s.places}
	if err := body(&t); err != nil {
		return err
	}
	if err := t.send(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return statementError(err)
	}
	ended = true
	return commitError(tx.Commit().Error)
}

// begins is how many connections a transaction tries at most: the server may have closed idle connections of the pool.
const begins = 3

// begin takes a connection and begins a transaction on it.
func (s *Store) begin(ctx context.Context, isolation sql.IsolationLevel) (*sql.Conn, error) {
	pool, err := s.db.DB()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		c, err := pool.Conn(ctx)
		if err != nil {
			return nil, err
		}
		if err = start(ctx, c, isolation); err == nil {
			return c, nil
		}
		abandon(c)
		_ = c.Close()
		s.renew(err)
		if !errors.Is(err, driver.ErrBadConn) || try == begins {
			return nil, err
		}
	}
}

func start(ctx context.Context, c *sql.Conn, isolation sql.IsolationLevel) error {
	if isolation != sql.LevelDefault {
		level := isolationLevels[isolation]
		if level == "" {
			return errors.New("store: no isolation level " + isolation.String())
		}
		if _, err := c.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL "+level); err != nil {
			return err
		}
	}
	_, err := c.ExecContext(ctx, "START TRANSACTION")
	return err
}

var isolationLevels = map[sql.IsolationLevel]string{
	sql.LevelReadUncommitted: "READ UNCOMMITTED", sql.LevelReadCommitted: "READ COMMITTED",
	sql.LevelRepeatableRead: "REPEATABLE READ", sql.LevelSerializable: "SERIALIZABLE",
}

// finish runs body in the transaction of c (begun already, or by its first statement), and commits it, in one packet
// with the statements that wait. If ctx ends before COMMIT, nothing has happened; COMMIT has its own time limit.
func (s *Store) finish(ctx context.Context, c *sql.Conn, packets bool, body func(*Tx) error) error {
	clean := false // no transaction is open
	defer func() {
		if !clean { // an error, or a panic
			abandon(c)
		}
		_ = c.Close() // back to the pool
	}()
	tx := Tx{ctx: ctx, conn: c, q: &s.q, mysql: true, packets: packets, rowWait: s.rowWait, places: &s.places}
	err := body(&tx)
	query, args := "COMMIT", []any(nil)
	if err == nil {
		query, args, err = tx.along(query, args)
		err = statementError(cmp.Or(err, ctx.Err()))
	}
	if err == nil {
		whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.commits)
		defer cancel()
		_, err = c.ExecContext(whole, query, args...)
		clean = err == nil
		if query == "COMMIT" {
			err = commitError(err)
		} else {
			err = tripError(err)
		}
	}
	s.renew(err)
	return err
}

// rollbackTimeout bounds a ROLLBACK, which must be sent even if the transaction's context has ended.
const rollbackTimeout = 5 * time.Second

// abandon rolls back. If that fails it closes the connection, so that the server rolls back: otherwise the remains of
// this transaction would become part of the next one on the connection.
func abandon(c *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	if _, err := c.ExecContext(ctx, "ROLLBACK"); err != nil {
		_ = c.Raw(func(any) error { return driver.ErrBadConn })
	}
}
