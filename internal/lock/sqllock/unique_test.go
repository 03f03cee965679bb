package sqllock_test

import (
	"context"
	"testing"
	"time"

	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// What breaks the textbook lock: the holder dies, and nobody gets the lock again.
func TestSQLUniqueOfDeadHolderStays(t *testing.T) {
	onDatabases(t, func(t *testing.T, dsn string) {
		db := openSQL(t, dsn, 4)
		l := sqlUnique(t, db, nil)
		locktest.Obtain(t, l, "k") // the holder dies
		locktest.WantBusy(t, l, "k", "after the holder's death")
		// No statement of this lock reads a clock, and its row has no expiry, so the row stays forever.
		var open int
		if err := db.Raw("SELECT COUNT(*) FROM record_lock WHERE expires_us IS NULL").Scan(&open).Error; err != nil || open != 1 {
			t.Errorf("rows without an end: %d, %v, want 1", open, err)
		}
		locktest.WantBusy(t, sqlLease(t, db, time.Second, nil), "k", "the repaired lock on a row without expiry")
	})
}

// The repaired lock: the next client takes over when the dead holder's TTL is over, not earlier, and with a higher fence.
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
		l := sqlLease(t, db, 9*time.Second, nil) // on a busy machine a renewal may be seconds late
		lease := locktest.Obtain(t, l, "k")
		ends := func() (us int64) {
			if err := db.Raw("SELECT expires_us FROM record_lock").Scan(&us).Error; err != nil {
				t.Fatal(err)
			}
			return us
		}
		for range 2 {
			before := ends()
			wait.Until(t, "the row's end is put off", func() bool { return ends() > before })
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
		const ttl = 9 * time.Second
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

// A renewal without an answer, on a dead connection, must not use up the time of the release.
func TestSQLLeaseReleaseDuringAHungRenewal(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	far, r := throughRelay(t, dsn)
	lease := locktest.Obtain(t, sqlLease(t, openSQL(t, far, 4), 9*time.Second, nil), "k")
	n := r.Asked.Load()
	r.Cut.Store(true)
	wait.Until(t, "a renewal was sent", func() bool { return r.Asked.Load() > n })
	time.Sleep(50 * time.Millisecond) // and dropped
	r.Cut.Store(false)                // other connections work
	locktest.Release(t, lease)
	locktest.Warm(t, sqlLease(t, openSQL(t, dsn, 4), time.Minute, nil), "k")
}
