package stock

import (
	"context"

	"lastitem/internal/lock"
	"lastitem/internal/step"
	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
)

// leaseSeq does not trust its lock: the write itself asks whether anybody has written since the read. The lock only
// keeps rivals from wasting each other's work, so losing it only costs a retry, and while Redis is out nobody waits for
// it.
//
//	A   lock ── read seq 7 ──────── (lease lost) ─────────────────── UPDATE ... WHERE lease_seq = 7: no row, nothing happened
//	B                                  lock ── read seq 7 ── UPDATE ... seq 8 ── order ── commit
var leaseSeq = Mode{
	Name:          "lease-seq",
	Title:         text.Of("Lock, then UPDATE ... WHERE lease_seq = ? and the order, one transaction"),
	Needs:         []Backend{NeedRedis, NeedSQL},
	Optional:      []Backend{NeedRedis},
	Stores:        []Store{SQL},
	RefusedByRead: true,
	Holds:         holdsAll,
	Adjusts:       true,
	Claims: map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: ".", Late: ".", Pause: ".", Crash: ".", Failover: ".", Stale: ".",
			Retry: "D", LateWrite: "."},
	},
	New: func(d Deps) (Deductor, error) {
		l, _ := d.Lockers.handoff() // without an engine, nothing is ever locked
		return leaseSeqDeductor{d, l}, nil
	},
}

type leaseSeqDeductor struct {
	deps   Deps
	locker lock.Locker
}

func (l leaseSeqDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	d, item := l.deps, req.Items[0]
	lease, err := d.Optional(ctx, func(ctx context.Context) (lock.Lease, error) {
		return req.acquireKey(ctx, l.locker, d.Locks.Key(item.ProductID))
	})
	if err != nil {
		return Receipt{}, err
	}
	defer d.Locks.Release(ctx, lease)

	row, err := d.SQL.Read(ctx, item.ProductID)
	if err != nil {
		return Receipt{}, err
	}
	d.Steps.At(ctx, step.Read, "")
	if row.Stock < item.Quantity {
		return Receipt{}, d.short(ctx, item)
	}
	if err := req.work(ctx); err != nil {
		return Receipt{}, err
	}
	remaining := row.Stock - item.Quantity
	order, err := d.Orders.New(req, &remaining, row.LeaseSeq+1)
	if err != nil {
		return Receipt{}, err
	}
	// The guard stands in the statement that writes: a check before it, in Go, would be stale by the time of the write.
	err = d.Orders.InTx(ctx, order, func(tx *sqldb.Tx) error {
		ok, err := tx.TakeAt(item.ProductID, item.Quantity, row.LeaseSeq)
		if err == nil && !ok { // affected rows 0: somebody wrote since the read
			err = errOvertaken
		}
		return err
	})
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{OrderID: order.ID, Remaining: &remaining, Fence: order.Fence}, nil
}
