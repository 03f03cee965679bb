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

// access returns the lab's connection to the lane's schema, which bypasses the proxies.
func (l *Lane) access() (*sql.DB, error) {
	if l.db != nil {
		return l.db, nil
	}
	i := slices.IndexFunc(l.links, func(x link) bool { return x.server == Database })
	if i < 0 {
		return nil, errors.New("faultlab: the lane has no database")
	}
	db, err := sql.Open("mysql", l.links[i].at(l.links[i].addr, l.number))
	if err != nil {
		return nil, fmt.Errorf("faultlab: %w", err)
	}
	db.SetMaxIdleConns(0) // one that is kept would complain when its server is killed
	l.db = db
	return db, nil
}

// ownSQL starts a database for the lane alone.
func (l *Lane) ownSQL(ctx context.Context, e Equipment) error {
	name := fmt.Sprintf("lane %d sql", l.number)
	var env []string
	var err error
	if l.sqlClock, err = l.ownClock(ctx, e, name); err != nil {
		return err
	} else if l.sqlClock != nil {
		env = l.sqlClock.Env()
	}
	own, err := l.servers.Stack.SpawnSQL(ctx, localstack.SQLServer{
		Name: name, Schemas: []string{schema(l.number)}, Env: env,
		// Small, since every lane has one. Durability stays at the default.
		Conf: append([]string{"--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M"}, strings.Fields(e.SQL)...),
	})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(l.links, func(x link) bool { return x.server == Database })
	l.laneSQL, l.links[i].addr, l.links[i].url = own, own.Addr, own.URL
	if !e.Plain {
		return nil
	}
	db, err := l.access() // this connection remains the administrator's
	if err != nil {
		return err
	}
	for _, statement := range []string{
		"CREATE USER plain@'127.0.0.1' IDENTIFIED BY 'plain'",
		"GRANT ALL PRIVILEGES ON " + schema(l.number) + ".* TO plain@'127.0.0.1'",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("faultlab: %w", err)
		}
	}
	_, behind, _ := strings.Cut(own.URL, "@")
	l.links[i].url = "plain:plain@" + behind
	return nil
}

// SetReadOnly sets read_only of the lane's own database: while it is on, writes of accounts without the privilege fail with 1290.
func (l *Lane) SetReadOnly(ctx context.Context, on bool) error {
	db, err := l.access()
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "SET GLOBAL read_only = ?", on); err != nil {
		return fmt.Errorf("faultlab: %w", err)
	}
	return nil
}

// Unflushed makes the lane's own database answer COMMIT before its log is on disk, and write the log rarely, until it is started again.
func (l *Lane) Unflushed(ctx context.Context) error {
	db, err := l.access()
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

// KillDatabase kills the lane's own database by SIGKILL; [Lane.StartDatabase] starts it again on the same data.
func (l *Lane) KillDatabase() { l.laneSQL.Kill() }

// StartDatabase starts the database again after [Lane.KillDatabase], and returns when it is ready.
func (l *Lane) StartDatabase(ctx context.Context) error { return l.laneSQL.Restart(ctx) }

// healSQL restarts the lane's own database if it is dead and otherwise makes it writable, after a schedule that did not finish.
func (l *Lane) healSQL(ctx context.Context) error {
	if l.laneSQL == nil {
		return nil
	}
	select {
	case <-l.laneSQL.Exited():
		return l.StartDatabase(ctx)
	default:
		return l.SetReadOnly(ctx, false)
	}
}

// KillSession kills the database session of the client at an address, host:port, and returns when the session is gone.
func (l *Lane) KillSession(ctx context.Context, from string) error {
	db, err := l.access()
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
