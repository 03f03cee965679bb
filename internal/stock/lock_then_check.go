package stock

import (
	"context"

	"lastitem/internal/lock/textbook"
	"lastitem/say/text"
)

// lockThenCheck is lua-lock that asks "is it still mine?" before it writes. That detects every loss except one between
// the answer and the write, and there is always a moment between the two.
//
//	A   SET NX ── GET stock 1 ── GET lock: mine ──── (TTL over) ──────────────── SET 0 ── order
//	B                                                    SET NX ── GET stock 1 ── mine ── SET 0 ── order
var lockThenCheck = Mode{
	Name:   "lock-then-check",
	Title:  text.Of("lua-lock that asks \"still mine?\" before the write"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis, SQL},
	Holds:  holdsLease,
	Claims: expiringLock,
	New: func(d Deps) (Deductor, error) {
		return lockThenCheckDeductor{d, textbook.NewLua(d.Lockers.Client, d.Lockers.TTL, d.Steps)}, nil
	},
}

type lockThenCheckDeductor struct {
	deps   Deps
	locker *textbook.Lua
}

func (l lockThenCheckDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	d, product := l.deps, req.Items[0].ProductID
	lease, err := req.acquireKey(ctx, l.locker, d.Locks.Key(product))
	if err != nil {
		return Receipt{}, err
	}
	defer d.Locks.Release(ctx, lease)

	have, err := trusting{d}.read(ctx, req.Store, product)
	if err != nil {
		return Receipt{}, err
	}
	// This is the latest point for the check. The step "read" comes after it: from there on the lock is not checked any
	// more.
	mine, err := l.locker.Holds(ctx, lease)
	if err != nil {
		return Receipt{}, err
	}
	if !mine {
		return Receipt{}, ErrLockLost
	}
	return trusting{d}.checkWrite(ctx, req, []int64{have}, 0)
}
