// Package sqldb keeps the count and the orders in SQL, on MySQL (or what speaks its protocol) or SQLite.
//
// [New] makes a [Store], [Tx] is one transaction of it, and [Reservations] are what its buyers hold. The statements are
// files in sql/. See package store for what a store is, and for its errors.
package sqldb

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
)

// Store keeps the count in product_stock and the orders in orders, on MySQL (or what speaks its protocol) or SQLite.
type Store struct {
	db     *gorm.DB
	groups *sql.DB // see GroupsOn; nil = none
	trips  *sql.DB // see TripsOn; nil = none
	q      queries
	looks  looks
	places unitPlaces
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

// commitTimeout is the time limit of a COMMIT unless [Store.CommitsWithin] sets another.
const commitTimeout = 10 * time.Second

// longestWait is the longest wait for a row lock if AnswersWithin was not called: the driver closes a connection that
// is silent for 30 s.
const longestWait = 29 * time.Second

// AnswersWithin sets how long the connections of MySQL wait for the answer to a statement; the default is thirty
// seconds. Call it before the first statement.
func (s *Store) AnswersWithin(d time.Duration) { s.rowWait = max(0, d-time.Second) }

// CommitsWithin sets how long to wait for the answer to a COMMIT of MySQL, counted from its sending; the default is ten
// seconds. A COMMIT without an answer by then is [store.ErrUnknown], and its connection is closed. Call it before the
// first transaction.
func (s *Store) CommitsWithin(d time.Duration) { s.commits = d }

// MySQL says whether the server is MySQL or MariaDB, with InnoDB's locks; false = SQLite.
func (s *Store) MySQL() bool { return s.db.Name() == "mysql" }

// DB returns the database, for lockers whose rows are in the same database.
func (s *Store) DB() *gorm.DB { return s.db }

// pool is where statements outside a transaction go.
func (s *Store) pool() querier { return s.db.Statement.ConnPool }

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

// unitPlaces says where holds of this process look for free units first, by product: after those that the last one has
// taken. From the first unit, each would step over all that were taken before and that the server has not purged from
// its index yet, and over those that rivals have locked.
type unitPlaces struct{ sync.Map }

// next returns a place of its own for a hold of n units.
func (p *unitPlaces) next(product, n int64) int64 {
	at, _ := p.LoadOrStore(product, new(atomic.Int64))
	return at.(*atomic.Int64).Add(n) - n
}

// found says that the last of the units that a hold has taken is there; again, that it had to begin at the first unit.
func (p *unitPlaces) found(product, last int64, again bool) {
	at, _ := p.LoadOrStore(product, new(atomic.Int64))
	for place := at.(*atomic.Int64); ; {
		was := place.Load()
		if was > last && !again || place.CompareAndSwap(was, last+1) {
			return
		}
	}
}
