package sqldb

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"

	"lastitem/internal/sqlite"
	"lastitem/internal/store"
)

// Numbers of server errors that end one transaction in favour of another: the whole transaction must be rolled back,
// also after 1205, which leaves half of it standing.
const (
	erCheckread       = 1020 // MariaDB: the row changed since the snapshot
	erBadNull         = 1048 // a reservation's change has changed no row: see the statement hold_event
	erLockWaitTimeout = 1205
	erLockDeadlock    = 1213 // also Galera's and group replication's answer to the COMMIT of the transaction that lost

	// TiDB rolls back the transaction that lost, and says so at its COMMIT.
	erTiDBForUpdate = 8002
	erTiDBRetryable = 8022
	erTiDBConflict  = 9007
)

var conflicts = []uint16{erCheckread, erBadNull, erLockWaitTimeout, erLockDeadlock, erTiDBForUpdate, erTiDBRetryable,
	erTiDBConflict}

// erParse says that the server does not know the syntax.
const erParse = 1064

// erDupEntry says that a primary key is taken.
const erDupEntry = 1062

// conflict reports whether the database ended the transaction of err in favour of another one; the same transaction may
// succeed later.
func conflict(err error) bool {
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return slices.Contains(conflicts, my.Number)
	}
	return sqlite.Busy(err) || sqlite.Null(err)
}

// forbidden are the numbers of refusals that stay: of rights, of what is not there, of a setting of the server.
var forbidden = []uint16{1044, 1045, 1049, 1054, 1064, 1142, 1143, 1146, 1175, 1227, 1364, 1370, 1568, 1698}

// Refusal is [store.ErrForbidden] or [store.ErrRefused] if err is the answer of a database that refuses, else nil.
func Refusal(err error) error {
	var my *mysql.MySQLError
	switch isMySQL := errors.As(err, &my); {
	case isMySQL && slices.Contains(forbidden, my.Number):
		return store.ErrForbidden
	case isMySQL || sqlite.Full(err):
		return store.ErrRefused
	}
	return nil
}

// Answered says that err is an answer of the database, which therefore is reachable and refuses.
func Answered(err error) bool {
	var my *mysql.MySQLError
	return errors.As(err, &my) || sqlite.Answered(err)
}

// duplicate says that a row has the primary key of another.
func duplicate(err error) bool {
	var my *mysql.MySQLError
	return errors.As(err, &my) && my.Number == erDupEntry || sqlite.Duplicate(err)
}

// statementError maps an error of a statement before COMMIT: the transaction is rolled back, nothing happened.
func statementError(err error) error {
	switch {
	case err == nil:
		return nil
	case conflict(err):
		return fmt.Errorf("%w: sql: %w", store.ErrConflict, err)
	}
	return fmt.Errorf("%w: sql: %w", store.ErrUnavailable, err)
}

// commitError maps an error of COMMIT, or of a write outside a transaction: only a conflict, a file that is full, a
// transaction that had ended before, and a connection that was never made are known not to have happened.
func commitError(err error) error {
	var op *net.OpError
	switch {
	case err == nil:
		return nil
	case conflict(err), sqlite.Full(err), errors.Is(err, sql.ErrTxDone), errors.Is(err, driver.ErrBadConn),
		errors.As(err, &op) && op.Op == "dial":
		return statementError(err)
	}
	return fmt.Errorf("%w: sql: commit: %w", store.ErrUnknown, err)
}

// tripError maps an error of a packet that ends with COMMIT: what the server says is a refusal of a statement before
// it, unless a COMMIT may end in this way.
func tripError(err error) error {
	var my *mysql.MySQLError
	if errors.As(err, &my) && !ofCommit(my.Number) {
		return statementError(err)
	}
	return commitError(err)
}

// ofCommit says that a COMMIT may fail with this error, and nobody knows whether it happened: the server could not
// write, was told to stop, or lost its own servers. Proxies use the numbers of clients, from 2000 on, and 1105; TiDB
// has its own.
func ofCommit(number uint16) bool {
	return slices.Contains(commitErrors, number) || 2000 <= number && number < 3000 || number >= 8000
}

var commitErrors = []uint16{1021, 1026, 1030, 1047, 1053, 1105, 1180, 1296, 1297, 1317, 1598, 1815, 1927, 1969, 3024,
	3100, 3101, 3169}
