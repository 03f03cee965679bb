package sqllock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"lastitem/internal/lock"
	"lastitem/internal/lock/sqllock"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

func TestMain(m *testing.M) { locktest.Main(m) }

// What breaks the textbook lock: the holder dies, and nobody gets the lock again.
func TestSQLUniqueOfDeadHolderStays(t *testing.T) {
	onDatabases(t, func(t *testing.T, dsn string) {
		db := openSQL(t, dsn, 4)
		l := sqlUnique(t, db, nil)
		locktest.Obtain(t, l, "k") // the holder dies
		locktest.WantBusy(t, l, "k", "after the holder's death")
		// No statement of this lock reads a clock, and its row has no expiry, so the row stays forever.
		var open int
		if err := db.Raw("SELECT COUNT(*) FROM record_lock WHERE expires_us IS NULL").Scan(&open).Error; err != nil ||
			open != 1 {
			t.Errorf("rows without an end: %d, %v, want 1", open, err)
		}
		locktest.Say(t, "rows in record_lock without an end: %d", open)
		locktest.WantBusy(t, sqlLease(t, db, time.Second, nil), "k", "the repaired lock on a row without expiry")
	})
}

// The repaired lock: the next client takes over when the dead holder's TTL is over, not earlier, and with a higher
// fence.
func TestSQLLeaseOfDeadHolderIsTakenOver(t *testing.T) {
	onDatabases(t, func(t *testing.T, dsn string) {
		dead := openSQL(t, dsn, 4)
		const ttl = time.Second
		start := time.Now()
		lease := locktest.Obtain(t, sqlLease(t, dead, ttl, nil), "k")
		if err := sqlPool(t, dead).Close(); err != nil { // its renewals end
			t.Fatal(err)
		}
		rival := sqlLease(t, openSQL(t, dsn, 4), time.Minute, nil)
		second := locktest.Obtain(t, rival, "k")
		if took := time.Since(start); took < ttl {
			t.Errorf("taken over after %s of a TTL of %s", took, ttl)
		}
		locktest.WantLost(t, lease, 0)
		locktest.WantHigher(t, lease, second)
		if err := lease.Release(t.Context()); err == nil {
			t.Error("Release without a database = nil")
		}
		locktest.Release(t, second)
	})
}

func TestSQLLeaseRenews(t *testing.T) {
	onDatabases(t, func(t *testing.T, dsn string) {
		db := openSQL(t, dsn, 4)
		l := sqlLease(t, db, 9*time.Second, nil) // on a busy machine a renewal may be seconds late
		lease := locktest.Obtain(t, l, "k")
		ends := func() (us int64) {
			testkit.Must(t, db.Raw("SELECT expires_us FROM record_lock").Scan(&us).Error)
			return us
		}
		for range 2 {
			before := ends()
			testkit.Until(t, "the row's end is put off", func() bool { return ends() > before })
		}
		testkit.Is(t, context.Cause(lease.Context()), nil, "the lease ended")
		locktest.Release(t, lease)
	})
}

// A holder whose row was taken over is told at its next renewal, and its release leaves the rival's row alone.
func TestSQLLeaseLost(t *testing.T) {
	onDatabases(t, func(t *testing.T, dsn string) {
		db := openSQL(t, dsn, 4)
		const ttl = 9 * time.Second
		l := sqlLease(t, db, ttl, nil)
		locktest.SessionEnds(t, l, sqlLease(t, openSQL(t, dsn, 4), time.Minute, nil), "k", ttl, func() {
			testkit.Must(t, db.Exec("UPDATE record_lock SET expires_us = 1").Error)
		})
	})
}

func TestSQLLeaseFencesRise(t *testing.T) {
	onDatabases(t, func(t *testing.T, dsn string) {
		locktest.FencesRise(t, "k", sqlLease(t, openSQL(t, dsn, 4), locktest.TTL, nil),
			sqlLease(t, openSQL(t, dsn, 4), locktest.TTL, nil))
	})
}

// A renewal without an answer, on a dead connection, must not use up the time of the release.
func TestSQLLeaseReleaseDuringAHungRenewal(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	far, r := throughRelay(t, dsn)
	lease := locktest.Obtain(t, sqlLease(t, openSQL(t, far, 4), 9*time.Second, nil), "k")
	n := r.Asked.Load()
	r.Cut.Store(true)
	testkit.Until(t, "a renewal was sent", func() bool { return r.Asked.Load() > n })
	time.Sleep(50 * time.Millisecond) // and dropped
	r.Cut.Store(false)                // other connections work
	locktest.Release(t, lease)
	locktest.Warm(t, sqlLease(t, openSQL(t, dsn, 4), time.Minute, nil), "k")
}

// sessionsOf returns the ids of all other connections to this test's database.
func sessionsOf(t *testing.T, db *gorm.DB) []int64 {
	t.Helper()
	var ids []int64
	err := db.Raw("SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()").
		Scan(&ids).Error
	testkit.Must(t, err)
	return ids
}

