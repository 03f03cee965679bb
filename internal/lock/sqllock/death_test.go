package sqllock_test

import (
	"bytes"
	"testing"
	"time"

	"gorm.io/gorm"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

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
