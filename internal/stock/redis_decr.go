package stock

import (
	"context"
	"fmt"

	"lastitem/internal/step"
	"lastitem/say/text"
)

// redisDecr lets Redis do the arithmetic: DECRBY is atomic, and its answer shows whether the units were there. A
// request that went below zero puts its units back. No lock and no lost update; but the decrement, the way back and the
// order are separate commands, and a process that dies between two of them leaks units. Units that are added to the
// stock while others are on their way back meet a count that is too low: a request is refused although one is free.
//
//	A   DECRBY 1 → 0 ─────────────────────── RPUSH order
//	B        DECRBY 1 → -1 ── INCRBY 1 → 0                          sold out
//	C   DECRBY 1 → 0 ── kill -9                                     a unit without an order
var redisDecr = Mode{
	Name:   "redis-decr",
	Title:  text.Of("DECRBY, and INCRBY back when below zero"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis},
	Claims: map[Store]Claims{
		Redis: {Threads: ".", Replicas: ".", Slow: "–", Late: "–", Pause: ".", Crash: "L", Failover: "OLA", Retry: "D",
			LateWrite: "L"},
	},
	New: func(d Deps) (Deductor, error) { return redisDecrDeductor{d}, nil },
}

type redisDecrDeductor struct{ deps Deps }

func (r redisDecrDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	d, item := r.deps, req.Items[0]
	// The read decides nothing. It keeps DECRBY from creating an unknown product at -1, and it refuses a product that is
	// sold out without a write: otherwise every late request of a flash sale would cost two writes.
	have, err := d.Redis.Read(ctx, item.ProductID)
	if err != nil {
		return Receipt{}, err
	}
	d.Steps.At(ctx, step.Read, "")
	if have < item.Quantity {
		return Receipt{}, soldOut(item, max(have, 0))
	}
	order, err := d.Orders.New(req, nil, 0)
	if err != nil {
		return Receipt{}, err
	}
	if err := Begin(ctx); err != nil {
		return Receipt{}, err
	}
	remaining, err := r.add(ctx, item.ProductID, -item.Quantity)
	if err != nil {
		return Receipt{}, err
	}
	if remaining < 0 {
		return Receipt{}, r.putBack(ctx, item, remaining)
	}
	d.Steps.At(ctx, step.Written, "")
	order.Remaining = &remaining
	if err := d.Orders.Append(ctx, order); err != nil {
		return Receipt{}, err
	}
	d.Steps.At(ctx, step.Ordered, "")
	return Receipt{OrderID: order.ID, Remaining: &remaining}, nil
}

// putBack returns units that were not there; below is the count after the decrement. Between the two commands the count
// is too low, so a small request may be refused although there is stock for it.
func (r redisDecrDeductor) putBack(ctx context.Context, item Item, below int64) error {
	if _, err := r.add(ctx, item.ProductID, item.Quantity); err != nil {
		return fmt.Errorf("%w: units not put back: %d: %w", ErrUnknown, item.Quantity, err)
	}
	return soldOut(item, max(below+item.Quantity, 0))
}

func (r redisDecrDeductor) add(ctx context.Context, product, delta int64) (left int64, err error) {
	err = Settle(ctx, func(ctx context.Context) error {
		left, err = r.deps.Redis.Add(ctx, product, delta)
		return err
	})
	return left, err
}
