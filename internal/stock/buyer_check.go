package stock

import (
	"context"

	"lastitem/contract/ledger"
	"lastitem/internal/step"
	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
)

// buyerCheck keeps to a limit per buyer as most code does: it counts what the buyer has ordered, compares, and then
// sells as sql-atomic does. The stock is safe, the limit is not: of two clicks neither sees the order of the other.
//
//	A   SELECT SUM(quantity) of ann: 0 of 1 ── UPDATE stock - 1 ── INSERT order of ann ── COMMIT
//	B      SELECT SUM(quantity) of ann: 0 of 1 ── UPDATE stock - 1 ── INSERT order of ann ── COMMIT     ann has 2
var buyerCheck = Mode{
	Name:     "buyer-check",
	Title:    text.Of("limit per buyer: count the buyer's orders, compare, then deduct as sql-atomic does"),
	Needs:    []Backend{NeedSQL},
	Stores:   []Store{SQL},
	PerBuyer: true,
	Way:      &byUncounted,
	Adjusts:  true,
	Claims:   map[Store]Claims{SQL: {Threads: "B"}},
	New:      func(d Deps) (Deductor, error) { return buyerCheckDeductor{d}, nil },
}

var byUncounted = sqldb.Way{Act: ledger.Reserve, Take: takeOfRun, Give: giveToRun, Unlimited: true}

type buyerCheckDeductor struct{ deps Deps }

func (b buyerCheckDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	item := req.Items[0]
	if req.Buyer != "" {
		has, most, err := b.deps.SQL.Bought(ctx, req.Buyer, item.ProductID)
		if err != nil {
			return Receipt{}, err
		}
		b.deps.Steps.At(ctx, step.Read, "")
		if most > 0 && has+item.Quantity > most {
			return Receipt{}, &ledger.ShortError{Err: ErrLimit, ProductID: item.ProductID, Requested: item.Quantity,
				Available: most}
		}
	}
	row, err := b.deps.Orders.New(req, new(int64), 0) // what is left is filled in by the update
	if err != nil {
		return Receipt{}, err
	}
	row.Buyer = req.Buyer
	err = b.deps.Orders.InTx(ctx, row, func(tx *sqldb.Tx) error {
		// no row counts for the limit
		left, _, err := sqldb.ReservationTx{Tx: tx}.TakeBy(byUncounted, row.ID, "", item.ProductID, item.Quantity)
		if err == nil {
			*row.Remaining = *left
		}
		return shortage(err)
	})
	if err != nil {
		return Receipt{}, err
	}
	return receiptOf([]ledger.Order{row}), nil
}
