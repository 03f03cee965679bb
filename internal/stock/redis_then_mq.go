package stock

import (
	"context"
	"fmt"

	"lastitem/contract/ledger"
	"lastitem/internal/step"
	"lastitem/internal/store/redisdb"
	"lastitem/say/text"
)

// redisThenMQ deducts in Redis, and then sends a message; a consumer writes the order in SQL. Most flash sales are
// built so, with three mistakes. Unit and message are two commands: a crash in between loses the unit. A message
// without an answer counts as not sent, and the unit is put back: the message may be there all the same. And the
// consumer makes a new order of whatever it is given, also of what it was given before. A repeated key buys again.
//
//	A          EVALSHA: DECR ── kill -9                                           a unit that nobody can buy
//	B          EVALSHA: DECR ── XADD: no answer ── put back                       the unit is sold, and for sale again
//	consumer   read ── BEGIN ─ UPDATE ─ INSERT ─ COMMIT ── kill -9 ── read again: a second order
var redisThenMQ = Mode{
	Name:    "redis-then-mq",
	Title:   text.Of("Deducted in Redis, then sent to a consumer that writes in SQL"),
	Needs:   []Backend{NeedRedis, NeedSQL},
	Stores:  []Store{SQL},
	Tickets: true,
	NoInbox: true,
	Adjusts: true,
	Claims: map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: "–", Late: "–", Pause: ".", Crash: "L", Failover: "LA", Retry: "D",
			Redelivery: "DA", LateWrite: "LA"},
	},
	New: func(d Deps) (Deductor, error) { return redisThenMQDeductor{d}, nil },
}

type redisThenMQDeductor struct{ deps Deps }

func (m redisThenMQDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	d := m.deps
	order, err := d.Orders.New(req, nil, 0)
	if err != nil {
		return Receipt{}, err
	}
	if err := Begin(ctx); err != nil {
		return Receipt{}, err
	}
	won, err := d.Tickets.Win(ctx, redisdb.Sale{Orders: []ledger.Order{order}, Apart: true})
	if err != nil {
		return Receipt{}, err
	}
	if won.Short >= 0 {
		return Receipt{}, soldOut(req.Items[0], max(0, won.Available))
	}
	d.Steps.At(ctx, step.Written, "")
	order.Remaining = &won.Remaining
	if err := d.Tickets.Send(order); err != nil {
		if left := d.Tickets.PutBack(order); left != nil {
			err = fmt.Errorf("%w: units not put back: %d: %w", ErrUnknown, order.Quantity, left)
		}
		return Receipt{}, err
	}
	return Receipt{OrderID: order.ID, Queued: true, Remaining: &won.Remaining}, nil
}
