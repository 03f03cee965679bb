// Package sqldb keeps the count and the orders in SQL, on MySQL (or what speaks its protocol) or SQLite.
//
// [New] makes a [Store]; [Tx] is one transaction of it. The statements are files in sql/. See package store for what a
// store is, and for its errors.
package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"lastitem/contract/ledger"
	"lastitem/internal/sqlite"
	"lastitem/internal/store"
)

// Store keeps the count in product_stock and the orders in orders, on MySQL (or what speaks its protocol) or SQLite.
type Store struct {
	db     *gorm.DB
	groups *sql.DB // see GroupsOn; nil = none
	trips  *sql.DB // see TripsOn; nil = none
	q      queries
	looks  looks
	way    func(mode string) Way
	places unitPlaces
	store.Ends
	waits  atomic.Bool // the server cannot skip rows that are locked
	galera atomic.Bool // statements go one by one: see TripSessions

	rowWait time.Duration // the longest wait for a row
	commits time.Duration // the time limit of a COMMIT
}

// New returns the store on db, which has the tables of package migrations. db must be opened with
// SkipDefaultTransaction: transactions are explicit, see [Store.Tx].
func New(db *gorm.DB) (*Store, error) {
	q, err := loadQueries(db.Name())
	return &Store{db: db, q: q, rowWait: longestWait, commits: commitTimeout}, err
}

// AnswersWithin sets how long the connections of MySQL wait for the answer to a statement; the default is thirty
// seconds. Call it before the first statement.
func (s *Store) AnswersWithin(d time.Duration) { s.rowWait = max(0, d-time.Second) }

// MySQL says whether the server is MySQL or MariaDB, with InnoDB's locks; false = SQLite.
func (s *Store) MySQL() bool { return s.db.Name() == "mysql" }

// DB returns the database, for lockers whose rows are in the same database.
func (s *Store) DB() *gorm.DB { return s.db }

// Row is a product's row as a plain read sees it. LeaseSeq and Version rise with every write.
type Row struct {
	Stock     int64
	LeaseSeq  uint64
	Version   uint64
	UpdatedAt string // when it was last written, in whole seconds by the database's clock
}

// Read reads the row of a product that is not segmented, without a lock.
func (s *Store) Read(ctx context.Context, product int64) (Row, error) {
	return readRow(s.db.WithContext(ctx).Raw(s.q.Read, product).Row(), product)
}

// Run returns the name of the time since the stock of a product was set, by [Store.Reset]. It is above 0.
func (s *Store) Run(ctx context.Context, product int64) (run int64, err error) {
	err = s.db.WithContext(ctx).Raw(s.q.ReadRun, product).Row().Scan(&run)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: product}
	}
	return run, statementError(err)
}

// readRow reads a row, and the query's further columns into more.
func readRow(row *sql.Row, product int64, more ...any) (Row, error) {
	var r Row
	var segments int
	err := row.Scan(append([]any{&r.Stock, &r.LeaseSeq, &r.Version, &r.UpdatedAt, &segments}, more...)...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Row{}, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: product}
	case err != nil:
		return Row{}, statementError(err)
	case segments == noCounter:
		return Row{}, &ledger.ProductError{Err: store.ErrOtherWay, ProductID: product}
	case segments > 0:
		return Row{}, &ledger.ProductError{Err: store.ErrSegmented, ProductID: product}
	}
	return r, nil
}

// noCounter in the column segments says that the column way tells how the product is sold, and that modes refuse it
// which do not look there. Otherwise segments is their number, 0 = one counter.
const noCounter = -1

// columns says how a product is sold, in the columns way and segments.
func columns(s ledger.Sold, segments int) (way ledger.Sold, column int) {
	switch s {
	case ledger.InSegments:
		return ledger.Undecided, segments
	case ledger.PerBuyer:
		return ledger.Relatively, noCounter
	case ledger.Computed, ledger.InUnits:
		return s, noCounter
	}
	return s, 0
}

