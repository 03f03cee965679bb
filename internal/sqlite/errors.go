package sqlite

import (
	"errors"

	"modernc.org/sqlite"
)

// Result codes of SQLite. The lower eight bits are the kind of an error, the bits above them say more:
// SQLITE_BUSY_SNAPSHOT is 5 + 2<<8.
const (
	sqlError   = 1
	busy       = 5
	locked     = 6
	full       = 13
	cannotOpen = 14
	constraint = 19
	notNull    = 19 + 5<<8
	primaryKey = 19 + 6<<8
)

// Busy says that another connection has the lock that a statement needs, or has written since its transaction began to
// read. The same may succeed a moment later.
func Busy(err error) bool {
	c := code(err) & 0xff
	return c == busy || c == locked
}

// Full says that the disk, or the file, has no room for a write. SQLite has then rolled back the transaction, also if
// it was at its COMMIT.
func Full(err error) bool { return code(err)&0xff == full }

// Answered says that err is an error of SQLite itself.
func Answered(err error) bool { return code(err) != 0 }

// CannotOpen says that the file cannot be opened, or be made. SQLite's own words are "out of memory (14)".
func CannotOpen(err error) bool { return code(err)&0xff == cannotOpen }

// NoTable says that a statement names a table that does not exist. SQLite has no code of its own for that: it must be
// the only mistake that the statement can have.
func NoTable(err error) bool { return code(err) == sqlError }

// Duplicate says that a row has the primary key of another.
func Duplicate(err error) bool { return code(err) == primaryKey }

// Constraint says that a row breaks a constraint of its table, or that a trigger refuses it.
func Constraint(err error) bool { return code(err)&0xff == constraint }

// Null says that a row would have NULL where its table has none.
func Null(err error) bool { return code(err) == notNull }

// code is the extended result code of an error of SQLite, 0 of any other.
func code(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code()
}
