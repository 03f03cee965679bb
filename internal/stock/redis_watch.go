package stock

import (
	"context"

	"lastitem/contract/ledger"
	"lastitem/internal/step"
	"lastitem/say/text"
)

// redisWatch is Redis's own optimistic lock: WATCH the count, read it, and send the writes as a transaction, which does
// nothing if the count has been written meanwhile. No request waits. If several requests read the same count, one wins
// and the others start again.
//
//	A   WATCH ── GET 1 ────────────────────────────── MULTI SET 0 RPUSH EXEC: nil ── WATCH ── GET 0: sold out
//	B        WATCH ── GET 1 ── MULTI SET 0 RPUSH EXEC
var redisWatch = Mode{
	Name:    "redis-watch",
	Title:   text.Of("WATCH, then MULTI and EXEC: Redis's optimistic lock"),
	Needs:   []Backend{NeedRedis},
	Stores:  []Store{Redis},
	Adjusts: true,
	Claims: map[Store]Claims{
		Redis: {Threads: ".", Replicas: ".", Slow: "–", Late: "–", Pause: ".", Crash: ".", Failover: "A", Retry: "D",
			LateWrite: "."},
	},
	New: func(d Deps) (Deductor, error) { return redisWatchDeductor{d}, nil },
}

type redisWatchDeductor struct{ deps Deps }

// Deduct is one round. After store.ErrConflict, which says that somebody has written since the read, package shop
// begins the next one.
func (w redisWatchDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	d, item := w.deps, req.Items[0]
	var order ledger.Order
	take := func(have int64) (_ ledger.Order, err error) {
		d.Steps.At(ctx, step.Read, "")
		if have < item.Quantity {
			return order, soldOut(item, have)
		}
		remaining := have - item.Quantity
		order, err = d.Orders.New(req, &remaining, 0)
		if err == nil {
			err = Begin(ctx) // EXEC cannot be undone
		}
		return order, err
	}
	err := d.Redis.Watch(ctx, item.ProductID, take, Settle)
	if err != nil {
		return Receipt{}, err
	}
	d.Steps.At(ctx, step.Written, "") // one transaction: the two steps happen together
	d.Steps.At(ctx, step.Ordered, "")
	return Receipt{OrderID: order.ID, Remaining: order.Remaining}, nil
}
