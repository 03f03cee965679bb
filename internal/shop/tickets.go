package shop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/shop/tickets"
	"lastitem/internal/stock"
	"lastitem/internal/store/redisdb"
)

// ticketing is the shop's side of tickets.
type ticketing struct {
	line     *tickets.Line // nil = there is no Redis, or no SQL
	backends Backends
	requests *requests
}

// newTicketing begins to consume, if there are both stores. repeated is told of each transaction that is tried again.
func newTicketing(b Backends, o Options, q *requests, repeated func()) *ticketing {
	t := &ticketing{backends: b, requests: q}
	if b.Redis == nil || b.SQL == nil {
		return t
	}
	group := groupCommit{sql: b.SQL, steps: o.Steps, limits: &sync.Map{}, tickets: true, repeated: repeated}
	ended := func(ledger.TicketState, int64) {}
	if told := o.Tickets.Ended; told != nil {
		ended = func(state ledger.TicketState, n int64) { told(string(state), n) }
	}
	t.line = tickets.Open(tickets.Options{
		Tickets: redisdb.NewTickets(b.Redis), Book: receiver{group}, Replica: o.Replica, Consume: !o.Tickets.Off,
		Claim: cmp.Or(o.Tickets.Claim, 15*time.Second), Most: cmp.Or(o.Tickets.Most, 50_000),
		Waiters: cmp.Or(o.Tickets.Waiters, 10_000), Down: func() error { return b.down(nil, stock.NeedRedis, stock.NeedSQL) },
		Log: o.Log, Gauge: o.Gauge, Ended: ended,
	})
	return t
}

// endTickets ends the consuming.
func (t *ticketing) endTickets(ctx context.Context) error {
	if t.line == nil {
		return nil
	}
	return t.line.Close(ctx)
}

// inFlight counts the tickets of a product that wait for their orders.
func (t *ticketing) inFlight(ctx context.Context, product int64) (int64, error) {
	if t.line == nil {
		return 0, nil
	}
	return t.line.InFlight(ctx, product)
}

// Ticket returns where a ticket is on its way, after at most wait while it is queued. stock.ErrNoTicket: there is none
// in its product's present run. stock.ErrUnavailable: a store could not be asked.
func (t *ticketing) Ticket(ctx context.Context, id string, wait time.Duration) (ledger.TicketEnd, error) {
	product, _, ok := stock.ParseTicket(id)
	if !ok || t.line == nil {
		return ledger.TicketEnd{}, fmt.Errorf("%w: %q", stock.ErrNoTicket, id)
	}
	if err := errors.Join(t.backends.silent(stock.Redis, product), t.backends.silent(stock.SQL, product)); err != nil {
		return ledger.TicketEnd{}, err
	}
	return within(ctx, t.requests, wait, false, func(ctx context.Context) (ledger.TicketEnd, error) {
		return t.line.Find(ctx, id, wait)
	})
}
