package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

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

// Look reads the count of a product without a lock, in a transaction of its own, so that a read-write splitter does not
// send it to a replica, whose count may be an old one. It shares the read: all callers that wait for one get the answer
// of a statement that was sent after each of them came. So the count was true while every one of them was waiting, and
// a crowd costs one read at a time. there is false if there is no such product, or it is segmented.
func (s *Store) Look(ctx context.Context, product int64) (stock int64, there bool, err error) {
	mine := s.looks.join(product, s.look)
	select {
	case <-mine.done:
		return mine.stock, mine.there, mine.err
	case <-ctx.Done():
		return 0, false, statementError(ctx.Err())
	}
}

// look reads for all who wait.
func (s *Store) look(product int64, l *look) {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	var err error
	if s.MySQL() {
		err = s.Tx(ctx, sql.LevelDefault, func(tx *Tx) error {
			return tx.conn.QueryRowContext(ctx, s.q.Look, product).Scan(&l.stock)
		})
	} else {
		err = s.db.WithContext(ctx).Raw(s.q.Look, product).Row().Scan(&l.stock)
	}
	if l.there = err == nil; !errors.Is(err, sql.ErrNoRows) {
		l.err = statementError(err)
	}
}

// lookLimit bounds a read, since no caller's context does.
const lookLimit = 5 * time.Second

// Reset sets the stock of a product and deletes its orders, its idempotency keys and the given locks without expiry. A
// cart has one key: it goes with the first of its products that is reset, and the orders of the others stay, without
// it. Reservations stay as they are: they are of another run.
func (s *Store) Reset(ctx context.Context, product, stock int64, rules ledger.Rules, locks ...string) error {
	way, segments := columns(rules.Sold(), rules.Segments)
	perBuyer := sql.NullInt64{Int64: rules.PerBuyer, Valid: rules.PerBuyer > 0}
	longest, extends := rules.Longest()
	return store.Retry(ctx, 0, func(int) error { // concurrent resets may deadlock on each other's index gaps
		return s.Tx(ctx, ReadCommitted, func(tx *Tx) error {
			// The buyers come before the row, as in a hold.
			if err := tx.exec(s.q.DeleteBuyers, product); err != nil {
				return err
			}
			// The row comes before the rest: every deduction under its lock has either committed by then, or comes after.
			run := newRun()
			err := tx.exec(s.q.Reset, product, stock, stock, segments, run, perBuyer, cmp.Or(rules.Late, ledger.LateRefund), way,
				longest/1000, extends)
			if err != nil {
				return err
			}
			// A cart's key is found through its orders, so the orders are deleted after it.
			for _, q := range []string{s.q.UnkeyCarts, s.q.DeleteCartKeys, s.q.DeleteKeys, s.q.DeleteOrders, s.q.DeleteReturns,
				s.q.DeleteAdjustments, s.q.DeleteReceived, s.q.DeleteReconciliations} {
				if err := tx.exec(q, product); err != nil {
					return err
				}
			}
			if err := tx.set(product, run, stock); err != nil {
				return err
			}
			for _, key := range locks {
				if err := tx.exec(s.q.DeleteLock, []byte(key)); err != nil {
					return err
				}
			}
			if rules.Units {
				if err := tx.makeUnits(product, run, 0, stock); err != nil {
					return err
				}
			}
			return tx.exec(s.q.UnitsOld, product, run)
		})
	})
}

// makeUnits makes units of a run, those after a number up to another, a thousand in a statement.
func (t *Tx) makeUnits(product, run, at, n int64) error {
	for at < n {
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

// set writes down that a run begins with so many units.
func (t *Tx) set(product, run, stock int64) error {
	now, err := ReservationTx{t}.now()
	if err == nil {
		err = t.exec(t.q.AdjustmentInsert, product, run, nil, stock, "", stock, stock, now)
	}
	return err
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
