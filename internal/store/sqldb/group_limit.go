package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// LimitedRow is the row of a product with a limit per buyer, locked, and what its buyers have.
type LimitedRow struct {
	Product, Run, Stock, PerBuyer int64
	Units                         map[string]int64 // by buyer
}

// ReadLimited locks the rows of some buyers and then that of the product, as holds do; nil = the product has no limit,
// and nothing is locked.
func (t *Tx) ReadLimited(product int64, buyers []string) (*LimitedRow, error) {
	p, err := t.sold(product)
	if err != nil || p.sold != ledger.PerBuyer {
		return nil, err
	}
	l := LimitedRow{Product: product, Run: p.run, PerBuyer: p.perBuyer.Int64, Units: map[string]int64{}}
	buyers = slices.Compact(slices.Sorted(slices.Values(buyers))) // in one order, so that batches do not deadlock
	for _, b := range buyers {
		if b == "" {
			continue
		}
		if err := t.exec(t.q.BuyerRow, product, l.Run, b); err != nil {
			return nil, err
		}
		var n int64
		if err := t.conn.QueryRowContext(t.ctx, t.q.BuyerHas, product, l.Run, b).Scan(&n); err != nil {
			return nil, statementError(err)
		}
		l.Units[b] = n
	}
	_, run, err := t.ReadLocked(product) // it says that the product is sold in another way, and locks it
	if !errors.Is(err, store.ErrOtherWay) {
		return nil, errors.Join(err, errOvertaken)
	}
	again, err := t.sold(product)
	if err == nil && (run != l.Run || again.run != run) {
		err = errOvertaken
	}
	l.Stock = again.stock
	return &l, err
}

// LimitReached is the refusal of a buyer's surplus.
func (l *LimitedRow) LimitReached(requested int64) error {
	return limitReached(l.Product, l.PerBuyer, requested)
}

// TakeLimited takes what a batch has sold from the row, and from its buyers.
func (t *Tx) TakeLimited(l *LimitedRow, sum int64, sold map[string]int64) error {
	for buyer, n := range sold {
		ok, err := t.affected(t.q.BuyerTake, n, l.Product, l.Run, buyer, n, l.PerBuyer)
		if err != nil {
			return err
		}
		if ok == 0 {
			return fmt.Errorf("%w: a limit changed under its lock", store.ErrConflict)
		}
	}
	_, ok, err := t.take(t.q.HoldTake, sum, l.Product, sum, l.Run)
	if err == nil && !ok {
		err = fmt.Errorf("%w: stock changed under its lock", store.ErrConflict)
	}
	return err
}

// Bought counts the units that a buyer has by the orders of the product's run, by a plain read, and reads the limit;
// 0 = none.
func (s *Store) Bought(ctx context.Context, buyer string, product int64) (units, limit int64, err error) {
	err = s.db.WithContext(ctx).Raw(s.q.BuyerBought, buyer, product).Row().Scan(&units, &limit)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: product}
	}
	return units, limit, statementError(err)
}
