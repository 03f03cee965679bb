package sqllock_test

import (
	"bytes"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"lastitem/internal/backend"
	"lastitem/internal/lock"
	"lastitem/internal/lock/sqllock"
	"lastitem/internal/step"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// openSQL returns a pool of its own on a database that has its tables.
func openSQL(t *testing.T, dsn string, conns int) *gorm.DB {
	t.Helper()
	db, err := backend.OpenSQL(dsn, conns)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = sqlPool(t, db).Close() })
	_, err = backend.Migrate(t.Context(), db)
	testkit.Must(t, err)
	return db
}

func sqlPool(t *testing.T, db *gorm.DB) *sql.DB {
	t.Helper()
	p, err := db.DB()
	testkit.Must(t, err)
	return p
}

// made is a lock on a database that can have it.
func made[L any](t *testing.T, l L, err error) L {
	t.Helper()
	testkit.Must(t, err)
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

func TestSQL(t *testing.T) {
	onDatabases(t, func(t *testing.T, dsn string) {
		unique := sqlKind(dsn, "sql-unique", "u", func(t *testing.T, db *gorm.DB, _ time.Duration,
			s *step.Stream) lock.Locker {
			return sqlUnique(t, db, s)
		})
		unique.Late, unique.NoLate = nil, locktest.NeverEnds
		locktest.Run(t, unique)
		locktest.Run(t, sqlKind(dsn, "sql-lease", "l", func(t *testing.T, db *gorm.DB, ttl time.Duration,
			s *step.Stream) lock.Locker {
			return sqlLease(t, db, ttl, s)
		}))
		if !strings.HasPrefix(dsn, "sqlite:") {
			locktest.Run(t, sqlKind(dsn, "sql-for-update", "f", func(t *testing.T, db *gorm.DB, ttl time.Duration,
				s *step.Stream) lock.Locker {
				return forUpdate(t, db, ttl, s)
			}))
		}
	})
}

// sqlKind is a kind of lock in the database at dsn.
func sqlKind(dsn, name, key string, process func(*testing.T, *gorm.DB, time.Duration,
	*step.Stream) lock.Locker) locktest.Kind {
	conns := 8
	if strings.HasPrefix(dsn, "sqlite:") {
		// SQLite's writers poll for its write lock, and none is first in line: of many connections one may get nothing for
		// seconds
		conns = 2
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
		testkit.Must(t, err)
		far.Addr = through(far.Addr)
		return process(t, openSQL(t, far.FormatDSN(), 8), time.Second, nil)
	}}
	return k
}

// onDatabases runs a test on each database.
func onDatabases(t *testing.T, test func(t *testing.T, dsn string)) {
	servers := map[string]func(testing.TB) string{"mysql": testenv.MySQL, "sqlite": testenv.SQLite}
	testkit.Each(t, servers, func(t *testing.T, server func(testing.TB) string) {
		test(t, server(t))
	})
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
			testkit.Until(t, "a renewal was sent", func() bool { return r.Asked.Load() > n })
			locktest.Release(t, lease)
		})
	}
}

// The answer to the acquiring statement is lost: the acquire is undone. The answer to the releasing statement is lost:
// the release may be repeated.
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
			locktest.WantUnavailable(t.Context(), t, l, "k", "Acquire with its answer lost")
			acquire.Happened(t)
			locktest.Warm(t, near, "k")
			lease := locktest.Obtain(t, l, "k")
			release := r.Losing(false, answerTo(c.release))
			locktest.ReleaseUnknown(t, lease, "Release with its answer lost")
			release.Happened(t)
			locktest.Release(t, lease)
			locktest.Warm(t, near, "k")
		})
	}
}

// throughRelay returns a DSN by which the server is reached through a relay.
func throughRelay(t *testing.T, dsn string) (far string, r *locktest.Relay) {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	testkit.Must(t, err)
	r = locktest.NewRelay(t, cfg.Addr)
	cfg.Addr = r.Addr().String()
	return cfg.FormatDSN(), r
}

// jumpingSQL returns a database whose clock can be set: a function that opens pools on it, and one that sets the clock
// and waits until the database shows it.
func jumpingSQL(t *testing.T) (open func() *gorm.DB, jumpTo func(offset time.Duration)) {
	t.Helper()
	dsn, set := testenv.ClockedMySQL(t)
	open = func() *gorm.DB { return openSQL(t, dsn, 4) }
	db := open()
	return open, func(offset time.Duration) {
		t.Helper()
		set(offset)
		testkit.Until(t, "the database shows the clock", func() bool {
			var seconds int64
			err := db.Raw("SELECT UNIX_TIMESTAMP()").Scan(&seconds).Error
			return err == nil && time.Unix(seconds, 0).Sub(time.Now().Add(offset)).Abs() < time.Minute
		})
	}
}

