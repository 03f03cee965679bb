package gear

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"lastitem/stack"
	"lastitem/target"
)

// Database is the name of the SQL server; see wire.Call.
const Database = "sql"

// SQL is the database of a lane: its schema in the shared one, or a database of the lane's own.
type SQL struct {
	place *Place
	db    *sql.DB           // see DB
	run   *stack.RunningSQL // the lane's own database; nil = the shared one
	clock *stack.Clock      // of run; nil = the machine's
}

// DB returns the lab's connection to the lane's schema, which bypasses the proxies.
func (s *SQL) DB() (*sql.DB, error) {
	if s.db != nil {
		return s.db, nil
	}
	link := s.place.linkTo(Database)
	if link == nil {
		return nil, errors.New("faultlab: the lane has no database")
	}
	db, err := target.OpenSQL(link.at(link.addr, s.place.Number))
	if err != nil {
		return nil, fmt.Errorf("faultlab: %w", err)
	}
	db.SetMaxIdleConns(0) // one that is kept would complain when its server is killed
	s.db = db
	return db, nil
}

// exec executes a statement on the lane's schema.
func (s *SQL) exec(ctx context.Context, statement string, args ...any) error {
	db, err := s.DB()
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, statement, args...); err != nil {
		return fmt.Errorf("faultlab: %w", err)
	}
	return nil
}

// start starts a database for the lane alone, if it is to have one.
func (s *SQL) start(ctx context.Context, e Equipment) error {
	if e.SQL == "" {
		return nil
	}
	name := fmt.Sprintf("lane %d sql", s.place.Number)
	var env []string
	var err error
	if s.clock, err = s.place.clock(ctx, e, name); err != nil {
		return err
	} else if s.clock != nil {
		env = s.clock.Env()
	}
	own, err := s.place.Stack.SpawnSQL(ctx, stack.SQLServer{
		Name: name, Schemas: []string{schema(s.place.Number)}, Env: env,
		// Small, since every lane has one. Durability stays at the default.
		Conf: append([]string{"--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M"}, strings.Fields(e.SQL)...),
	})
	if err != nil {
		return err
	}
	link := s.place.linkTo(Database)
	s.run, link.addr, link.url = own, own.Addr, own.URL
	if !e.Plain {
		return nil
	}
	for _, statement := range []string{ // this connection remains the administrator's
		"CREATE USER plain@'127.0.0.1' IDENTIFIED BY 'plain'",
		"GRANT ALL PRIVILEGES ON " + schema(s.place.Number) + ".* TO plain@'127.0.0.1'",
	} {
		if err := s.exec(ctx, statement); err != nil {
			return err
		}
	}
	_, behind, _ := strings.Cut(own.URL, "@")
	link.url = "plain:plain@" + behind
	return nil
}

// SetReadOnly sets read_only of the lane's own database: while it is on, writes of accounts without the privilege fail
// with 1290.
func (s *SQL) SetReadOnly(ctx context.Context, on bool) error {
	return s.exec(ctx, "SET GLOBAL read_only = ?", on)
}

// Unflushed makes the lane's own database answer COMMIT before its log is on disk, and write the log rarely, until it
// is started again.
func (s *SQL) Unflushed(ctx context.Context) error {
	return errors.Join(s.exec(ctx, "SET GLOBAL innodb_flush_log_at_timeout = 2700"),
		s.exec(ctx, "SET GLOBAL innodb_flush_log_at_trx_commit = 0"))
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
	db, err := s.DB()
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
	return Until(ctx, "the end of a session", func() bool {
		return errors.Is(db.QueryRowContext(ctx, find, from).Scan(&id), sql.ErrNoRows)
	})
}

// close ends the connection and the lane's own database.
func (s *SQL) close() {
	if s.db != nil {
		_ = s.db.Close()
	}
	if s.run != nil {
		s.run.Kill()
	}
}

// PassDeadline moves the deadline of a reservation into the past. It returns false if the reservation is not held any
// more, or if a transaction has locked its row or the product's.
func (s *SQL) PassDeadline(ctx context.Context, reservation string) (passed bool, err error) {
	db, err := s.DB()
	if err != nil {
		return false, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("faultlab: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	var id string
	err = tx.QueryRowContext(ctx, "SELECT r.id FROM reservation r JOIN product_stock p ON p.id = ? "+
		"WHERE r.id = ? AND r.state = 'held' FOR UPDATE SKIP LOCKED", s.place.Product(), reservation).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE reservation SET expires_us = created_us WHERE id = ?", id)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return false, fmt.Errorf("faultlab: %w", err)
	}
	return true, nil
}