// soldAs reads it from there.
func soldAs(way ledger.Sold, segments int) ledger.Sold {
	switch {
	case segments > 0:
		return ledger.InSegments
	case segments == noCounter && way == ledger.Relatively:
		return ledger.PerBuyer
	}
	return way
}

// ReadCommitted is the isolation that the modes pin: a REPEATABLE READ snapshot may be older than the lock that guards
// it. SQLite is always serializable.
const ReadCommitted = sql.LevelReadCommitted

// Tx runs body in one transaction. An error of body rolls back and is returned as it is. [store.ErrConflict] and
// [store.ErrUnavailable]: rolled back. [store.ErrUnknown]: COMMIT was sent and its answer lost.
func (s *Store) Tx(ctx context.Context, isolation sql.IsolationLevel, body func(*Tx) error) error {
	if s.MySQL() {
		c, err := s.begin(ctx, isolation)
		if err != nil {
			return statementError(err)
		}
		return s.finish(ctx, c, false, body)
	}
	tx := s.db.WithContext(ctx).Begin()
	if tx.Error != nil {
		return statementError(tx.Error)
	}
	ended := false
	defer func() {
		if !ended { // an error, or a panic
			tx.Rollback() // its own failure closes the connection, and the server rolls back
		}
	}()
	t := Tx{ctx: ctx, conn: tx.Statement.ConnPool, q: &s.q, places: &s.places}
	if err := body(&t); err != nil {
		return err
	}
	if err := t.send(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return statementError(err)
	}
	ended = true
	return commitError(tx.Commit().Error)
}

// renew closes the idle connections if err says that a transaction's connection was bad: the server has gone, or has
// become a replica that refuses writes (see backend.OpenSQL). Idle connections lead to the same server. Without this, a
// failover would fail one request per idle connection.
func (s *Store) renew(err error) {
	if !errors.Is(err, driver.ErrBadConn) {
		return
	}
	pools := []*sql.DB{s.groups, s.trips}
	if pool, err := s.db.DB(); err == nil {
		pools = append(pools, pool)
	}
	for _, pool := range pools {
		if pool == nil {
			continue
		}
		if n := pool.Stats().MaxOpenConnections; n > 0 {
			pool.SetMaxIdleConns(0)
			pool.SetMaxIdleConns(n)
		}
	}
}

// Reset sets the stock of a product and deletes its orders, its idempotency keys and the given locks without expiry. A
// cart has one key: it goes with the first of its products that is reset, and the orders of the others stay, without
// it. Reservations stay as they are: they are of another run.
func (s *Store) Reset(ctx context.Context, product, stock int64, rules ledger.Rules, locks ...string) error {
	way, segments := columns(rules.Sold(), rules.Segments)
	perBuyer := sql.NullInt64{Int64: rules.PerBuyer, Valid: rules.PerBuyer > 0}
	return store.Retry(ctx, 0, func(int) error { // concurrent resets may deadlock on each other's index gaps
		return s.Tx(ctx, ReadCommitted, func(tx *Tx) error {
			// The buyers come before the row, as in a hold.
			if err := tx.exec(s.q.DeleteBuyers, product); err != nil {
				return err
			}
			// The row comes before the rest: every deduction under its lock has either committed by then, or comes after.
			run := newRun()
			err := tx.exec(s.q.Reset, product, stock, stock, segments, run, perBuyer, cmp.Or(rules.Late, ledger.LateRefund), way)
			if err != nil {
				return err
			}
			// A cart's key is found through its orders, so the orders are deleted after it.
			for _, q := range []string{s.q.UnkeyCarts, s.q.DeleteCartKeys, s.q.DeleteKeys, s.q.DeleteOrders} {
				if err := tx.exec(q, product); err != nil {
					return err
				}
			}
			for _, key := range locks {
				if err := tx.exec(s.q.DeleteLock, []byte(key)); err != nil {
					return err
				}
			}
			if rules.Units {
				if err := tx.makeUnits(product, run, stock); err != nil {
					return err
				}
			}
			return tx.exec(s.q.UnitsOld, product, run)
		})
	})
}

