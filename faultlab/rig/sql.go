package rig

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	_ "github.com/go-sql-driver/mysql" // the driver

	"lastitem/internal/localstack"
)

// Database is the name of the SQL server; see [Position].
const Database = "sql"

// SQL is the database of a lane: its schema in the shared one, or a database of the lane's own.
type SQL struct {
	lane  *Lane
	db    *sql.DB                // see access
	run   *localstack.RunningSQL // the lane's own database; nil = the shared one
	clock *localstack.Clock      // of run; nil = the machine's
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
	own, err := s.lane.servers.Stack.SpawnSQL(ctx, localstack.SQLServer{
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

// SetReadOnly sets read_only of the lane's own database: while it is on, writes of accounts without the privilege fail with 1290.
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

// Unflushed makes the lane's own database answer COMMIT before its log is on disk, and write the log rarely, until it is started again.
func (s *SQL) Unflushed(ctx context.Context) error {
	db, err := s.access()
	if err != nil {
		return err
	}
	for _, statement := range []string{"SET GLOBAL innodb_flush_log_at_timeout = 2700", "SET GLOBAL innodb_flush_log_at_trx_commit = 0"} {
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

// heal restarts the lane's own database if it is dead and otherwise makes it writable, after a schedule that did not finish.
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
