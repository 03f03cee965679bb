package stock

import (
	"context"
	"fmt"

	"lastitem/contract/ledger"
	"lastitem/internal/lock"
	"lastitem/internal/step"
	"lastitem/internal/store/sqldb"
)

// trusting is the deduction that relies on its lock: it reads the count, compares, and writes the computed count
// without a condition. That is deliberate: exclusion is the lock's task, and the judge shows whether the lock has
// fulfilled it.
//
//	A reads 1 ── A writes 0                              A's order
//	     B reads 1 ─────────── B writes 0                          B's order: two orders, one unit
type trusting struct{ deps Deps }

// Deduct reads, checks and writes without any lock.
func (t trusting) Deduct(ctx context.Context, req Request) (Receipt, error) {
	return t.readCheckWrite(ctx, req, 0)
}

func (t trusting) readCheckWrite(ctx context.Context, req Request, fence uint64) (Receipt, error) {
	have := make([]int64, len(req.Items))
	for i, item := range req.Items {
		n, err := t.read(ctx, req.Store, item.ProductID)
		if err != nil {
			return Receipt{}, err
		}
		have[i] = n
	}
	return t.checkWrite(ctx, req, have, fence)
}

func (t trusting) read(ctx context.Context, s Store, product int64) (int64, error) {
	if s == SQL {
		row, err := t.deps.SQL.Read(ctx, product)
		return row.Stock, err
	}
	return t.deps.Redis.Read(ctx, product)
}

// checkWrite checks and writes after every item was read.
func (t trusting) checkWrite(ctx context.Context, req Request, have []int64, fence uint64) (Receipt, error) {
	d := t.deps
	d.Steps.At(ctx, step.Read, "")
	for i, item := range req.Items {
		if have[i] < item.Quantity {
			return Receipt{}, soldOut(item, have[i])
		}
		have[i] -= item.Quantity
	}
	if err := req.work(ctx); err != nil {
		return Receipt{}, err
	}
	orders, err := d.Orders.Cart(req, have, fence)
	if err != nil {
		return Receipt{}, err
	}
	if req.Store == SQL {
		err = d.Orders.CartInTx(ctx, orders, func(tx *sqldb.Tx) error { return setAll(tx, orders) })
	} else {
		err = t.writeRedis(ctx, orders)
	}
	if err != nil {
		return Receipt{}, err
	}
	return receiptOf(orders), nil
}

// setAll writes the remaining count of each item.
func setAll(tx *sqldb.Tx, orders []ledger.Order) error {
	for _, o := range orders {
		if err := tx.Set(o.ProductID, *o.Remaining); err != nil {
			return err
		}
	}
	return nil
}

// writeRedis writes the remaining count of each item and then appends the orders. These are separate commands: a crash
// between them leaks the units.
func (t trusting) writeRedis(ctx context.Context, orders []ledger.Order) error {
	d := t.deps
	if err := Begin(ctx); err != nil {
		return err
	}
	for i, o := range orders {
		orders[i].Way = ledger.Absolutely
		set := d.Redis.Set
		if i > 0 {
			set = d.Redis.FinishSet
		}
		err := Settle(ctx, func(ctx context.Context) error { return set(ctx, o.ProductID, *o.Remaining) })
		if err != nil && i > 0 { // the counts before it are written: "nothing happened" would be false
			err = fmt.Errorf("%w: product %d not written: %w", ErrUnknown, o.ProductID, err)
		}
		if err != nil {
			return err
		}
	}
	d.Steps.At(ctx, step.Written, "")
	for _, o := range orders {
		if err := d.Orders.Append(ctx, o); err != nil {
			return err
		}
	}
	d.Steps.At(ctx, step.Ordered, "")
	return nil
}

// locked is a lock mode: a locker around the deduction that trusts.
type locked struct {
	deps   Deps
	locker lock.Locker
}

// Deduct takes the lock of the product, deducts, and releases.
func (l locked) Deduct(ctx context.Context, req Request) (Receipt, error) {
	d := l.deps
	lease, err := req.acquireKey(ctx, l.locker, d.Locks.Key(req.Items[0].ProductID))
	if err != nil {
		return Receipt{}, err
	}
	defer d.Locks.Release(ctx, lease)
	// The request's context, not the lease's: these modes do not check whether they still hold the lock.
	return trusting{d}.readCheckWrite(ctx, req, lease.Fence())
}
