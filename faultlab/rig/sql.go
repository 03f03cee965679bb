package rig

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"lastitem/stack"
)

// Database is the name of the SQL server; see [Position].
const Database = "sql"

// SQL is the database of a lane: its schema in the shared one, or a database of the lane's own.
type SQL struct {
	lane  *Lane
	db    *sql.DB           // see access
	run   *stack.RunningSQL // the lane's own database; nil = the shared one
	clock *stack.Clock      // of run; nil = the machine's
}

// access returns the lab's connection to the lane's schema, which bypasses the proxies.
func (s *SQL) access() (*sql.DB, error) {
	if s.db != nil {
		return s.db, nil
	}
	i := slices.IndexFunc(s.lane.links, func(x link) bool { return x.server == Database })
	if i < 0 {
		return nil, errors.New("faultlab: the lane has no database")
	}
	db, err := sql.Open("mysql", s.lane.links[i].at(s.lane.links[i].addr, s.lane.number))
	if err != nil {
		return nil, fmt.Errorf("faultlab: %w", err)
	}
	db.SetMaxIdleConns(0) // one that is kept would complain when its server is killed
	s.db = db
	return db, nil
}

// start starts a database for the lane alone.
func (s *SQL) start(ctx context.Context, e Equipment) error {
	name := fmt.Sprintf("lane %d sql", s.lane.number)
	var env []string
	var err error
	if s.clock, err = s.lane.servers.clock(ctx, e, name); err != nil {
		return err
	} else if s.clock != nil {
		env = s.clock.Env()
	}
	own, err := s.lane.servers.Stack.SpawnSQL(ctx, stack.SQLServer{
		Name: name, Schemas: []string{schema(s.lane.number)}, Env: env,
		// Small, since every lane has one. Durability stays at the default.
		Conf: append([]string{"--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M"}, strings.Fields(e.SQL)...),
	})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(s.lane.links, func(x link) bool { return x.server == Database })
	s.run, s.lane.links[i].addr, s.lane.links[i].url = own, own.Addr, own.URL
	if !e.Plain {
		return nil
	}
	db, err := s.access() // this connection remains the administrator's
	if err != nil {
		return err
	}
	for _, statement := range []string{
		"CREATE USER plain@'127.0.0.1' IDENTIFIED BY 'plain'",
		"GRANT ALL PRIVILEGES ON " + schema(s.lane.number) + ".* TO plain@'127.0.0.1'",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("faultlab: %w", err)
		}
	}
	_, behind, _ := strings.Cut(own.URL, "@")
	s.lane.links[i].url = "plain:plain@" + behind
	return nil
}

// SetReadOnly sets read_only of the lane's own database: while it is on, writes of accounts without the privilege fail
// with 1290.
func (s *SQL) SetReadOnly(ctx context.Context, on bool) error {
	db, err := s.access()
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "SET GLOBAL read_only = ?", on); err != nil {
		return fmt.Errorf("faultlab: %w", err)
	}
	return nil
}

// Unflushed makes the lane's own database answer COMMIT before its log is on disk, and write the log rarely, until it
// is started again.
func (s *SQL) Unflushed(ctx context.Context) error {
	db, err := s.access()
	if err != nil {
		return err
	}
	for _, statement := range []string{"SET GLOBAL innodb_flush_log_at_timeout = 2700",
		"SET GLOBAL innodb_flush_log_at_trx_commit = 0"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("faultlab: %w", err)
		}
	}
	return nil
}

// Kill kills the lane's own database by SIGKILL; [SQL.Start] starts it again on the same data.
func (s *SQL) Kill() { s.run.Kill() }

// Start starts the database again after [SQL.Kill], and returns when it is ready.
func (s *SQL) Start(ctx context.Context) error { return s.run.Restart(ctx) }

// heal restarts the lane's own database if it is dead and otherwise makes it writable, after a schedule that did not
// finish.
func (s *SQL) heal(ctx context.Context) error {
	if s.run == nil {
		return nil
	}
	select {
	case <-s.run.Exited():
		return s.Start(ctx)
	default:
		return s.SetReadOnly(ctx, false)
	}
}