// The connection owns the lock: if an operator kills it, the rival gets in and the holder is told.
func TestSQLForUpdateConnectionKilled(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	admin := openSQL(t, dsn, 1)
	const ttl = 9 * time.Second
	holder := forUpdate(t, openSQL(t, dsn, 1), ttl, nil)
	locktest.SessionEnds(t, holder, forUpdate(t, openSQL(t, dsn, 2), time.Minute, nil), "k", ttl, func() {
		for _, id := range sessionsOf(t, admin) {
			testkit.Must(t, admin.Exec("KILL ?", id).Error)
		}
	})
}

// A wait that is longer than the TTL does not count towards it.
func TestSQLForUpdateAfterALongWait(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	lease := locktest.Obtain(t, forUpdate(t, openSQL(t, dsn, 1), time.Minute, nil), "k")
	time.AfterFunc(7*time.Second, func() { _ = lease.Release(context.Background()) })
	second := locktest.Obtain(t, forUpdate(t, openSQL(t, dsn, 1), 6*time.Second, nil), "k")
	testkit.Is(t, context.Cause(second.Context()), nil, "the lease was over when it began")
	locktest.Release(t, second)
}

// If holders use every connection, even a free lock cannot be acquired, and the error says why.
func TestSQLForUpdatePoolExhausted(t *testing.T) {
	t.Parallel()
	l := forUpdate(t, openSQL(t, testenv.MySQL(t), 1), 10*time.Second, nil)
	lease := locktest.Obtain(t, l, "one")
	for _, wait := range []time.Duration{0, 100 * time.Millisecond} {
		_, err := l.Acquire(lock.WithWait(t.Context(), wait), "another")
		if !errors.Is(err, lock.ErrBusy) || !errors.Is(err, sqllock.ErrNoConnection) {
			t.Errorf("Acquire of a free lock without a free connection, wait %s = %v, want ErrBusy and ErrNoConnection", wait,
				err)
		}
		locktest.Say(t, "another lock, which is free, wait %s: %v", wait, err)
	}
	locktest.Release(t, lease)
	free := locktest.Acquire(lock.WithWait(t.Context(), 0), t, l, "another")
	locktest.Release(t, free)
}

// Waits of less than a second, of one second, and of a second and a rest: none ends early, or lasts as long as the
// longest single wait at the server.
func TestSQLForUpdateWaits(t *testing.T) {
	t.Parallel()
	db := openSQL(t, testenv.MySQL(t), 8)
	l := forUpdate(t, db, 5*time.Minute, nil)
	lease := locktest.Obtain(t, l, "k")
	for _, wait := range []time.Duration{300 * time.Millisecond, time.Second, 1300 * time.Millisecond} {
		t.Run(wait.String(), func(t *testing.T) {
			shortest := time.Hour
			for range 5 { // on a busy machine most may take longer
				start := time.Now()
				_, err := l.Acquire(lock.WithWait(t.Context(), wait), "k")
				took := time.Since(start)
				if !errors.Is(err, lock.ErrBusy) || errors.Is(err, sqllock.ErrNoConnection) || took < wait {
					t.Errorf("Acquire = %v after %s, want ErrBusy after %s", err, took, wait)
				}
				if shortest = min(shortest, took); shortest <= wait+4*time.Second {
					return
				}
			}
			t.Errorf("the shortest of five waits of %s took %s", wait, shortest)
		})
	}
	locktest.Release(t, lease)
	// Connections come back to the pool as they were.
	for range 8 {
		c, err := sqlPool(t, db).Conn(t.Context())
		testkit.Must(t, err)
		t.Cleanup(func() { _ = c.Close() }) // not before all connections are taken
		var same bool
		err = c.QueryRowContext(t.Context(), "SELECT @@wait_timeout = @@GLOBAL.wait_timeout AND @@innodb_lock_wait_timeout "+
			"= @@GLOBAL.innodb_lock_wait_timeout AND @@autocommit").Scan(&same)
		if err != nil || !same {
			t.Errorf("a connection came back with other settings (%v)", err)
		}
	}
}

func TestSQLForUpdateNeedsRowLocks(t *testing.T) {
	t.Parallel()
	if _, err := sqllock.NewForUpdate(openSQL(t, testenv.SQLite(t), 1), time.Minute, nil); err == nil {
		t.Error("NewForUpdate on SQLite = nil, want an error")
	}
}

// A server that does not answer is not a busy pool, nor a busy lock.
func TestSQLForUpdateUnreachable(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	far, r := throughRelay(t, dsn)
	l := forUpdate(t, openSQL(t, far, 2), time.Minute, nil)
	r.Heal() // it closes the connections of the pool
	r.Cut.Store(true)
	if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, lock.ErrUnavailable) ||
		errors.Is(err, sqllock.ErrNoConnection) {
		t.Errorf("Acquire = %v, want ErrUnavailable", err)
	}
	r.Heal()
	locktest.Warm(t, l, "k")
}
