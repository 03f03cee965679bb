package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
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

func sqlLease(t *testing.T, db *gorm.DB, ttl time.Duration, s *step.Stream) *sqllock.LeaseRow {
	t.Helper()
	l, err := sqllock.NewLeaseRow(db, ttl, s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func sqlUnique(t *testing.T, db *gorm.DB, s *step.Stream) *sqllock.Unique {
	t.Helper()
	l, err := sqllock.NewUnique(db, s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func forUpdate(t *testing.T, db *gorm.DB, ttl time.Duration, s *step.Stream) *sqllock.ForUpdate {
	t.Helper()
	l, err := sqllock.NewForUpdate(db, ttl, s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// databases are those that the locks of rows run on.
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
	k := locktest.Kind{
		Name: name, Key: locktest.KeysUnder(key),
		Process: func(t *testing.T, s *step.Stream) lock.Locker {
			return process(t, openSQL(t, dsn, 8), 30*time.Second, s)
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

// What breaks the textbook lock: the holder is gone, and so is the lock, for everybody and forever.
func TestSQLUniqueOfDeadHolderStays(t *testing.T) {
	onDatabases(t, func(t *testing.T, dsn string) {
		db := openSQL(t, dsn, 4)
		l := sqlUnique(t, db, nil)
		locktest.Obtain(t, l, "k") // and its holder dies
		locktest.WantBusy(t, l, "k", "after the holder's death")
		// No statement of this lock looks at a clock, and its row has no end: a year later it is as it is now.
		var open int
		if err := db.Raw("SELECT COUNT(*) FROM record_lock WHERE expires_us IS NULL").Scan(&open).Error; err != nil || open != 1 {
			t.Errorf("rows without an end: %d, %v, want 1", open, err)
		}
		locktest.WantBusy(t, sqlLease(t, db, time.Second, nil), "k", "the repaired lock on a row without expiry")
	})
}

// The repaired one: the next takes over when the dead holder's time is up, with a higher fence, and not earlier.
func TestSQLLeaseOfDeadHolderIsTakenOver(t *testing.T) {
	onDatabases(t, func(t *testing.T, dsn string) {
		dead := openSQL(t, dsn, 4)
		const ttl = time.Second
		start := time.Now()
		lease := locktest.Obtain(t, sqlLease(t, dead, ttl, nil), "k")
		if err := sqlPool(t, dead).Close(); err != nil { // it renews no more
			t.Fatal(err)
		}
		rival := sqlLease(t, openSQL(t, dsn, 4), time.Minute, nil)
		second := locktest.Obtain(t, rival, "k")
		if took := time.Since(start); took < ttl {
			t.Errorf("taken over after %s of a TTL of %s", took, ttl)
		}
		locktest.WantLost(t, lease, 0)
		if second.Fence() <= lease.Fence() {
			t.Errorf("fence %d after %d", second.Fence(), lease.Fence())
		}
		if err := lease.Release(t.Context()); err == nil {
			t.Error("Release without a database = nil")
		}
		locktest.Release(t, second)
	})
}

func TestSQLLeaseRenews(t *testing.T) {
	onDatabases(t, func(t *testing.T, dsn string) {
		db := openSQL(t, dsn, 4)
		l := sqlLease(t, db, 3*time.Second, nil)
		lease := locktest.Obtain(t, l, "k")
		ends := func() (us int64) {
			if err := db.Raw("SELECT expires_us FROM record_lock").Scan(&us).Error; err != nil {
				t.Fatal(err)
			}
			return us
		}
		for range 2 {
			before := ends()
			locktest.Eventually(t, "the row's end is put off", func() bool { return ends() > before })
		}
		if err := context.Cause(lease.Context()); err != nil {
			t.Errorf("the lease ended: %v", err)
		}
		locktest.Release(t, lease)
	})
}

// A holder whose row was taken over is told at its next renewal, and its release leaves the rival's row alone.
func TestSQLLeaseLost(t *testing.T) {
	onDatabases(t, func(t *testing.T, dsn string) {
		db := openSQL(t, dsn, 4)
		const ttl = 3 * time.Second
		l := sqlLease(t, db, ttl, nil)
		locktest.SessionEnds(t, l, sqlLease(t, openSQL(t, dsn, 4), time.Minute, nil), "k", ttl, func() {
			if err := db.Exec("UPDATE record_lock SET expires_us = 1").Error; err != nil {
				t.Fatal(err)
			}
		})
	})
}

func TestSQLLeaseFencesRise(t *testing.T) {
	onDatabases(t, func(t *testing.T, dsn string) {
		locktest.FencesRise(t, "k", sqlLease(t, openSQL(t, dsn, 4), locktest.TTL, nil), sqlLease(t, openSQL(t, dsn, 4), locktest.TTL, nil))
	})
}

// sessionsOf are the connections to this test's database but for the one that asks.
func sessionsOf(t *testing.T, db *gorm.DB) []int64 {
	t.Helper()
	var ids []int64
	err := db.Raw("SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()").Scan(&ids).Error
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// The lock is the connection's: when an operator kills that, the rival is in and the holder is told.
func TestSQLForUpdateConnectionKilled(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	admin := openSQL(t, dsn, 1)
	const ttl = 3 * time.Second
	holder := forUpdate(t, openSQL(t, dsn, 1), ttl, nil)
	lease := locktest.Obtain(t, holder, "k")
	for _, id := range sessionsOf(t, admin) {
		if err := admin.Exec("KILL ?", id).Error; err != nil {
			t.Fatal(err)
		}
	}
	rival := forUpdate(t, openSQL(t, dsn, 2), time.Minute, nil)
	second := locktest.Obtain(t, rival, "k")
	locktest.WantLost(t, lease, ttl)
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("late Release = %v, want ErrLost", err)
	}
	locktest.WantBusy(t, holder, "k", "after the late Release")
	locktest.Release(t, second)
	locktest.Warm(t, holder, "k")
}

// A wait that is longer than the TTL does not count towards it.
func TestSQLForUpdateAfterALongWait(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	lease := locktest.Obtain(t, forUpdate(t, openSQL(t, dsn, 1), 10*time.Second, nil), "k")
	time.AfterFunc(2500*time.Millisecond, func() { _ = lease.Release(context.Background()) })
	second := locktest.Obtain(t, forUpdate(t, openSQL(t, dsn, 1), 2*time.Second, nil), "k")
	if err := context.Cause(second.Context()); err != nil {
		t.Errorf("the lease was over when it began: %v", err)
	}
	locktest.Release(t, second)
}

// A process of which the server hears nothing more loses the row after its TTL, and knows that before.
func TestSQLForUpdateCutOff(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	far, r := throughRelay(t, dsn)
	const ttl = 2 * time.Second
	openSQL(t, dsn, 1)
	lease := locktest.Obtain(t, forUpdate(t, openSQL(t, far, 1), ttl, nil), "k")
	r.Cut.Store(true)
	second := locktest.Obtain(t, forUpdate(t, openSQL(t, dsn, 2), time.Minute, nil), "k")
	locktest.WantLost(t, lease, 0)
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("late Release = %v, want ErrLost", err)
	}
	locktest.Release(t, second)
}

// With every connection in use by holders, a free lock cannot be had either; and the error says why.
func TestSQLForUpdatePoolExhausted(t *testing.T) {
	t.Parallel()
	l := forUpdate(t, openSQL(t, testenv.MySQL(t), 1), 10*time.Second, nil)
	lease := locktest.Obtain(t, l, "one")
	for _, wait := range []time.Duration{0, 100 * time.Millisecond} {
		_, err := l.Acquire(lock.WithWait(t.Context(), wait), "another")
		if !errors.Is(err, lock.ErrBusy) || !errors.Is(err, sqllock.ErrNoConnection) {
			t.Errorf("Acquire of a free lock without a free connection, wait %s = %v, want ErrBusy and ErrNoConnection", wait, err)
		}
	}
	locktest.Release(t, lease)
	free, err := l.Acquire(lock.WithWait(t.Context(), 0), "another")
	if err != nil {
		t.Fatalf("Acquire with a free connection = %v", err)
	}
	locktest.Release(t, free)
}

// Waits of less than a second, of a second, and with a rest: none ends early, or lasts as long as the server may wait at a
// stretch.
func TestSQLForUpdateWaits(t *testing.T) {
	t.Parallel()
	db := openSQL(t, testenv.MySQL(t), 8)
	l := forUpdate(t, db, 10*time.Second, nil)
	lease := locktest.Obtain(t, l, "k")
	for _, wait := range []time.Duration{300 * time.Millisecond, time.Second, 1300 * time.Millisecond} {
		t.Run(wait.String(), func(t *testing.T) {
			start := time.Now()
			_, err := l.Acquire(lock.WithWait(t.Context(), wait), "k")
			took := time.Since(start)
			if !errors.Is(err, lock.ErrBusy) || errors.Is(err, sqllock.ErrNoConnection) || took < wait || took > wait+4*time.Second {
				t.Errorf("Acquire = %v after %s, want ErrBusy after %s", err, took, wait)
			}
		})
	}
	locktest.Release(t, lease)
	// Connections come back to the pool as they were.
	for range 8 {
		c, err := sqlPool(t, db).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // not before all are taken
		var same bool
		err = c.QueryRowContext(t.Context(), "SELECT @@wait_timeout = @@GLOBAL.wait_timeout AND @@innodb_lock_wait_timeout = @@GLOBAL.innodb_lock_wait_timeout AND @@autocommit").Scan(&same)
		if err != nil || !same {
			t.Errorf("a connection came back with other settings (%v)", err)
		}
	}
}

func TestSQLForUpdateNeedsRowLocks(t *testing.T) {
	t.Parallel()
	if _, err := sqllock.NewForUpdate(openSQL(t, testenv.SQLite(t), 1), time.Minute, nil); err == nil {
		t.Error("NewSQLForUpdate on SQLite = nil, want an error")
	}
}

// A release that meets a renewal under way waits for its answer, and does not take that for a loss.
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
			locktest.Eventually(t, "a renewal was sent", func() bool { return r.Asked.Load() > n })
			locktest.Release(t, lease)
		})
	}
}

// A renewal that gets no answer, on a connection that is dead, must not use up the time that a release has.
func TestSQLLeaseReleaseDuringAHungRenewal(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	far, r := throughRelay(t, dsn)
	lease := locktest.Obtain(t, sqlLease(t, openSQL(t, far, 4), 9*time.Second, nil), "k")
	n := r.Asked.Load()
	r.Cut.Store(true)
	locktest.Eventually(t, "a renewal was sent", func() bool { return r.Asked.Load() > n })
	time.Sleep(50 * time.Millisecond) // and dropped
	r.Cut.Store(false)                // other connections work
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	locktest.Warm(t, sqlLease(t, openSQL(t, dsn, 4), time.Minute, nil), "k")
}

// A server that does not answer is not a busy pool, nor a busy lock.
func TestSQLForUpdateUnreachable(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	far, r := throughRelay(t, dsn)
	l := forUpdate(t, openSQL(t, far, 2), time.Minute, nil)
	r.Heal() // it closes the connections of the pool
	r.Cut.Store(true)
	if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, sqllock.ErrNoConnection) {
		t.Errorf("Acquire = %v, want ErrUnavailable", err)
	}
	r.Heal()
	locktest.Warm(t, l, "k")
}

// The answer to the statement that takes the lock is lost, and the one to that which gives it up: the first is taken back, and
// the second may be repeated.
func TestSQLLostAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make              func(*testing.T, *gorm.DB) lock.Locker
		acquires, release string // pieces of statements
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

// All that wait for a row that nobody has made yet get their turn.
func TestSQLForUpdateFirstUse(t *testing.T) {
	t.Parallel()
	l := forUpdate(t, openSQL(t, testenv.MySQL(t), 24), 10*time.Second, nil)
	start := time.Now()
	for n := range 30 {
		key := fmt.Sprint("first use ", n)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				lease, err := l.Acquire(lock.WithWait(t.Context(), locktest.Soon), key)
				if err == nil {
					err = lease.Release(context.Background())
				}
				if err != nil {
					t.Errorf("%s: %v", key, err)
				}
			})
		}
		wg.Wait()
	}
	t.Logf("30 first uses by twenty took %s", time.Since(start).Round(time.Millisecond))
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
