package stock

import (
	"context"

	"lastitem/internal/lock"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/step"
	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
)

// fencing gives every hold of the lock a number, higher than all before it, and the row refuses a write whose number is
// lower than the highest one it has seen. That is how fencing tokens are commonly described. The gap: reads do not
// present a token, so a stale holder that writes before its successor still has the highest number.
//
//	A   lock 33 ── read 1 ──── (TTL over) ─────────────── write 0 as 33: 33 is the highest yet
//	B                              lock 34 ── read 1 ───────────── write 0 as 34: two orders, one unit
var fencing = Mode{
	Name:    "fencing",
	Title:   text.Of("A monotonic fencing token, checked on write only"),
	Needs:   []Backend{NeedRedis, NeedSQL},
	Stores:  []Store{SQL},
	Holds:   holdsLease,
	Counter: true,
	Claims:  map[Store]Claims{SQL: expiringLock[SQL]},
	New: func(d Deps) (Deductor, error) {
		return fenced(d, func(ctx context.Context, product int64, _ uint64) (sqldb.Row, bool, error) {
			row, err := d.SQL.Read(ctx, product)
			return row, true, err
		}), nil
	},
}

// fencedDeductor is read, check, write under a lock that issues tokens and is not renewed. The three fencing modes
// differ in how they read.
type fencedDeductor struct {
	deps   Deps
	locker lock.Locker
	read   fencedRead
}

// fencedRead reads the row of a product with a token; ok is false when the row refuses the token.
type fencedRead func(ctx context.Context, product int64, fence uint64) (row sqldb.Row, ok bool, err error)

func fenced(d Deps, read fencedRead) Deductor {
	return fencedDeductor{d, textbook.NewLuaFenced(d.Lockers.Client, d.Lockers.TTL, d.Steps), read}
}

func (f fencedDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	d, item := f.deps, req.Items[0]
	// The three fencing modes share one lock: the row has one fence, so its tokens must come from one counter.
	lease, err := req.acquireKey(ctx, f.locker, d.Locks.KeyOf("fencing", item.ProductID))
	if err != nil {
		return Receipt{}, err
	}
	defer d.Locks.Release(ctx, lease)

	row, ok, err := f.read(ctx, item.ProductID, lease.Fence())
	if err != nil {
		return Receipt{}, err
	}
	if !ok {
		return Receipt{}, ErrContended
	}
	d.Steps.At(ctx, step.Read, "")
	if row.Stock < item.Quantity {
		return Receipt{}, soldOut(item, row.Stock)
	}
	if err := req.work(ctx); err != nil {
		return Receipt{}, err
	}
	remaining := row.Stock - item.Quantity
	order, err := d.Orders.New(req, &remaining, lease.Fence())
	if err != nil {
		return Receipt{}, err
	}
	// In the statement that writes: a comparison in Go would be one more "is it still mine?", as in lock-then-check.
	err = d.Orders.InTx(ctx, order, func(tx *sqldb.Tx) error {
		ok, err := tx.SetFenced(item.ProductID, remaining, lease.Fence())
		if err == nil && !ok { // affected rows 0: the row has seen a higher token
			err = ErrContended
		}
		return err
	})
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{OrderID: order.ID, Remaining: &remaining, Fence: lease.Fence()}, nil
}
