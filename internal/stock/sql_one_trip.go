package stock

import (
	"context"

	"lastitem/internal/step"
	"lastitem/say/text"
)

// sqlOneTrip sends the whole deduction of sql-atomic in one packet. The row is locked from the UPDATE to the COMMIT,
// and between the two lies no round trip of the client: with the server a millisecond away, sql-atomic can sell one
// unit of a product every three milliseconds, and this as many as the server can commit.
//
//	A   [UPDATE - 1 WHERE stock >= 1; INSERT order WHERE ROW_COUNT() = 1; COMMIT] ──── one row, OK
//	B       [UPDATE - 1 WHERE stock >= 1; INSERT order WHERE ROW_COUNT() = 1; COMMIT] ──── no row: sold out
var sqlOneTrip = Mode{
	Name:          "sql-one-trip",
	Title:         text.Of("sql-atomic in one packet: UPDATE, INSERT if it took a row, COMMIT"),
	Needs:         []Backend{NeedMySQL},
	Stores:        []Store{SQL},
	RefusedByRead: true,
	Adjusts:       true,
	Claims:        oneTransaction,
	New:           func(d Deps) (Deductor, error) { return sqlOneTripDeductor{d}, nil },
}

type sqlOneTripDeductor struct{ deps Deps }

// Deduct sends the packet. After errOvertaken package shop sends it again.
func (s sqlOneTripDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	d, item := s.deps, req.Items[0]
	order, err := d.Orders.New(req, nil, 0)
	if err != nil {
		return Receipt{}, err
	}
	if err := Begin(ctx); err != nil { // the packet has no place to ask again
		return Receipt{}, err
	}
	var remaining int64
	var sold bool
	err = Settle(ctx, func(ctx context.Context) error {
		remaining, sold, err = d.SQL.SellInOneTrip(ctx, order)
		return err
	})
	if err != nil {
		return Receipt{}, err
	}
	if !sold {
		return Receipt{}, d.short(ctx, item)
	}
	for _, at := range []step.Point{step.Written, step.Ordered, step.Committed} {
		d.Steps.At(ctx, at, "")
	}
	return Receipt{OrderID: order.ID, Remaining: &remaining}, nil
}
