package sqllock_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"lastitem/internal/backend"
	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/lock/sqllock"
	"lastitem/internal/step"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// openSQL returns a pool of its own on a database that has its tables.
func openSQL(t *testing.T, dsn string, conns int) *gorm.DB {
	t.Helper()
	db, err := backend.OpenSQL(dsn, conns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sqlPool(t, db).Close() })
	if _, err := backend.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

func sqlPool(t *testing.T, db *gorm.DB) *sql.DB {
	t.Helper()
	p, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// made is a lock on a database that can have it.
func made[L any](t *testing.T, l L, err error) L {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func sqlLease(t *testing.T, db *gorm.DB, ttl time.Duration, s *step.Stream) *sqllock.LeaseRow {
	l, err := sqllock.NewLeaseRow(db, ttl, s)
	return made(t, l, err)
}

func sqlUnique(t *testing.T, db *gorm.DB, s *step.Stream) *sqllock.Unique {
	l, err := sqllock.NewUnique(db, s)
	return made(t, l, err)
}

func forUpdate(t *testing.T, db *gorm.DB, ttl time.Duration, s *step.Stream) *sqllock.ForUpdate {
	l, err := sqllock.NewForUpdate(db, ttl, s)
	return made(t, l, err)
}

// databases are the databases of the row locks.
var databases = map[string]func(testing.TB) string{"mysql": testenv.MySQL, "sqlite": testenv.SQLite}

func TestSQL(t *testing.T) {
	t.Parallel()
	for name, server := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := server(t)
			unique := sqlKind(dsn, "sql-unique", "u", func(t *testing.T, db *gorm.DB, _ time.Duration, s *step.Stream) lock.Locker {
				return sqlUnique(t, db, s)
			})
			unique.Late, unique.NoLate = nil, locktest.NeverEnds
			locktest.Run(t, unique)
			locktest.Run(t, sqlKind(dsn, "sql-lease", "l", func(t *testing.T, db *gorm.DB, ttl time.Duration, s *step.Stream) lock.Locker {
				return sqlLease(t, db, ttl, s)
			}))
			if name == "mysql" {
				locktest.Run(t, sqlKind(dsn, "sql-for-update", "f", func(t *testing.T, db *gorm.DB, ttl time.Duration, s *step.Stream) lock.Locker {
					return forUpdate(t, db, ttl, s)
				}))
			}
		})
	}
}

// sqlKind is a kind of lock in the database at dsn.
func sqlKind(dsn, name, key string, process func(*testing.T, *gorm.DB, time.Duration, *step.Stream) lock.Locker) locktest.Kind {
	conns := 8
	if strings.HasPrefix(dsn, "sqlite:") {
		conns = 2 // SQLite's writers poll for its write lock, and none is first in line: of many connections one may get nothing for seconds
	}
	k := locktest.Kind{
		Name: name, Key: locktest.KeysUnder(key),
		Process: func(t *testing.T, s *step.Stream) lock.Locker {
			return process(t, openSQL(t, dsn, conns), 30*time.Second, s)
		},
	}
	if strings.HasPrefix(dsn, "sqlite:") {
		k.NoLate = "no network is in between"
		return k
	}
	k.Late = &locktest.Late{TTL: time.Second, Process: func(t *testing.T, through func(string) string) lock.Locker {
		far, err := mysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		far.Addr = through(far.Addr)
		return process(t, openSQL(t, far.FormatDSN(), 8), time.Second, nil)
	}}
	return k
}

// onDatabases runs a test on each database.
func onDatabases(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Parallel()
	for name, server := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, server(t))
		})
	}
}

// A release during a renewal waits for the renewal's answer, and does not mistake that for a loss.
func TestSQLReleaseDuringRenewal(t *testing.T) {
	t.Parallel()
	const ttl = 9 * time.Second // a third of which is what a renewal may take
	for name, make := range map[string]func(*testing.T, *gorm.DB) lock.Locker{
		"sql-for-update": func(t *testing.T, db *gorm.DB) lock.Locker { return forUpdate(t, db, ttl, nil) },
		"sql-lease":      func(t *testing.T, db *gorm.DB) lock.Locker { return sqlLease(t, db, ttl, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			far, r := throughRelay(t, testenv.MySQL(t))
			lease := locktest.Obtain(t, make(t, openSQL(t, far, 4)), "k")
			r.Slow.Store(int64(50 * time.Millisecond))
			n := r.Asked.Load()
			wait.Until(t, "a renewal was sent", func() bool { return r.Asked.Load() > n })
			locktest.Release(t, lease)
		})
	}
}

// The answer to the acquiring statement is lost: the acquire is undone. The answer to the releasing statement is lost: the release may be
// repeated.
func TestSQLLostAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make              func(*testing.T, *gorm.DB) lock.Locker
		acquires, release string // parts of statements
	}{
		"sql-unique": {
			func(t *testing.T, db *gorm.DB) lock.Locker { return sqlUnique(t, db, nil) },
			"INSERT INTO record_lock", "DELETE FROM record_lock",
		},
		"sql-lease": {
			func(t *testing.T, db *gorm.DB) lock.Locker { return sqlLease(t, db, time.Hour, nil) },
			"fence = fence + 1", "SET owner = '', expires_us = 0",
		},
		"sql-for-update": {
			func(t *testing.T, db *gorm.DB) lock.Locker { return forUpdate(t, db, time.Hour, nil) },
			"FOR UPDATE", "COMMIT",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.MySQL(t)
			far, r := throughRelay(t, dsn)
			l, near := c.make(t, openSQL(t, far, 4)), c.make(t, openSQL(t, dsn, 4))
			locktest.Warm(t, l, "k")
			acquire := r.Losing(false, answerTo(c.acquires))
			if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("Acquire with its answer lost = %v, want ErrUnavailable", err)
			}
			acquire.Happened(t)
			locktest.Warm(t, near, "k")
			lease := locktest.Obtain(t, l, "k")
			release := r.Losing(false, answerTo(c.release))
			if err := lease.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
				t.Errorf("Release with its answer lost = %v, want unknown", err)
			}
			release.Happened(t)
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release repeated = %v, want nil", err)
			}
			locktest.Warm(t, near, "k")
		})
	}
}

// throughRelay returns a DSN by which the server is reached through a relay.
func throughRelay(t *testing.T, dsn string) (far string, r *locktest.Relay) {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	r = locktest.NewRelay(t, cfg.Addr)
	cfg.Addr = r.Addr().String()
	return cfg.FormatDSN(), r
}
