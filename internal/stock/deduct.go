package stock

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/step"
	"lastitem/internal/store"
)

// settleTimeout bounds what comes after the first write. From there on a deduction no longer stops because its client has
// hung up: half of it done is worse than all of it unheard.
const settleTimeout = 10 * time.Second

func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
}

// settle sends one command of a deduction that has begun to write. Its time limit starts here. With one limit for all commands, a
// process that was stopped after the first would wake up too late to send the others, and the units would be lost.
func (d Deps) settle(ctx context.Context, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(d.Settle, settleTimeout))
	defer cancel()
	return send(ctx)
}

// appendOrder sends the order of units that are already deducted. If it fails the outcome is unknown: "nothing happened" would be false.
func (d Deps) appendOrder(ctx context.Context, o store.Order) error {
	err := d.settle(ctx, func(ctx context.Context) error { return d.Redis.Append(ctx, o) })
	if err != nil {
		return fmt.Errorf("%w: order %s not appended: %w", ErrUnknown, o.ID, err)
	}
	return nil
}

// newOrder makes the order of one item. remaining is nil where nobody knows it.
func (d Deps) newOrder(item Item, req Request, remaining *int64, fence uint64) (store.Order, error) {
	id, err := uuid.NewV7FromReader(unique{})
	if err != nil {
		return store.Order{}, fmt.Errorf("stock: order id: %w", err)
	}
	return store.Order{
		ID: id.String(), ProductID: item.ProductID, Quantity: item.Quantity, Remaining: remaining,
		Mode: d.mode, Replica: d.Replica, Key: req.Key, Fence: fence, CreatedMicros: time.Now().UnixMicro(),
	}, nil
}

// unique reads random bytes that need not be secret: asking the kernel for them would be a tenth of a deduction.
type unique struct{}

// Read fills p.
func (unique) Read(p []byte) (int, error) {
	for i := 0; i < len(p); i += 8 {
		var word [8]byte
		binary.NativeEndian.PutUint64(word[:], rand.Uint64()) //nolint:gosec // see above
		copy(p[i:], word[:])
	}
	return len(p), nil
}

func soldOut(item Item, available int64) error {
	return &SoldOutError{ProductID: item.ProductID, Requested: item.Quantity, Available: available}
}

// readCheckWrite is the deduction that trusts: it reads the count, compares, and writes what it computed, as if nobody
// else were there. On purpose: whether that holds is for the lock around it to see to, and for the judge to find out.
//
//	A reads 1 ── A writes 0                              A's order
//	     B reads 1 ─────────── B writes 0                          B's order: two orders, one unit
func (d Deps) readCheckWrite(ctx context.Context, req Request, fence uint64) (Receipt, error) {
	have := make([]int64, len(req.Items))
	for i, item := range req.Items {
		n, err := d.read(ctx, req.Store, item.ProductID)
		if err != nil {
			return Receipt{}, err
		}
		have[i] = n
	}
	return d.checkWrite(ctx, req, have, fence)
}

// checkWrite is what follows the read of each item.
func (d Deps) checkWrite(ctx context.Context, req Request, have []int64, fence uint64) (Receipt, error) {
	d.Steps.At(ctx, step.Read, "")
	for i, item := range req.Items {
		if have[i] < item.Quantity {
			return Receipt{}, soldOut(item, have[i])
		}
		have[i] -= item.Quantity
	}
	orders, err := d.newOrders(req, have, fence)
	if err != nil {
		return Receipt{}, err
	}
	if req.Store == SQL {
		err = d.writeSQL(ctx, orders...)
	} else {
		err = d.writeRedis(ctx, orders...)
	}
	if err != nil {
		return Receipt{}, err
	}
	return receiptOf(orders), nil
}

func (d Deps) read(ctx context.Context, s Store, product int64) (int64, error) {
	if s == SQL {
		row, err := d.SQL.Read(ctx, product)
		return row.Stock, err
	}
	return d.Redis.Read(ctx, product)
}

