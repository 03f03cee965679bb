package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"
)

// A transaction of MySQL is sent statement by statement on a connection of the pool. database/sql's own Tx would wait for the answer
// to COMMIT for as long as the driver does, whatever its context says.

// commitTimeout is how long a COMMIT is waited for, unless [SQL.CommitsWithin] says something else.
const commitTimeout = 10 * time.Second

// CommitsWithin says how long the answer to a COMMIT of MySQL is waited for, from when it is sent; without it, it is ten seconds. One
// that has no answer by then is [ErrUnknown], and its connection is closed. It is called before the first.
func (s *SQL) CommitsWithin(d time.Duration) { s.commits = d }

// begins is on how many connections a transaction tries to begin: the server may have closed those that the pool kept.
const begins = 3

// begin takes a connection and begins a transaction on it.
func (s *SQL) begin(ctx context.Context, isolation sql.IsolationLevel) (*sql.Conn, error) {
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

// finish runs body in the transaction that c has begun, or will with its first statement, and commits it. Before COMMIT ctx ends it, and
// nothing has happened; COMMIT has its own time.
func (s *SQL) finish(ctx context.Context, c *sql.Conn, body func(*Tx) error) error {
	clean := false // no transaction is open
	defer func() {
		if !clean { // an error, or a panic
			abandon(c)
		}
		_ = c.Close() // back to the pool
	}()
	if err := body(&Tx{ctx: ctx, conn: c, q: &s.q, mysql: true, rowWait: s.rowWait}); err != nil {
		s.renew(err)
		return err
	}
	if err := ctx.Err(); err != nil {
		return statementError(err)
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.commits)
	defer cancel()
	_, err := c.ExecContext(whole, "COMMIT")
	clean = err == nil
	err = commitError(err)
	s.renew(err)
	return err
}

// rollbackTimeout bounds a ROLLBACK, which must be sent also where the transaction's context has ended.
const rollbackTimeout = 5 * time.Second

// abandon rolls back. Where that fails the connection is closed, and the server rolls back: to the next transaction on it, what is
// left of this one would be its own.
func abandon(c *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	if _, err := c.ExecContext(ctx, "ROLLBACK"); err != nil {
		_ = c.Raw(func(any) error { return driver.ErrBadConn })
	}
}