// KillSession kills the database session of the client at an address, host:port, and returns when the session is gone.
func (s *SQL) KillSession(ctx context.Context, from string) error {
	db, err := s.access()
	if err != nil {
		return err
	}
	const find = "SELECT id FROM information_schema.processlist WHERE host = ?"
	var id int64
	if err := db.QueryRowContext(ctx, find, from).Scan(&id); err != nil {
		return fmt.Errorf("faultlab: find the session of %q: %w", from, err)
	}
	if _, err := db.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id)); err != nil {
		return fmt.Errorf("faultlab: end session %d: %w", id, err)
	}
	return until(ctx, "the end of a session", func() bool {
		return errors.Is(db.QueryRowContext(ctx, find, from).Scan(&id), sql.ErrNoRows)
	})
}

// Tables are the shop's tables whose rows a request may lock.
var Tables = []string{"product_stock", "orders", "idempotent_log", "record_lock"}

// rowsOf returns a query that locks the lane's rows of a table, or all rows if the table has no column for the product.
// It also locks the gaps between them against inserts.
func (s *SQL) rowsOf(table string) string {
	switch table {
	case "product_stock":
		return fmt.Sprintf("SELECT 1 FROM product_stock WHERE id = %d FOR UPDATE", s.lane.Product())
	case "orders":
		return fmt.Sprintf("SELECT 1 FROM orders WHERE product_id = %d FOR UPDATE", s.lane.Product())
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
	db, err := s.access()
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
	db, err := r.db.access()
	if err == nil {
		_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS lab_weight (n INT)")
	}
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
	db, err := r.db.access()
	if err != nil {
		return err
	}
	return until(ctx, "the lab's transaction to wait", func() bool {
		var state string
		err := db.QueryRowContext(ctx, "SELECT trx_state FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = ?",
			r.id).Scan(&state)
		return err == nil && state == "LOCK WAIT"
	})
}

// Failed says whether a command of the actor failed with that error number in this schedule.
func (s *Scene) Failed(a *Actor, number string) bool {
	for _, c := range a.Calls(s.since) {
		if c.Failed == number {
			return true
		}
	}
	return false
}

// AwaitFailure waits until a command of the actor fails with that error number. ErrNothing: the request was answered
// without such an error.
func (s *Scene) AwaitFailure(ctx context.Context, a *Actor, p *Pending, number string) error {
	err := until(ctx, "error "+number, func() bool {
		select {
		case <-p.done:
			return true
		default:
			return s.Failed(a, number)
		}
	})
	if err == nil && !s.Failed(a, number) {
		return ErrNothing
	}
	return err
}

// fenceKey is the key of the fencing counter of the lane's product. Its value is the last token that was granted.
func (s *SQL) fenceKey() string {
	return fmt.Sprintf("%sfencing:{%d}:fence", s.lane.prefix(), s.lane.Product())
}

// SetFence sets the fencing counter of the lane's product in its own Redis, and the highest token that the product's
// row has seen.
func (s *SQL) SetFence(ctx context.Context, token int64) error {
	db, err := s.access()
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "UPDATE product_stock SET fence = ? WHERE id = ?", token,
		s.lane.Product()); err != nil {
		return fmt.Errorf("faultlab: %w", err)
	}
	_, err = s.lane.Own.Tell(ctx, stack.Redis, "SET", s.fenceKey(), strconv.FormatInt(token, 10))
	return err
}

// WriteFence writes to the product's row with the token that was granted last, as its holder would. Then the row has
// seen that token, and the stock is unchanged. It returns ErrNothing if no token was granted, the row has seen a higher
// one, or another transaction has locked the row.
func (s *SQL) WriteFence(ctx context.Context) error {
	to, _ := s.lane.linkTo(stack.Redis)
	text, err := redisDo(ctx, to.addr, passwordOf(to.url), "GET", s.fenceKey())
	if err != nil {
		return err
	}
	token, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return ErrNothing
	}
	rows, err := s.LockRows(ctx, "product_stock")
	if err != nil {
		return err
	}
	res, err := rows.tx.ExecContext(ctx, "UPDATE product_stock SET fence = ?, version = version + 1 WHERE id = ? AND "+
		"fence <= ?", token, s.lane.Product(), token)
	if err != nil {
		rows.Unlock()
		return fmt.Errorf("faultlab: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		rows.Unlock()
		return ErrNothing
	}
	return rows.tx.Commit()
}
