package stock

import (
	"context"

	"lastitem/internal/lock"
	"lastitem/say/text"
)

// multiLock locks every product of a cart before it reads the first. All requests take the locks in the same order: in
// the order of their lines, two carts could each hold one lock and wait for the other's. One wait_ms covers all locks
// together.
//
//	A {2,1}   lock 1 ── lock 2 ── GET 1, GET 2 ── SET 1, SET 2 ── order ── unlock 2, 1
//	B {1,2}   lock 1: waits ············································ lock 1 ── lock 2 ── ...
var multiLock = Mode{
	Name:   "multi-lock",
	Title:  text.Of("A cart under the locks of all its products, taken in one order"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis, SQL},
	Holds:  holdsAll,
	Cart:   true,
	Claims: renewedLock,
	New: func(d Deps) (Deductor, error) {
		l, err := d.Lockers.handoff()
		return multiLockDeductor{d, l}, err
	},
}

type multiLockDeductor struct {
	deps   Deps
	locker lock.Locker
}

func (m multiLockDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	keys := make([]string, len(req.Items))
	for i, item := range req.Items {
		keys[i] = m.deps.Locks.Key(item.ProductID)
	}
	leases, err := req.acquire(ctx, func(ctx context.Context) (lock.Lease, error) {
		return lock.AcquireAll(ctx, m.locker, keys...)
	})
	if err != nil {
		return Receipt{}, err
	}
	defer m.deps.Locks.Release(ctx, leases)
	return trusting{m.deps}.readCheckWrite(ctx, req, 0) // several locks have no common fencing token
}
