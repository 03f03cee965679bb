package stock

import (
	"context"

	"lastitem/internal/lock"
	"lastitem/internal/step"
	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
)

// mutexInTx takes its lock inside the transaction, and gives it back before COMMIT: what @Transactional on a
// synchronized method does, or a deferred unlock inside db.Transaction. Between unlock and COMMIT the next holder reads
// the old stock.
//
//	A   BEGIN ── lock ── SELECT 1 ── UPDATE = 0 ── order ── unlock ───────────────────── COMMIT
//	B   BEGIN ── lock: waits ······························· SELECT 1 ── UPDATE (waits for A's row) ······ = 0 ── order ── ...
var mutexInTx = Mode{
	Name:   "mutex-in-tx",
	Title:  text.Of("A mutex inside the transaction: unlocked before COMMIT"),
	Needs:  []Backend{NeedMySQL},
	Stores: []Store{SQL},
	Holds:  holdsWork,
	Claims: map[Store]Claims{SQL: {Threads: "O"}},
	New: func(d Deps) (Deductor, error) {
		return lockedInTx{d, lock.NewMutex(d.Steps)}, nil
	},
}

// lockedInTx is a lock mode whose lock lies inside its transaction.
type lockedInTx struct {
	deps   Deps
	locker lock.Locker
}

func (l lockedInTx) Deduct(ctx context.Context, req Request) (r Receipt, err error) {
	d := l.deps
	// The transaction does not end when the client hangs up: a rollback would go unreported.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), req.Wait+req.Hold.Work+SettleTimeout)
	defer cancel()
	err = d.SQL.Tx(whole, sqldb.ReadCommitted, func(tx *sqldb.Tx) error { // BEGIN
		lease, err := req.acquireKey(ctx, l.locker, d.Locks.Key(req.Items[0].ProductID))
		if err != nil {
			return err
		}
		defer d.Locks.Release(whole, lease) // the mistake: this runs when the function returns, and COMMIT comes after it
		r, err = l.take(whole, tx, req)
		return err
	}) // COMMIT
	if err != nil {
		return Receipt{}, err
	}
	d.Steps.At(whole, step.Committed, "")
	return r, nil
}

// take does the unguarded read-check-write and inserts the order, in the transaction. READ COMMITTED sees only rows
// that other transactions have committed.
func (l lockedInTx) take(ctx context.Context, tx *sqldb.Tx, req Request) (Receipt, error) {
	d, item := l.deps, req.Items[0]
	row, err := tx.Read(item.ProductID)
	if err != nil {
		return Receipt{}, err
	}
	d.Steps.At(ctx, step.Read, "")
	if row.Stock < item.Quantity {
		return Receipt{}, soldOut(item, row.Stock)
	}
	if err := req.work(ctx); err != nil {
		return Receipt{}, err
	}
	remaining := row.Stock - item.Quantity
	order, err := d.Orders.New(req, &remaining, 0)
	if err != nil {
		return Receipt{}, err
	}
	if err := tx.Set(item.ProductID, remaining); err != nil {
		return Receipt{}, err
	}
	d.Steps.At(ctx, step.Written, "")
	if err := tx.InsertOrder(order); err != nil {
		return Receipt{}, err
	}
	d.Steps.At(ctx, step.Ordered, "")
	return Receipt{OrderID: order.ID, Remaining: &remaining}, Begin(ctx)
}
