package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// TripsOn makes [Store.SellInOneTrip] and [Store.TripTx] use pool, whose connections are made by [Store.TripSessions].
// MySQL only.
func (s *Store) TripsOn(pool *sql.DB) { s.trips = pool }

// TripSessions makes the connections of such a pool, by c, which must allow several statements in a
// packet. The server itself ends a wait for a row, after three seconds: if the client did, nobody would know what
// happened.
//
// From the first connection to a node of Galera on, no packets are sent: Galera may end a transaction in favour of one
// from another node between two statements of a packet, and what is left of the packet would be a transaction of its
// own. A statement that is sent alone gets the error.
func (s *Store) TripSessions(c driver.Connector) driver.Connector {
	return sessions{c, append([]string{"SET SESSION innodb_lock_wait_timeout = 3"}, groupSession...), &s.galera}
}

// TripTx is [Store.Tx] in [ReadCommitted] on a connection of that pool, if there is one: it sends only the statements
// of body, some of them together (see [Tx.later]), and COMMIT.
func (s *Store) TripTx(ctx context.Context, body func(*Tx) error) error {
	return s.txOn(ctx, s.trips, true, body)
}

// SellInOneTrip takes the units of an order and inserts it, in one transaction that is one packet, and returns the
// remaining stock. sold is false, and nothing has happened, if the stock does not suffice, or the product is unknown or
// segmented.
//
// The server executes the statements up to the first that fails. After an error the connection is closed, so that the
// server rolls back what it has executed. The driver does not tell which statement failed: if a COMMIT may fail in this
// way, the error is [store.ErrUnknown].
func (s *Store) SellInOneTrip(ctx context.Context, o ledger.Order) (remaining int64, sold bool, err error) {
	args := named(o.Quantity, o.ProductID, o.Quantity, o.ID, o.ProductID, o.Quantity, o.Mode, o.Replica, o.Key,
		int64(o.Fence), o.CreatedMicros)
	for try := 1; ; try++ {
		c, err := s.trips.Conn(ctx)
		if err != nil {
			return 0, false, statementError(err)
		}
		if s.galera.Load() {
			err = s.finish(ctx, c, false, func(tx *Tx) error {
				remaining, sold, err = tx.Take(o.ProductID, o.Quantity)
				if err != nil || !sold {
					return err
				}
				o.Remaining = &remaining
				return tx.InsertOrder(o)
			})
			return remaining, sold && err == nil, err
		}
		var taken, left []int64 // rows, and the values of LAST_INSERT_ID, by statement
		_ = c.Raw(func(conn any) error {
			taken, left, err = execAll(ctx, conn, s.q.SellInOneTrip, args)
			if err != nil {
				return driver.ErrBadConn // have it closed
			}
			return nil
		})
		_ = c.Close()
		if s.renew(err); errors.Is(err, driver.ErrBadConn) && try < begins {
			continue // nothing was sent: the server had closed an idle connection
		}
		switch {
		case err != nil:
			return 0, false, tripError(err)
		case len(taken) != 3:
			return 0, false, fmt.Errorf("%w: sql: %d answers to three statements", store.ErrUnknown, len(taken))
		}
		return left[0], taken[0] == 1, nil
	}
}

// execAll executes a packet of statements.
func execAll(ctx context.Context, conn any, query string, args []driver.NamedValue) (taken, left []int64, err error) {
	e, ok := conn.(driver.ExecerContext)
	if !ok {
		return nil, nil, fmt.Errorf("store: %T does not execute statements", conn)
	}
	res, err := e.ExecContext(ctx, query, args)
	if err != nil {
		return nil, nil, err
	}
	if all, ok := res.(mysql.Result); ok {
		taken, left = all.AllRowsAffected(), all.AllLastInsertIds()
	}
	return taken, left, nil
}

// named gives arguments the form in which a driver takes them.
func named(args ...driver.Value) []driver.NamedValue {
	all := make([]driver.NamedValue, len(args))
	for i, v := range args {
		all[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return all
}
