package stock

import (
	"context"
	"errors"

	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
)

// sqlAtomic asks and takes in one statement: stock = stock - n WHERE stock >= n, and the order in the same transaction.
// There is no read to be outdated, so there is nothing to lock; the database queues the writers of a row by itself.
//
//	A   BEGIN ── UPDATE - 1 WHERE stock >= 1: one row ── order ── COMMIT
//	B   BEGIN ── UPDATE - 1 WHERE stock >= 1: waits ············· no row: sold out ── ROLLBACK
var sqlAtomic = Mode{
	Name:          "sql-atomic",
	Title:         text.Of("stock = stock - ? WHERE stock >= ?, and the order, one transaction"),
	Needs:         []Backend{NeedSQL},
	Stores:        []Store{SQL},
	RefusedByRead: true,
	Cart:          true,
	Adjusts:       true,
	Claims:        oneTransaction,
	New:           func(d Deps) (Deductor, error) { return sqlAtomicDeductor{d}, nil },
}

type sqlAtomicDeductor struct{ deps Deps }

func (s sqlAtomicDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	remaining := make([]int64, len(req.Items)) // filled in by the update, before the order is inserted
	orders, err := s.deps.Orders.Cart(req, remaining, 0)
	if err != nil {
		return Receipt{}, err
	}
	err = s.deps.Orders.CartInTx(ctx, orders, func(tx *sqldb.Tx) error {
		left, short, err := takeAll(tx, req.Items) // sorted by product in check: carts do not deadlock
		if err != nil {
			return err
		}
		copy(remaining, left)
		return short // no row changed: unless this is checked, it looks like a sale
	})
	if err != nil {
		return Receipt{}, err
	}
	return receiptOf(orders), nil
}

// takeAll is the conditional update of each item. short is the refusal for the first item with too little stock; the
// caller rolls back the items taken before it.
func takeAll(tx *sqldb.Tx, items []Item) (remaining []int64, short, err error) {
	for _, item := range items {
		left, ok, err := tx.Take(item.ProductID, item.Quantity)
		if err != nil {
			return nil, nil, err
		}
		if !ok { // too little, or no such product, or a segmented one: Read tells the last two
			row, err := tx.Read(item.ProductID)
			if err != nil {
				return nil, nil, err
			}
			return nil, soldOut(item, row.Stock), nil
		}
		remaining = append(remaining, left)
	}
	return remaining, nil, nil
}

// takeLimited takes the items anew where takeAll has returned unsupported, because one of them has a limit per buyer:
// its units come from the limit first. A buyer who has too many gets an error, so that the key is free for a later try.
// After a refusal the caller goes back to the savepoint.
func takeLimited(tx *sqldb.Tx, req Request, unsupported error) (remaining []int64, short, err error) {
	back := tx.RollbackToSavepoint
	if len(req.Items) == 1 {
		back = tx.Savepoint
	}
	if err := back(); err != nil {
		return nil, nil, err
	}
	for _, item := range req.Items {
		left, short, err := takeAll(tx, []Item{item})
		if errors.Is(err, ErrOtherWay) {
			var n *int64
			n, _, err = sqldb.ReservationTx{Tx: tx}.TakeBy(byCounter, "", req.Buyer, item.ProductID, item.Quantity)
			switch err = shortage(err); {
			case errors.Is(err, ErrSoldOut):
				return nil, err, nil
			case errors.Is(err, ErrReservationUnsupported): // it has rows per unit, or no counter
				return nil, nil, unsupported
			case err == nil:
				left = []int64{*n}
			}
		}
		if err != nil || short != nil {
			return nil, short, err
		}
		remaining = append(remaining, left...)
	}
	return remaining, nil, nil
}
