package stock

import (
	"context"

	"lastitem/contract/ledger"
	"lastitem/internal/step"
	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
)

// sqlVersion is the optimistic lock: it reads the row and its version, computes, and writes only if the version is
// unchanged. No request waits; an overtaken one has changed nothing, and begins again.
//
//	A   SELECT 5, v7 ─────────────────────────── UPDATE = 4 WHERE version = 7: no row ── SELECT 4, v8 ── UPDATE = 3, v9 ── order
//	B        SELECT 5, v7 ── UPDATE = 4, v8 ── order
var sqlVersion = Mode{
	Name:          "sql-version",
	Title:         text.Of("Optimistic: UPDATE ... WHERE version = ?, bounded retries"),
	Needs:         []Backend{NeedSQL},
	Stores:        []Store{SQL},
	RefusedByRead: true,
	Adjusts:       true,
	Claims: map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: "–", Late: "–", Pause: ".", Crash: ".", Failover: "–", Stale: ".",
			Retry: "D", LateWrite: "."},
	},
	New: func(d Deps) (Deductor, error) {
		return optimistic{d, func(tx *sqldb.Tx, o ledger.Order, read sqldb.Row) (bool, error) {
			return tx.SetVersion(o.ProductID, *o.Remaining, read.Version)
		}}, nil
	},
}

// optimistic reads, computes, and writes if the row is unchanged.
type optimistic struct {
	deps  Deps
	write func(tx *sqldb.Tx, o ledger.Order, read sqldb.Row) (ok bool, err error)
}

// Deduct is one round. After errOvertaken package shop begins the next one.
func (o optimistic) Deduct(ctx context.Context, req Request) (Receipt, error) {
	d, item := o.deps, req.Items[0]
	row, err := d.SQL.Read(ctx, item.ProductID)
	if err != nil {
		return Receipt{}, err
	}
	d.Steps.At(ctx, step.Read, "")
	if row.Stock < item.Quantity {
		return Receipt{}, d.short(ctx, item)
	}
	remaining := row.Stock - item.Quantity
	order, err := d.Orders.New(req, &remaining, 0)
	if err != nil {
		return Receipt{}, err
	}
	err = d.Orders.InTx(ctx, order, func(tx *sqldb.Tx) error {
		ok, err := o.write(tx, order, row)
		if err == nil && !ok {
			err = errOvertaken
		}
		return err
	})
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{OrderID: order.ID, Remaining: &remaining}, nil
}
