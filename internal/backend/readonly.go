package backend

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// refusing makes connections that turn bad as soon as their server refuses a write because it is read-only: an old
// primary after a failover. [database/sql] drops a bad connection and repeats a statement outside a transaction on
// another one, which is safe since it was refused; so it finds the new primary. The driver's own rejectReadOnly does
// that too, but hides the reason.
type refusing struct {
	driver.Connector
	zone string // time zone of its sessions, quoted
	door *door  // hears whether the server takes them
}

// tooMany are the error numbers of a server that has its most connections, in all or of this user.
var tooMany = []uint16{1040, 1203, 1226}

// The error numbers of a server that refuses writes.
const (
	erReadOnlyOption      = 1290 // --read-only, --super-read-only
	erReadOnlyTransaction = 1792 // transaction_read_only
	erReadOnlyMode        = 1836 // during an upgrade
	erReadOnlyTable       = 1036 // --innodb-read-only on MariaDB; --innodb-force-recovery=4 on MySQL, 6 on MariaDB
	// --innodb-read-only on MySQL, whose engine refuses the table; whatever else it means, nothing has happened
	erCannotLock = 1015
)

var readOnly = []uint16{erReadOnlyOption, erReadOnlyTransaction, erReadOnlyMode, erReadOnlyTable, erCannotLock}

// mysqlConn lists the methods of the driver's connections that we pass on.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// Connect makes a connection, whose session is what the shop needs.
func (r refusing) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := r.Connector.Connect(ctx)
	var e *mysql.MySQLError
	if err == nil || errors.As(err, &e) && slices.Contains(tooMany, e.Number) {
		r.door.heard(err)
	}
	if err != nil {
		return nil, err
	}
	my, ok := c.(mysqlConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("backend: %T lacks methods of a connection to MySQL", c), c.Close())
	}
	if err := setSession(ctx, my, r.zone); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &refusingConn{mysqlConn: my}, nil
}

// refusingConn is one connection; refused says that its server has refused a write.
type refusingConn struct {
	mysqlConn
	refused bool
}

// IsValid says whether the connection may go back to the pool.
func (c *refusingConn) IsValid() bool { return !c.refused && c.mysqlConn.IsValid() }

// heard checks whether an error says that the server refuses writes.
func (c *refusingConn) heard(err error) error {
	var e *mysql.MySQLError
	if errors.As(err, &e) && slices.Contains(readOnly, e.Number) {
		c.refused = true
		return fmt.Errorf("%w: %w", driver.ErrBadConn, err)
	}
	return err
}

// ExecContext executes a statement.
func (c *refusingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	res, err := c.mysqlConn.ExecContext(ctx, query, args)
	return res, c.heard(err)
}

// QueryContext executes a query.
func (c *refusingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.mysqlConn.QueryContext(ctx, query, args)
	return rows, c.heard(err)
}

// BeginTx begins a transaction, whose COMMIT may be refused as well.
func (c *refusingConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.mysqlConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, c.heard(err)
	}
	return refusingTx{tx, c}, nil
}

// refusingTx is a transaction on such a connection.
type refusingTx struct {
	driver.Tx
	c *refusingConn
}

// Commit commits, or is refused: then the server has rolled back.
func (t refusingTx) Commit() error { return t.c.heard(t.Tx.Commit()) }
