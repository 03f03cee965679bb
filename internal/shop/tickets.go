package shop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/shop/tickets"
	"lastitem/internal/stock"
	"lastitem/internal/store"
	"lastitem/internal/store/redisdb"
)

// ticketing is the shop's side of tickets.
type ticketing struct {
	line     *tickets.Line // nil = there is no Redis, or no SQL
	books    *tickets.Reconciler
	backends Backends
	requests *requests
	apart    time.Duration // between the two looks of a repair
	told     atomic.Pointer[func(ledger.TicketBatch)]
}

// newTicketing begins to consume, if there are both stores. repeated is told of each transaction that is tried again.
func newTicketing(b Backends, o Options, q *requests, modes []stock.Mode, repeated func()) *ticketing {
	t := &ticketing{backends: b, requests: q, apart: cmp.Or(o.Tickets.Apart, o.Settle, stock.SettleTimeout)}
	if b.Redis == nil || b.SQL == nil {
		return t
	}
	group := groupCommit{sql: b.SQL, steps: o.Steps, limits: &sync.Map{}, tickets: true, repeated: repeated}
	book := receiver{group, map[string]bool{}}
	for _, m := range modes {
		book.noInbox[m.Name] = m.NoInbox
	}
	ended := func(batch []*tickets.Arrival, committed time.Time, again int64) {
		for _, a := range batch {
			if o.Tickets.Ended != nil {
				o.Tickets.Ended(string(a.End.State), 1)
			}
		}
		if f := t.told.Load(); f != nil {
			(*f)(batchOf(batch, committed, again))
		}
	}
	won, down := redisdb.NewTickets(b.Redis), func() error { return b.down(nil, stock.NeedRedis, stock.NeedSQL) }
	won.Replicas = o.Tickets.Replicas
	t.line = tickets.Open(tickets.Options{
		Tickets: won, Book: book, Replica: o.Replica, Consume: !o.Tickets.Off,
		Claim: cmp.Or(o.Tickets.Claim, 15*time.Second), Most: cmp.Or(o.Tickets.Most, 50_000),
		Waiters: cmp.Or(o.Tickets.Waiters, 10_000), Down: down,
		Log: o.Log, Gauge: o.Gauge, Ended: ended,
	})
	t.books = tickets.OpenReconciler(tickets.ReconcilerOptions{
		Tickets: won, SQL: b.SQL, Every: o.Tickets.Reconcile, Apart: t.apart, Repair: o.Tickets.Repair, Down: down,
		Log: o.Log, Gauge: o.Gauge,
	})
	return t
}

// OnTickets has f told of tickets that this process has ended. f must not block, and may keep nothing of them.
func (t *ticketing) OnTickets(f func(ledger.TicketBatch)) { t.told.Store(&f) }

// batchOf is what OnTickets tells.
func batchOf(batch []*tickets.Arrival, committed time.Time, again int64) ledger.TicketBatch {
	b := ledger.TicketBatch{Read: batch[0].Read.UnixMicro(), Committed: committed.UnixMicro(),
		Ended: time.Now().UnixMicro(), Again: again, Tickets: make([]ledger.TicketLife, len(batch))}
	for i, a := range batch {
		b.Tickets[i] = ledger.TicketLife{Order: &a.Order, State: a.End.State, Deliveries: a.Deliveries}
	}
	return b
}

// endTickets ends the consuming.
func (t *ticketing) endTickets(ctx context.Context) error {
	if t.line == nil {
		return nil
	}
	t.books.Close()
	return t.line.Close(ctx)
}

// sells says whether a product is sold by tickets in its present run.
func (t *ticketing) sells(ctx context.Context, product int64) (bool, error) {
	if t.line == nil {
		return false, nil
	}
	return t.line.Sells(ctx, product)
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

// Tickets returns a page of the tickets of a product, see [tickets.Reconciler.Page], and with the first page a look at
// both stores. A *stock.ReconcileError, or stock.ErrContended: there is none.
func (t *ticketing) Tickets(ctx context.Context, product int64, after string) (page []ledger.TicketEnd, next string,
	look ledger.TicketLook, err error) {
	look, err = asked(ctx, t, product, 0, func(ctx context.Context) (l ledger.TicketLook, err error) {
		if after == "" {
			l, err = t.books.Look(ctx, product)
		}
		if err == nil {
			page, next, err = t.books.Page(ctx, product, after)
		}
		return l, err
	})
	return page, next, look, err
}

// Reconcile is [tickets.Reconciler.Reconcile].
func (t *ticketing) Reconcile(ctx context.Context, product int64, repair bool) (ledger.Reconciled, error) {
	wait := time.Duration(0)
	if repair {
		wait = t.apart
	}
	return asked(ctx, t, product, wait, func(ctx context.Context) (ledger.Reconciled, error) {
		return t.books.Reconcile(ctx, product, repair)
	})
}

// asked calls f, unless there are no tickets, or a store is known not to answer.
func asked[T any](ctx context.Context, t *ticketing, product int64, wait time.Duration,
	f func(context.Context) (T, error)) (none T, err error) {
	if t.line == nil {
		return none, &stock.ReconcileError{ProductID: product, Why: "tickets need both Redis and SQL"}
	}
	if err := errors.Join(t.backends.silent(stock.Redis, product), t.backends.silent(stock.SQL, product)); err != nil {
		return none, err
	}
	v, err := within(ctx, t.requests, wait+settleWait, false, f)
	if errors.Is(err, store.ErrRowBusy) || errors.Is(err, store.ErrConflict) {
		err = fmt.Errorf("%w: %w", stock.ErrContended, err)
	}
	return v, refusal(err)
}