// makeUnits makes the units of a run, a thousand in a statement.
func (t *Tx) makeUnits(product, run, n int64) error {
	for at := int64(0); at < n; {
		var args []any
		for ; at < n && len(args) < 3000; at++ {
			args = append(args, product, run, at+1)
		}
		query := t.q.UnitsInsert + strings.Repeat(", (?, ?, ?)", len(args)/3-1)
		if err := t.exec(query, args...); err != nil {
			return err
		}
	}
	return nil
}

// newRun draws a name that no other run has, in this database or in another one behind the same log.
func newRun() int64 { return 1 + rand.Int64N(math.MaxInt64) }

// Facts reads what the database says of a product, without its rows, and without what has to be summed over them.
func (s *Store) Facts(ctx context.Context, product int64) (f ledger.Facts, err error) {
	db := s.db.WithContext(ctx)
	err = scanFacts(db.Raw(s.q.Facts, product).Row(), &f)
	if errors.Is(err, sql.ErrNoRows) {
		return f, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: product}
	}
	if err == nil {
		err = s.q.count(product, &f, func(query string, args ...any) *sql.Row { return db.Raw(query, args...).Row() })
	}
	return f, statementError(err)
}

// count fills in the stock of a product that has no counter.
func (q *queries) count(product int64, f *ledger.Facts, row func(query string, args ...any) *sql.Row) error {
	switch f.Sold {
	case ledger.Computed:
		return row(q.HoldFree, product, f.Run).Scan(&f.Stock)
	case ledger.InUnits:
		return row(q.UnitsFree, product, f.Run).Scan(&f.Stock)
	}
	return nil
}

// scanFacts scans a row of the query facts.
func scanFacts(row *sql.Row, f *ledger.Facts) error {
	var segments int
	err := row.Scan(&f.Initial, &f.Stock, &f.LeaseSeq, &segments, &f.Sold, &f.Run)
	f.Sold = soldAs(f.Sold, segments)
	return err
}

// querier is a pool, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// eachRow has scan read each row of a query; of a packet of several, one scan reads the rows of each.
func eachRow(ctx context.Context, at querier, query string, args []any, scan ...func(*sql.Rows) error) error {
	rows, err := at.QueryContext(ctx, query, args...)
	if err != nil {
		return statementError(err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below reports every error
	for _, one := range scan {
		for rows.Next() {
			if err := one(rows); err != nil {
				return statementError(err)
			}
		}
		rows.NextResultSet()
	}
	return statementError(rows.Err())
}

// allRows reads the rows of a query into a slice.
func allRows[T any](ctx context.Context, at querier, scan func(*sql.Rows, *T) error, query string,
	args ...any) (all []T, err error) {
	err = eachRow(ctx, at, query, args, func(rows *sql.Rows) error {
		var row T
		err := scan(rows, &row)
		all = append(all, row)
		return err
	})
	return all, err
}

// column scans rows of one column.
func column[T any](rows *sql.Rows, v *T) error { return rows.Scan(v) }

// pool is where statements outside a transaction go.
func (s *Store) pool() querier { return s.db.Statement.ConnPool }

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

// Conflict reports whether the database ended the transaction of err in favour of another one; the same transaction may
// succeed later.
func Conflict(err error) bool {
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
	case Conflict(err):
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
	case Conflict(err), sqlite.Full(err), errors.Is(err, sql.ErrTxDone), errors.Is(err, driver.ErrBadConn),
		errors.As(err, &op) && op.Op == "dial":
		return statementError(err)
	}
	return fmt.Errorf("%w: sql: commit: %w", store.ErrUnknown, err)
}
