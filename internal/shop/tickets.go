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

// openTickets begins to consume, if there are both stores.
func (s *Shop) openTickets() {
	b, o := s.backends, s.options
	if b.Redis == nil || b.SQL == nil {
		return
	}
	group := groupCommit{sql: b.SQL, steps: o.Steps, limits: &sync.Map{}, tickets: true,
		repeated: func() { s.repeated("redis-stream") }}
	ended := func(ledger.TicketState, int64) {}
	if told := o.Tickets.Ended; told != nil {
		ended = func(state ledger.TicketState, n int64) { told(string(state), n) }
	}
	s.line = tickets.Open(tickets.Options{
		Tickets: redisdb.NewTickets(b.Redis), Book: receiver{group}, Replica: o.Replica, Consume: !o.Tickets.Off,
		Claim: cmp.Or(o.Tickets.Claim, 15*time.Second), Most: cmp.Or(o.Tickets.Most, 50_000),
		Waiters: cmp.Or(o.Tickets.Waiters, 10_000), Down: func() error { return b.down(nil, stock.NeedRedis, stock.NeedSQL) },
		Log: o.Log, Gauge: o.Gauge, Ended: ended,
	})
	s.closers = append(s.closers, s.line.Close)
}

// Ticket returns where a ticket is on its way, after at most wait while it is queued. stock.ErrNoTicket: there is none
// in its product's present run. stock.ErrUnavailable: a store could not be asked.
func (s *Shop) Ticket(ctx context.Context, id string, wait time.Duration) (ledger.TicketEnd, error) {
	if s.line == nil {
		return ledger.TicketEnd{}, fmt.Errorf("%w: %q", stock.ErrNoTicket, id)
	}
	if product, _, ok := tickets.Parse(id); ok {
		if err := errors.Join(s.backends.silent(stock.Redis, product), s.backends.silent(stock.SQL, product)); err != nil {
			return ledger.TicketEnd{}, err
		}
	}
	return within(ctx, &s.requests, wait, false, func(ctx context.Context) (ledger.TicketEnd, error) {
		return s.line.Find(ctx, id, wait)
	})
}
