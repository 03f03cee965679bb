package shop

import (
	"errors"
	"fmt"

	"lastitem/internal/stock"
	"lastitem/internal/store"
	"lastitem/internal/store/sqldb"
)

// errLimited says that the product may have a limit per buyer: the transaction is tried again, and then locks the
// buyers' rows before the product's, in the order of all transactions. The products are remembered, so that others do
// not pay.
var errLimited = fmt.Errorf("%w: the product may have a limit per buyer", store.ErrConflict)

// takeAny is take, or takeLimited if the product has a limit; then it returns its row. Requests from a log have no
// buyer: take refuses theirs.
func (g groupCommit) takeAny(tx *sqldb.Tx, product int64, batch []*stock.Ticket) (*sqldb.LimitedRow, error) {
	_, known := g.limits.Load(product)
	if known && batch[0].Run == 0 {
		if l, err := takeLimited(tx, product, batch); l != nil || err != nil {
			return l, err
		}
		g.limits.Delete(product)
	}
	err := g.take(tx, product, batch)
	if errors.Is(err, store.ErrOtherWay) && !known && batch[0].Run == 0 {
		g.limits.Store(product, nil)
		err = errLimited
	}
	return nil, err
}

// takeLimited is take for a product that may have a limit; nil = it has none, and nothing was done. A surplus is
// refused before the write, in the order of the batch, and leaves the units to those after it.
func takeLimited(tx *sqldb.Tx, product int64, batch []*stock.Ticket) (*sqldb.LimitedRow, error) {
	buyers := make([]string, len(batch))
	for i, t := range batch {
		buyers[i] = t.Order.Buyer
	}
	l, err := tx.ReadLimited(product, buyers)
	if err != nil || l == nil {
		return nil, err
	}
	left, sold := l.Stock, map[string]int64{}
	for _, t := range ofRun(batch, l.Run, 0) {
		o := &t.Order
		if o.Buyer != "" && l.Units[o.Buyer]+sold[o.Buyer]+o.Quantity > l.PerBuyer {
			t.Receipt, o.Remaining = stock.Receipt{}, nil
			t.Err = l.LimitReached(o.Quantity)
			continue
		}
		if left = serve([]*stock.Ticket{t}, left); t.Err == nil && o.Buyer != "" {
			sold[o.Buyer] += o.Quantity
		}
	}
	if left == l.Stock {
		return l, nil
	}
	return l, tx.TakeLimited(l, l.Stock-left, sold)
}

// bought writes the buyers on the orders of a product with a limit, so that a return gives them room.
func bought(tx *sqldb.Tx, l *sqldb.LimitedRow, batch []*stock.Ticket) error {
	for _, t := range batch {
		if l == nil || t.Err != nil || t.Order.Buyer == "" {
			continue
		}
		if err := tx.BoughtBy(t.Order.Buyer, t.Order.ID, l.Product, l.Run); err != nil {
			return err
		}
	}
	return nil
}

// replayLimited answers those whom the limit has refused although their key has an answer: a refusal for now is not
// kept, so nothing has shown that the key was taken. Whoever took the buyer's units had committed by then.
func (g groupCommit) replayLimited(product int64, batch []*stock.Ticket) {
	var refused []*stock.Ticket
	for _, t := range batch {
		if len(t.Order.Key) > 0 && errors.Is(t.Err, store.ErrLimit) {
			refused = append(refused, t)
		}
	}
	if len(refused) > 0 {
		g.replayTaken(product, refused)
	}
}
