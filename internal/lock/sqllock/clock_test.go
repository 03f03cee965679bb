package sqllock_test

import (
	"bytes"
	"testing"
	"time"

	"gorm.io/gorm"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// jumpingSQL returns a database whose clock can be set: a function that opens pools on it, and one that sets the clock and waits until the
// database shows it.
func jumpingSQL(t *testing.T) (open func() *gorm.DB, jumpTo func(offset time.Duration)) {
	t.Helper()
	dsn, set := testenv.ClockedMySQL(t)
	open = func() *gorm.DB { return openSQL(t, dsn, 4) }
	db := open()
	return open, func(offset time.Duration) {
		t.Helper()
		set(offset)
		wait.Until(t, "the database shows the clock", func() bool {
			var seconds int64
			err := db.Raw("SELECT UNIX_TIMESTAMP()").Scan(&seconds).Error
			return err == nil && time.Unix(seconds, 0).Sub(time.Now().Add(offset)).Abs() < time.Minute
		})
	}
}

// The lease of a row depends on the database's clock. A jump past the TTL lets a rival in while the holder is alive and renews; the fence
// rises, so a write that checks it is refused to the first holder. A jump back makes the row of a dead holder last longer by the jump.
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
		t.Errorf("the first holder's context: %v, want nil: its own clock has not moved, and it renews every %v only", err, ttl/3)
	}
	if second.Fence() <= first.Fence() {
		t.Errorf("fence %d after %d, want a higher one", second.Fence(), first.Fence())
	}
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

// If a holder's row has expired by a jump and nobody has taken it, the holder is told at its next renewal: the row is not revived.
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
	const left = "SELECT expires_us - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FROM record_lock WHERE lock_key = ?"
	if err := db.Raw(left, []byte(key)).Scan(&us).Error; err != nil {
		t.Fatal(err)
	}
	return time.Duration(us) * time.Microsecond
}

func TestSQLDeaths(t *testing.T) {
	testenv.Slow(t, "sessions of 15 s end")
	t.Parallel()
	for name, make := range map[string]func(*testing.T) *locktest.World{
		"sql-lease":      func(t *testing.T) *locktest.World { return leaseWorld(t, testenv.MySQL(t)) },
		"sql-for-update": func(t *testing.T) *locktest.World { return forUpdateWorld(t, testenv.MySQL(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.Deaths(t, make)
		})
	}
}

// rowLock makes a lock of rows with a TTL.
type rowLock func(*testing.T, *gorm.DB, time.Duration) lock.Locker

// sqlWorld is the part of a World that all row locks share. The keys of dying are parts of SQL statements.
func sqlWorld(t *testing.T, dsn string, locker rowLock, dying map[string]string) *locktest.World {
	openSQL(t, dsn, 1)
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

func leaseWorld(t *testing.T, dsn string) *locktest.World {
	w := sqlWorld(t, dsn, func(t *testing.T, db *gorm.DB, ttl time.Duration) lock.Locker { return sqlLease(t, db, ttl, nil) },
		map[string]string{"row made": "INSERT INTO record_lock", "row taken": "fence = fence + 1", "look": "SELECT owner"})
	db := openSQL(t, dsn, 1)
	w.Traces = func(t *testing.T, key string) (n int) { // the row stays, with its fence
		held := db.Raw("SELECT COUNT(*) FROM record_lock WHERE lock_key = ? AND owner <> ''", []byte(key))
		if err := held.Scan(&n).Error; err != nil {
			t.Fatal(err)
		}
		return n
	}
	return w
}

func forUpdateWorld(t *testing.T, dsn string) *locktest.World {
	w := sqlWorld(t, dsn, func(t *testing.T, db *gorm.DB, ttl time.Duration) lock.Locker { return forUpdate(t, db, ttl, nil) },
		map[string]string{"connection": "autocommit = 0", "row made": "INSERT INTO record_lock", "row locked": "FOR UPDATE"})
	db := openSQL(t, dsn, 1)
	w.Traces = func(t *testing.T, key string) (n int) { // nobody has the row: it can be locked at once
		err := db.Raw("SELECT COUNT(*) FROM record_lock WHERE lock_key = ? FOR UPDATE NOWAIT", []byte(key)).Scan(&n).Error
		if err != nil {
			return 1
		}
		return 0
	}
	return w
}
