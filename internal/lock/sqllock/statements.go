package sqllock

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"lastitem/internal/lock"
	"lastitem/internal/sqlite"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// sqlNow is the database's own clock in microseconds since the epoch, by dialect; independent of time zones and their
// changes. SQLite's counts milliseconds.
var sqlNow = map[string]string{
	"mysql":  "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
	"sqlite": "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000",
}

// table is the access to record_lock: a pool without gorm, and the statements of its dialect by file name.
type table struct {
	pool       *sql.DB
	dialect    string
	statements map[string]string
}

func newTable(db *gorm.DB) (table, error) {
	t := table{dialect: db.Name(), statements: map[string]string{}}
	if sqlNow[t.dialect] == "" {
		return t, fmt.Errorf("lock: sql: unknown dialect %q", t.dialect)
	}
	var err error
	if t.pool, err = db.DB(); err != nil {
		return t, fmt.Errorf("lock: sql: %w", err)
	}
	files, err := sqlFiles.ReadDir("sql")
	for _, f := range files {
		text, readErr := sqlFiles.ReadFile("sql/" + f.Name())
		err = errors.Join(err, readErr)
		t.statements[strings.TrimSuffix(f.Name(), ".sql")] = t.statement(string(text))
	}
	return t, err
}

// statement drops the comments and writes the dialect's clock for NOW_US.
func (t table) statement(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			kept = append(kept, strings.TrimSpace(line))
		}
	}
	return strings.ReplaceAll(strings.Join(kept, " "), "NOW_US", sqlNow[t.dialect])
}

// bounded is ctx with a limit for one statement. SQLite's is detached: if a context ends while a statement runs, the
// driver reports that even when the statement took effect.
func (t table) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.dialect == "sqlite" {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithTimeout(ctx, lock.CommandTimeout)
}

// exec runs a single statement and returns how many rows it changed. A statement that a deadlock ended did not happen
// and is sent again: an INSERT that finds the key locks it, and two of these and a DELETE are enough for a deadlock.
func (t table) exec(ctx context.Context, name string, args ...any) (int64, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	for {
		res, err := t.pool.ExecContext(ctx, t.statements[name], args...)
		switch {
		case sqlDeadlock(err):
			continue
		case err != nil:
			return 0, err
		}
		return res.RowsAffected()
	}
}

// The error numbers of MySQL and MariaDB that a lock must distinguish.
const (
	erDuplicate       = 1062
	erLockDeadlock    = 1213
	erLockWaitTimeout = 1205 // and MariaDB's answer to NOWAIT
	erLockNoWait      = 3572 // MySQL's
)

// sqlDuplicate says that an INSERT failed because the key is there.
func sqlDuplicate(err error) bool {
	var m *mysql.MySQLError
	return errors.As(err, &m) && m.Number == erDuplicate || sqlite.Duplicate(err)
}

// sqlDeadlock says that the server has ended a statement, and its transaction, to break a circle of waits.
func sqlDeadlock(err error) bool {
	var m *mysql.MySQLError
	return errors.As(err, &m) && m.Number == erLockDeadlock
}

// sqlTaken says that a locking read failed because another transaction has the row.
func sqlTaken(err error) bool {
	var m *mysql.MySQLError
	return errors.As(err, &m) && (m.Number == erLockWaitTimeout || m.Number == erLockNoWait)
}
