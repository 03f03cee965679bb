package stock

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/step"
	"lastitem/internal/store/redisdb"
	"lastitem/say/text"
)

// redisStream decides in Redis, and writes in SQL. One script takes the unit, keeps to the limit, keeps the answer
// under the key, and puts the order into a stream; the client gets a ticket. Consumers in all replicas write the orders
// in batches, each with the end of its ticket in one transaction, so that one that is delivered twice is sold once.
// The win is as fast as Redis, and the books are those of SQL. A failover of Redis may lose tickets that it had not
// replicated.
//
//	A          EVALSHA ── check, DECR, XADD, HSET ── 202, a ticket
//	consumer                  EVALSHA, 500 tickets ── BEGIN ─ UPDATE ─ orders, ends ─ COMMIT ── EVALSHA: ended
//	A          GET /tickets/101-… ··················································· sold
var redisStream = Mode{
	Name:     "redis-stream",
	Title:    text.Of("Won in one Lua script, written in SQL from a stream"),
	Needs:    []Backend{NeedRedis, NeedSQL},
	Stores:   []Store{SQL},
	Tickets:  true,
	PerBuyer: true,
	Adjusts:  true,
	Claims: map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: "–", Late: "–", Pause: ".", Crash: ".", Failover: "A", Retry: ".",
			Redelivery: ".", LateWrite: "."},
	},
	New: func(d Deps) (Deductor, error) { return redisStreamDeductor{d}, nil },
}

type redisStreamDeductor struct{ deps Deps }

func (s redisStreamDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	order, err := s.deps.Orders.New(req, nil, 0)
	if err != nil {
		return Receipt{}, err
	}
	order.Buyer = req.Buyer
	sale := redisdb.Sale{Orders: []ledger.Order{order}, Buyer: req.Buyer}
	if len(req.Key) > 0 {
		sale.Key = req.Key
		sale.Sold = func() idempotency.Template {
			return idempotency.NewTemplate(func(left int64) idempotency.Answer {
				return req.Answer(Receipt{OrderID: order.ID, Queued: true, Remaining: &left}, nil)
			}, req.mentions)
		}
		if sale.Fingerprint, err = fingerprint(req); err != nil {
			return Receipt{}, err
		}
	}
	if err := Begin(ctx); err != nil {
		return Receipt{}, err
	}
	won, err := s.deps.Tickets.Win(ctx, sale)
	if busy, ok := errors.AsType[*redisdb.KeyBusyError](err); ok {
		return Receipt{}, &idempotency.InFlightError{Held: busy.Held, Left: busy.Left, Cause: err}
	}
	switch {
	case err != nil:
		return Receipt{}, err
	case won.Earlier && !bytes.Equal(won.Fingerprint, sale.Fingerprint):
		return Receipt{}, ErrKeyReused
	case won.Earlier:
		return Receipt{Stored: won.Answer, Replayed: true}, nil
	case won.Short >= 0:
		return Receipt{}, soldOut(req.Items[0], max(0, won.Available)) // a correction may leave a debt
	}
	s.deps.Steps.At(ctx, step.Written, "")
	return Receipt{OrderID: order.ID, Queued: true, Remaining: &won.Remaining, Stored: won.Answer}, nil
}

// TicketID is the id of the ticket of an order: it says which product it is of.
func TicketID(product int64, order string) string {
	return strconv.FormatInt(product, 10) + "-" + order
}

// ParseTicket reads a ticket's id.
func ParseTicket(id string) (product int64, order string, ok bool) {
	head, order, _ := strings.Cut(id, "-")
	product, err := strconv.ParseInt(head, 10, 64)
	return product, order, err == nil && product > 0 && len(order) == 36
}
