package stock

import (
	"bytes"
	"context"
	"errors"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/step"
	"lastitem/internal/store"
	"lastitem/internal/store/redisdb"
	"lastitem/say/text"
)

// redisLua does the whole deduction in one script: check, decrement, order, and with an Idempotency-Key the answer.
// Redis runs one script at a time and nothing between its commands, so no read is outdated and no deduction stays half
// done. Under load the requests of a replica share round trips, which is where its speed comes from. Answers are kept
// for a limited time: a key that is repeated later sells again.
//
//	A   EVALSHA ── GET 1, RPUSH, DECRBY, HSET ── 200
//	B   EVALSHA ······································· ── GET 0 ── sold out
//	A again, same key     EVALSHA ── HGET: the answer kept, byte for byte
var redisLua = Mode{
	Name:     "redis-lua",
	Title:    text.Of("Check, decrement, order and key in one Lua script"),
	Needs:    []Backend{NeedRedis},
	Stores:   []Store{Redis},
	Cart:     true,
	PerBuyer: true,
	Adjusts:  true,
	Claims: map[Store]Claims{
		Redis: {Threads: ".", Replicas: ".", Slow: "–", Late: "–", Pause: ".", Crash: ".", Failover: "A", Retry: ".",
			LateWrite: "."},
	},
	New: func(d Deps) (Deductor, error) { return redisLuaDeductor{d}, nil },
}

type redisLuaDeductor struct{ deps Deps }

func (l redisLuaDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	sale, err := l.sale(req)
	if err != nil {
		return Receipt{}, err
	}
	if err := Begin(ctx); err != nil {
		return Receipt{}, err
	}
	sold, err := l.deps.Redis.Sell(ctx, sale)
	if busy, ok := errors.AsType[*redisdb.KeyBusyError](err); ok {
		return Receipt{}, &idempotency.InFlightError{Held: busy.Held, Left: busy.Left, Cause: err}
	}
	switch {
	case errors.Is(err, store.ErrCrossSlot):
		return Receipt{}, &InvalidError{"items", "the products are in different slots of the Redis Cluster, and no script " +
			"reaches them all"}
	case err != nil:
		return Receipt{}, err
	case sold.Earlier && !bytes.Equal(sold.Fingerprint, sale.Fingerprint):
		return Receipt{}, ErrKeyReused
	case sold.Earlier:
		return Receipt{Stored: sold.Answer, Replayed: true}, nil
	case sold.Short >= 0:
		return Receipt{Stored: sold.Answer}, soldOut(req.Items[sold.Short], sold.Available)
	}
	l.deps.Steps.At(ctx, step.Written, "")
	l.deps.Steps.At(ctx, step.Ordered, "")
	r := receiptOf(sale.Orders)
	if r.Stored = sold.Answer; len(req.Items) == 1 {
		r.Remaining = &sold.Remaining
	}
	return r, nil
}

// sale returns the request as the script expects it.
func (l redisLuaDeductor) sale(req Request) (s redisdb.Sale, err error) {
	s.Orders, err = l.deps.Orders.Cart(req, nil, 0)
	s.Buyer = req.Buyer
	for i := range s.Orders {
		s.Orders[i].Buyer = req.Buyer // a return gives his units back to the limit
	}
	if err != nil || len(req.Key) == 0 {
		return s, err
	}
	s.Key = req.Key
	s.Sold = func() idempotency.Template { return soldTemplate(req, s.Orders) }
	s.Refused = func(i int) idempotency.Template { return refusedTemplate(req, req.Items[i]) }
	s.Fingerprint, err = fingerprint(req)
	return s, err
}

// soldTemplate renders the answer of a sale in advance, without the remaining count; refusedTemplate does so for a
// refusal.
func soldTemplate(req Request, orders []ledger.Order) idempotency.Template {
	return idempotency.NewTemplate(func(left int64) idempotency.Answer {
		r := receiptOf(orders)
		if len(req.Items) == 1 {
			r.Remaining = &left
		}
		return req.Answer(r, nil)
	}, req.mentions)
}

func refusedTemplate(req Request, short Item) idempotency.Template {
	return idempotency.NewTemplate(func(has int64) idempotency.Answer {
		return req.Answer(Receipt{}, soldOut(short, has))
	}, req.mentions)
}

// mentions reports whether n is a product id or a quantity of the request, which answers repeat.
func (r Request) mentions(n int64) bool {
	for _, i := range r.Items {
		if i.ProductID == n || i.Quantity == n {
			return true
		}
	}
	return false
}
