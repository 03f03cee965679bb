package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/step"
	"lastitem/internal/store"
	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
)

// sqlForUpdate locks the row with its read: other transactions wait at their SELECT, and then read the committed stock.
// The lock ends with the transaction, however that ends: nothing can expire, and nothing must be released.
//
//	A   BEGIN ── SELECT ... FOR UPDATE 1 ── UPDATE = 0 ── order ── COMMIT
//	B   BEGIN ── SELECT ... FOR UPDATE: waits ······················· 0 ── sold out
var sqlForUpdate = Mode{
	Name:          "sql-for-update",
	Title:         text.Of("SELECT ... FOR UPDATE, UPDATE and the order, one transaction"),
	Needs:         []Backend{NeedMySQL},
	Stores:        []Store{SQL},
	RefusedByRead: true,
	Holds:         holdsWork,
	Cart:          true,
	Claims:        oneTransaction,
	New:           func(d Deps) (Deductor, error) { return sqlForUpdateDeductor{d}, nil },
}

type sqlForUpdateDeductor struct{ deps Deps }

func (s sqlForUpdateDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	d := s.deps
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), req.Wait+req.Hold.Work+SettleTimeout)
	defer cancel()
	deadline := time.Now().Add(req.Wait) // of all rows together, and of a connection of the pool
	locked := 0
	defer func() { // COMMIT and ROLLBACK are the release
		for _, item := range req.Items[:locked] {
			key := d.Locks.Key(item.ProductID)
			d.Steps.At(whole, step.Releasing, key)
			d.Steps.At(whole, step.Released, key)
		}
	}()
	var orders []ledger.Order
	err := d.SQL.Tx(whole, sqldb.ReadCommitted, func(tx *sqldb.Tx) error {
		remaining := make([]int64, len(req.Items))
		for i, item := range req.Items { // sorted by product in check: carts do not deadlock
			row, err := s.lock(ctx, tx, item.ProductID, time.Until(deadline))
			if err != nil {
				return err
			}
			locked++
			remaining[i] = row.Stock - item.Quantity
		}
		d.Steps.At(whole, step.Read, "")
		for i, item := range req.Items {
			if remaining[i] < 0 {
				return soldOut(item, remaining[i]+item.Quantity)
			}
		}
		err := req.work(ctx)
		if err != nil {
			return err
		}
		if orders, err = d.Orders.Cart(req, remaining, 0); err != nil {
			return err
		}
		return s.write(whole, tx, orders)
	})
	if err != nil {
		return Receipt{}, err
	}
	d.Steps.At(whole, step.Committed, "")
	return receiptOf(orders), nil
}

// lock reads a row and keeps it locked. If the client hangs up, the wait ends.
func (s sqlForUpdateDeductor) lock(ctx context.Context, tx *sqldb.Tx, product int64, wait time.Duration) (sqldb.Row,
	error) {
	key := s.deps.Locks.Key(product)
	s.deps.Steps.At(ctx, step.Waiting, key)
	row, err := tx.ReadForUpdate(ctx, product, max(0, wait))
	if errors.Is(err, store.ErrRowBusy) {
		err = fmt.Errorf("%w: %w", ErrLockBusy, err)
	}
	if err == nil {
		s.deps.Steps.At(ctx, step.Locked, key)
	}
	return row, err
}

// write writes the remaining counts and the order. The rows are locked, so nobody can have written them since they were
// read.
func (s sqlForUpdateDeductor) write(ctx context.Context, tx *sqldb.Tx, orders []ledger.Order) error {
	for _, o := range orders {
		if err := tx.Set(o.ProductID, *o.Remaining); err != nil {
			return err
		}
	}
	s.deps.Steps.At(ctx, step.Written, "")
	if err := insertAll(tx, orders); err != nil {
		return err
	}
	s.deps.Steps.At(ctx, step.Ordered, "")
	return Begin(ctx)
}