// writeRedis writes what remains of each item and then appends the orders: commands of their own, and a crash between them
// leaks the units.
func (d Deps) writeRedis(ctx context.Context, orders ...store.Order) error {
	if err := begin(ctx); err != nil {
		return err
	}
	for i, o := range orders {
		err := d.settle(ctx, func(ctx context.Context) error { return d.Redis.Set(ctx, o.ProductID, *o.Remaining) })
		if err != nil && i > 0 { // the counts before it are written: "nothing happened" would be false
			err = fmt.Errorf("%w: product %d not written: %w", ErrUnknown, o.ProductID, err)
		}
		if err != nil {
			return err
		}
	}
	d.Steps.At(ctx, step.Written, "")
	for _, o := range orders {
		if err := d.appendOrder(ctx, o); err != nil {
			return err
		}
	}
	d.Steps.At(ctx, step.Ordered, "")
	return nil
}

// writeSQL writes what remains of each item, and the orders, in one transaction.
func (d Deps) writeSQL(ctx context.Context, orders ...store.Order) error {
	return d.withOrders(ctx, orders, func(tx *store.Tx) error {
		for _, o := range orders {
			if err := tx.Set(o.ProductID, *o.Remaining); err != nil {
				return err
			}
		}
		return nil
	})
}

// withOrder runs a write of the count and inserts the order, in one transaction.
func (d Deps) withOrder(ctx context.Context, o store.Order, write func(*store.Tx) error) error {
	return d.withOrders(ctx, []store.Order{o}, write)
}

// withOrders does that for the order of a cart.
func (d Deps) withOrders(ctx context.Context, orders []store.Order, write func(*store.Tx) error) error {
	ctx, cancel := settling(ctx)
	defer cancel()
	err := d.SQL.Tx(ctx, store.ReadCommitted, func(tx *store.Tx) error {
		if err := write(tx); err != nil {
			return err
		}
		d.Steps.At(ctx, step.Written, "")
		if err := insertAll(tx, orders); err != nil {
			return err
		}
		d.Steps.At(ctx, step.Ordered, "")
		return begin(ctx)
	})
	if err == nil {
		d.Steps.At(ctx, step.Committed, "")
	}
	return err
}

// locked is a lock mode: a locker around readCheckWrite.
type locked struct {
	deps   Deps
	locker lock.Locker
}

// Deduct takes the lock of the product, deducts, and releases.
func (l locked) Deduct(ctx context.Context, req Request) (Receipt, error) {
	lease, err := l.locker.Acquire(lock.WithWait(ctx, req.Wait), l.deps.lockKey(req.Items[0].ProductID))
	if err != nil {
		return Receipt{}, err
	}
	defer l.deps.release(ctx, lease)
	// The request's context, not the lease's: these modes trust their lock, and do not look whether they still have it.
	return l.deps.readCheckWrite(ctx, req, lease.Fence())
}

// release gives a lease up. What the deduction did stands whether or not that succeeds, so it is logged and no more.
func (d Deps) release(ctx context.Context, lease lock.Lease) {
	if err := lease.Release(ctx); err != nil && d.Log != nil {
		d.Log.WarnContext(ctx, "release", "err", err)
	}
}

// lockKey names the mode's lock of a product.
func (d Deps) lockKey(product int64) string { return d.lockKeyOf(d.mode, product) }

// lockKeyOf names the lock of a product by another mode. Each mode has its own: the keys differ in type.
func (d Deps) lockKeyOf(mode string, product int64) string {
	return fmt.Sprintf("%slock:%s:{%d}", d.Prefix, mode, product)
}

// lockKeys lists the lock keys that may exist for a product with so many segments, for a reset to delete.
func lockKeys(d Deps, product int64, segments int) []string {
	var keys []string
	for _, m := range Modes() {
		keys = append(keys, keysOfLock(d.lockKeyOf(m.Name, product))...)
	}
	for i := range max(segments, 1) { // one that is not split is one segment
		keys = append(keys, keysOfLock(d.segmentLockKey(product, i))...)
	}
	return keys
}

// keysOfLock lists a lock's key, and what the engine keeps beside it. The fencing counter stays: it must never go back.
func keysOfLock(key string) []string {
	k := handoff.KeysOf(key)
	return []string{k.Lock, k.Queue, k.LastReleaser, k.Readers}
}
