package stock

import (
	"context"
	"errors"
	"fmt"

	"lastitem/contract/ledger"
	"lastitem/internal/lock/coord"
	"lastitem/internal/step"
	"lastitem/say/text"
)

// etcdTxn is the one lock mode that need not trust its lock, because the lock and the stock live in one store: the
// write says "if the key of my lock is still the one that I created", and etcd decides that in the transaction that
// writes. If the lease has ended unnoticed, the request is retried; nothing else is lost.
//
//	A   lock (rev 70) ── GET 1 ── SIGSTOP ··· (lease expired) ··· SIGCONT ── IF lock = rev 70 THEN stock 0, order: refused
//	B       lock (rev 71) ─────────── GET 1 ── IF lock = rev 71 THEN stock 0, order: done
var etcdTxn = Mode{
	Name:    "etcd-txn",
	Title:   text.Of("etcd lock; stock and order in one etcd transaction that asks for ownership"),
	Needs:   []Backend{NeedEtcd},
	Stores:  []Store{Etcd},
	Holds:   holdsWork,
	Adjusts: true,
	Claims: map[Store]Claims{
		Etcd: {Threads: ".", Replicas: ".", Slow: ".", Late: ".", Pause: ".", Crash: ".", Failover: "–", Retry: "D",
			LateWrite: "."},
	},
	New: func(d Deps) (Deductor, error) {
		if d.Etcd == nil {
			return nil, errors.New("no stock in etcd: Deps has no Etcd")
		}
		return etcdTxnDeductor{d}, nil
	},
}

type etcdTxnDeductor struct{ deps Deps }

func (e etcdTxnDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	d, item := e.deps, req.Items[0]
	held, err := req.acquireKey(ctx, d.Lockers.Etcd, d.Locks.Key(item.ProductID))
	if err != nil {
		return Receipt{}, err
	}
	defer d.Locks.Release(ctx, held)
	lease, ok := held.(*coord.EtcdLease)
	if !ok {
		return Receipt{}, fmt.Errorf("stock: etcd-txn: a lease of type %T", held)
	}

	have, revision, err := d.Etcd.Read(ctx, item.ProductID)
	if err != nil {
		return Receipt{}, err
	}
	d.Steps.At(ctx, step.Read, "")
	if have < item.Quantity {
		return Receipt{}, soldOut(item, have)
	}
	if err := req.work(ctx); err != nil {
		return Receipt{}, err
	}
	remaining := have - item.Quantity
	order, err := d.Orders.New(req, &remaining, lease.Fence())
	if err != nil {
		return Receipt{}, err
	}
	if err := e.write(ctx, lease, revision, order); err != nil {
		return Receipt{}, err
	}
	return Receipt{OrderID: order.ID, Remaining: &remaining, Fence: order.Fence}, nil
}

// write writes the count and the order if the lease still holds the lock. Among deductions that guard is enough: each
// of them holds the lock, and as long as our key exists with its creation revision, nobody else has held the lock since
// we read. The count's own revision is compared as well for an adjustment of the stock, which takes no lock: after one,
// package shop begins again. Comparing it alone would be lease-seq, where the lock only saves work. A transaction that
// arrives after its holder has given up is refused too, because the release has deleted the key.
func (e etcdTxnDeductor) write(ctx context.Context, lease *coord.EtcdLease, revision int64, o ledger.Order) error {
	if err := Begin(ctx); err != nil {
		return err
	}
	ctx, cancel := Settling(ctx)
	defer cancel()
	ok, err := e.deps.Etcd.Write(ctx, lease.IsOwner(), revision, *o.Remaining, o)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: the lock was lost before the write", ErrContended)
	}
	e.deps.Steps.At(ctx, step.Written, "") // these steps coincide: it is one transaction
	e.deps.Steps.At(ctx, step.Ordered, "")
	e.deps.Steps.At(ctx, step.Committed, "")
	return nil
}