// The lease of a row depends on the database's clock. A jump past the TTL lets a rival in while the holder is alive and
// renews; the fence rises, so a write that checks it is refused to the first holder. A jump back makes the row of a
// dead holder last longer by the jump.
func TestSQLLeaseDatabaseClockJumps(t *testing.T) {
	testenv.Slow(t, "a server with a clock of its own, which it must compile")
	t.Parallel()
	open, jumpTo := jumpingSQL(t)
	db := open()
	const ttl, jump = 10 * time.Minute, time.Hour
	l := sqlLease(t, db, ttl, nil)

	first := locktest.Obtain(t, l, "forward")
	locktest.WantBusy(t, l, "forward", "before the jump")
	jumpTo(jump)
	second, err := locktest.TryOnce(l, "forward")
	if err != nil {
		t.Fatalf("a rival after a jump past the TTL: %v, want the lock", err)
	}
	if err := first.Context().Err(); err != nil {
		t.Errorf("the first holder's context: %v, want nil: its own clock has not moved, and it renews every %v only", err,
			ttl/3)
	}
	locktest.WantHigher(t, first, second)
	if err := first.Release(t.Context()); err == nil {
		t.Error("Release of the first holder = nil, want that it has lost the lock")
	}
	locktest.WantBusy(t, l, "forward", "the rival's, after the first holder's release")
	locktest.Release(t, second)

	dead := open()
	gone := locktest.Obtain(t, sqlLease(t, dead, ttl, nil), "back")
	if err := sqlPool(t, dead).Close(); err != nil { // its renewals end
		t.Fatal(err)
	}
	if err := gone.Release(t.Context()); err == nil {
		t.Error("Release without a database = nil")
	}
	alive := locktest.Obtain(t, l, "back, alive")
	jumpTo(0)
	locktest.WantBusy(t, l, "back", "a dead holder's, after a jump back")
	if left := rowLeft(t, db, "back"); left < jump {
		t.Errorf("the dead holder's row has %v left, want more than %v", left, jump)
	}
	locktest.Release(t, alive)
	locktest.Release(t, locktest.Obtain(t, l, "back, alive")) // the holder lived to release it
	jumpTo(2 * jump)
	locktest.Release(t, locktest.Obtain(t, l, "back"))
}

// If a holder's row has expired by a jump and nobody has taken it, the holder is told at its next renewal: the row is
// not revived.
func TestSQLLeaseJumpWithoutRival(t *testing.T) {
	testenv.Slow(t, "a server with a clock of its own, which it must compile")
	t.Parallel()
	open, jumpTo := jumpingSQL(t)
	db := open()
	lease := locktest.Obtain(t, sqlLease(t, db, 3*time.Second, nil), "k")
	jumpTo(time.Hour)
	locktest.WantLost(t, lease, 0)
	if left := rowLeft(t, db, "k"); left > 0 {
		t.Errorf("the row has %v left, want none", left)
	}
}

// rowLeft returns how long a row will still be held, by the database's clock.
func rowLeft(t *testing.T, db *gorm.DB, key string) time.Duration {
	t.Helper()
	var us int64
	const left = "SELECT expires_us - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FROM record_lock WHERE " +
		"lock_key = ?"
	testkit.Must(t, db.Raw(left, []byte(key)).Scan(&us).Error)
	return time.Duration(us) * time.Microsecond
}

func TestSQLDeaths(t *testing.T) {
	testenv.Slow(t, "sessions of 15 s end")
	t.Parallel()
	for name, make := range map[string]func(*testing.T) *locktest.World{"sql-lease": leaseWorld,
		"sql-for-update": forUpdateWorld} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.Deaths(t, make)
		})
	}
}

// rowLock makes a lock of rows with a TTL.
type rowLock func(*testing.T, *gorm.DB, time.Duration) lock.Locker

// sqlWorld is the part of a World that all row locks share. The keys of dying are parts of SQL statements.
func sqlWorld(t *testing.T, locker rowLock, dying map[string]string,
	traces func(db *gorm.DB, key string) int) *locktest.World {
	dsn := testenv.MySQL(t)
	db := openSQL(t, dsn, 1)
	far := func(t *testing.T) (lock.Locker, *locktest.Relay) {
		far, r := throughRelay(t, dsn)
		l := locker(t, openSQL(t, far, 4), locktest.MortalTTL)
		t.Cleanup(r.Heal)
		return l, r
	}
	w := &locktest.World{
		Key:    "k",
		Lives:  func(t *testing.T) lock.Locker { return locker(t, openSQL(t, dsn, 4), time.Minute) },
		Mortal: far,
		Dying:  map[string]func(*testing.T) lock.Locker{},
		Traces: func(_ *testing.T, key string) int { return traces(db, key) },
	}
	for name, statement := range dying {
		w.Dying[name] = func(t *testing.T) lock.Locker {
			l, r := far(t)
			r.Losing(true, answerTo(statement))
			return l
		}
	}
	return w
}

// answerTo recognises the answer to a statement by a part of its text.
func answerTo(statement string) func(sent []byte) func([]byte) bool {
	return func(sent []byte) func([]byte) bool {
		if bytes.Contains(sent, []byte(statement)) {
			return func([]byte) bool { return true }
		}
		return nil
	}
}

func leaseWorld(t *testing.T) *locktest.World {
	return sqlWorld(t, func(t *testing.T, db *gorm.DB, ttl time.Duration) lock.Locker { return sqlLease(t, db, ttl, nil) },
		map[string]string{"row made": "INSERT INTO record_lock", "row taken": "fence = fence + 1", "look": "SELECT owner"},
		func(db *gorm.DB, key string) (n int) { // the row stays, with its fence
			held := db.Raw("SELECT COUNT(*) FROM record_lock WHERE lock_key = ? AND owner <> ''", []byte(key))
			testkit.Must(t, held.Scan(&n).Error)
			return n
		})
}

func forUpdateWorld(t *testing.T) *locktest.World {
	return sqlWorld(t, func(t *testing.T, db *gorm.DB, ttl time.Duration) lock.Locker {
		return forUpdate(t, db, ttl, nil)
	},
		map[string]string{"connection": "autocommit = 0", "row made": "INSERT INTO record_lock", "row locked": "FOR UPDATE"},
		func(db *gorm.DB, key string) (n int) { // nobody has the row: it can be locked at once
			err := db.Raw("SELECT COUNT(*) FROM record_lock WHERE lock_key = ? FOR UPDATE NOWAIT", []byte(key)).Scan(&n).Error
			if err != nil {
				return 1
			}
			return 0
		})
}
