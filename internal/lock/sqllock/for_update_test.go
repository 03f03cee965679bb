package sqllock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/lock/sqllock"
	"lastitem/internal/testenv"
)

// sessionsOf returns the ids of all other connections to this test's database.
func sessionsOf(t *testing.T, db *gorm.DB) []int64 {
	t.Helper()
	var ids []int64
	err := db.Raw("SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()").Scan(&ids).Error
	if err != nil {
		t.Fatal(err)
	}
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
			if err := admin.Exec("KILL ?", id).Error; err != nil {
				t.Fatal(err)
			}
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
	if err := context.Cause(second.Context()); err != nil {
		t.Errorf("the lease was over when it began: %v", err)
	}
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

// Waits of less than a second, of one second, and of a second and a rest: none ends early, or lasts as long as the longest single wait at
// the server.
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
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // not before all connections are taken
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
	if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, sqllock.ErrNoConnection) {
		t.Errorf("Acquire = %v, want ErrUnavailable", err)
	}
	r.Heal()
	locktest.Warm(t, l, "k")
}
