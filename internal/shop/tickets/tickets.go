// Package tickets writes in SQL what was won in Redis: the consumer of the modes with tickets, in every replica, and
// the reader who waits for the end of a ticket.
package tickets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/stock"
	"lastitem/internal/store/redisdb"
	"lastitem/internal/store/sqldb"
)

// Options configure a [Line].
type Options struct {
	Tickets *redisdb.Tickets
	Book    Book
	Replica string // names the consumer: no other replica may have it
	// Consume says that this replica consumes.
	Consume bool
	// Claim is after how long a ticket is taken over from a consumer that has not ended it; longer than a COMMIT may take.
	Claim time.Duration
	// Most is how many tickets of a product may be in flight, and Waiters how many readers may wait in this replica.
	Most, Waiters int
	// Down says why SQL or Redis cannot be used now, nil when they can.
	Down func() error
	Log  *slog.Logger // nil = none
	// Gauge registers a metric whose value read returns, NaN = absent; nil = no metrics.
	Gauge func(name, help string, labels map[string]string, read func() float64)
	// Ended is told of tickets that were read together and have ended, at least one, when SQL had their ends, and how many
	// of them another consumer had ended before.
	Ended func(batch []*Arrival, committed time.Time, again int64)
}

// Book is SQL, which has the last word.
type Book interface {
	// Receive gives tickets of a product, no more than a batch of [redisdb.Tickets.Read], their ends, each once, in one
	// transaction with their orders. One of another run gets none. An error: none has got one, or, if it is
	// stock.ErrUnknown, perhaps.
	Receive(product int64, batch []*Arrival) error
	// GiveUp writes that a ticket has failed, unless it has another end, and tells which it has then.
	GiveUp(product int64, a *Arrival) error
	// Ends returns the ends of tickets.
	Ends(ctx context.Context, ids ...string) (map[string]ledger.TicketEnd, error)
}

// Arrival is a ticket that a consumer was given.
type Arrival struct {
	redisdb.Entry

	Read time.Time
	End  ledger.TicketEnd // of state "" or queued: it has none
}

// Why a ticket was refused or has failed.
const (
	SoldOut      = "sold_out"
	LimitReached = "limit_reached"
	Unsupported  = "unsupported" // SQL sells the product in another way
	Unwritable   = "unwritable"  // the database refuses this order
)

// ErrPanic is the panic of a transaction: it was rolled back.
var ErrPanic = errors.New("tickets: panic")

const (
	batchLimit = 500
	endLimit   = 100                    // in one script, during which Redis does nothing else
	often      = 250 * time.Millisecond // between two looks for tickets of other replicas
	seldom     = 2 * time.Second        // likewise, after quiet
	quiet      = 10 * time.Second
	triesAlone = 5
	suspicious = 3 // deliveries after which a ticket is tried alone
	firstRest  = 20 * time.Millisecond
	mostRest   = time.Second
)

// Line is the tickets of a shop.
type Line struct {
	o     Options
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu    sync.Mutex
	turns map[int64]bool // products that are consumed now -> another ticket was won meanwhile

	waiting waiting
}

// Open begins to consume.
func Open(o Options) *Line {
	l := &Line{o: o, turns: map[int64]bool{}}
	l.waiting.most = o.Waiters
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.measure()
	if o.Consume {
		l.tasks.Go(l.watch)
	}
	return l
}

// Close lets the batches in hand end, and consumes no more. What is in flight then is for the other replicas.
func (l *Line) Close(ctx context.Context) error {
	l.stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.tasks.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Win wins a ticket, and wakes the consumer.
func (l *Line) Win(ctx context.Context, s redisdb.Sale) (redisdb.Sold, error) {
	out, err := l.o.Tickets.Win(ctx, s, l.o.Most)
	if !s.Apart && (err == nil && out.Short < 0 && !out.Earlier || errors.Is(err, stock.ErrUnknown)) {
		l.wake(s.Orders[0].ProductID)
	}
	return out, err
}

// Send sends a ticket whose units were taken apart from it, and wakes the consumer.
func (l *Line) Send(o ledger.Order) error {
	defer l.wake(o.ProductID)
	return l.o.Tickets.Send(o)
}

// PutBack puts the units of such a ticket back.
func (l *Line) PutBack(o ledger.Order) error { return l.o.Tickets.PutBack(o) }

// wake consumes a product now.
func (l *Line) wake(product int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, running := l.turns[product]; running || !l.o.Consume || l.ctx.Err() != nil {
		if running {
			l.turns[product] = true
		}
		return
	}
	l.turns[product] = false
	l.tasks.Go(func() {
		for again := true; again; {
			l.turn(product)
			l.mu.Lock()
			if again = l.turns[product] && l.ctx.Err() == nil; again {
				l.turns[product] = false
			} else {
				delete(l.turns, product)
			}
			l.mu.Unlock()
		}
	})
}

// watch looks for tickets that nobody has ended.
func (l *Line) watch() {
	last := time.Now()
	for {
		every := often
		if time.Since(last) > quiet {
			every = seldom
		}
		select {
		case <-time.After(every/2 + rand.N(every)): // replicas that start together do not stay together
		case <-l.ctx.Done():
			return
		}
		if l.o.Down() != nil {
			continue
		}
		products, err := l.o.Tickets.Waiting(l.ctx)
		if err != nil && l.ctx.Err() == nil {
			l.warn("read of the streams", 0, err)
		}
		for _, product := range products {
			last = time.Now()
			l.wake(product)
		}
	}
}

// turn consumes a product until nothing is left to read.
func (l *Line) turn(product int64) {
	for l.ctx.Err() == nil && l.o.Down() == nil {
		batch, dropped, err := l.o.Tickets.Read(l.ctx, product, l.o.Replica, l.o.Claim, batchLimit)
		for _, why := range dropped {
			l.warn("an entry that is no ticket was moved away", product, errors.New(why))
		}
		if err != nil && l.ctx.Err() == nil {
			l.warn("read of tickets", product, err)
		}
		if len(batch) == 0 {
			return
		}
		var together, alone []*Arrival
		read := time.Now()
		for _, e := range batch {
			a := &Arrival{Entry: e, Read: read}
			if e.Deliveries > suspicious || e.Alone > 0 {
				alone = append(alone, a)
			} else {
				together = append(together, a)
			}
		}
		if l.together(product, together) {
			alone = append(alone, together...)
		}
		for _, a := range alone {
			l.alone(product, a)
		}
	}
}

// together commits a batch, again while the database cannot. faulty says that it refuses one of the batch: then each is
// to be tried alone.
func (l *Line) together(product int64, batch []*Arrival) (faulty bool) {
	if len(batch) == 0 {
		return false
	}
	for rest := firstRest; ; rest = min(2*rest, mostRest) {
		err := l.o.Book.Receive(product, batch)
		switch {
		case err == nil:
			l.end(product, batch)
			return false
		case ofItsOwn(err):
			return true
		case !l.again(product, err, rest):
			return false // another consumer gets them
		}
	}
}

// alone tries a ticket that may be the one that the database refuses. Five refusals, or tries that never came back, are
// its end.
func (l *Line) alone(product int64, a *Arrival) {
	for rest := firstRest; ; rest = min(2*rest, mostRest) {
		if a.Alone >= triesAlone {
			l.giveUp(product, a)
			return
		}
		ctx := context.WithoutCancel(l.ctx)
		if err := l.o.Tickets.Alone(ctx, product, a.Order.ID, 1); err != nil {
			l.warn("count of a try", product, err)
			return
		}
		err := l.o.Book.Receive(product, []*Arrival{a})
		if err == nil {
			l.end(product, []*Arrival{a})
			return
		}
		if a.Alone++; !ofItsOwn(err) {
			a.Alone--
			if failed := l.o.Tickets.Alone(ctx, product, a.Order.ID, -1); failed != nil {
				l.warn("count of a try", product, failed)
			}
		}
		if !l.again(product, err, rest) {
			return
		}
	}
}

// giveUp ends a ticket that cannot be written, unless somebody has committed it meanwhile.
func (l *Line) giveUp(product int64, a *Arrival) {
	if err := l.o.Book.GiveUp(product, a); err != nil {
		l.warn("end of a ticket that cannot be written", product, err)
		return
	}
	if a.End.State == ledger.TicketFailed {
		l.warn("a ticket cannot be written and was given up", product, errors.New(a.Order.ID))
	}
	l.end(product, []*Arrival{a})
}

// ofItsOwn says that a transaction failed for what it would write, so that it would fail again.
func ofItsOwn(err error) bool { return errors.Is(err, ErrPanic) || sqldb.OfTheData(err) }

// again waits before a batch is tried again, and says whether it may be.
func (l *Line) again(product int64, err error, rest time.Duration) bool {
	if rest == mostRest {
		l.warn("tickets are tried again", product, err)
	}
	select {
	case <-time.After(rest):
		return true
	case <-l.ctx.Done():
		return false
	}
}

// end takes tickets with an end out of those in flight.
func (l *Line) end(product int64, batch []*Arrival) {
	var ends []redisdb.Ended
	committed := time.Now()
	batch = slices.DeleteFunc(batch, func(a *Arrival) bool {
		return a.End.State == "" || a.End.State == ledger.TicketQueued
	})
	for _, a := range batch {
		ends = append(ends, redisdb.Ended{Entry: a.Entry, GiveBack: a.End.State != ledger.TicketSold})
	}
	again := int64(len(batch))
	for len(ends) > 0 {
		n := min(len(ends), endLimit)
		ended, err := l.o.Tickets.End(context.WithoutCancel(l.ctx), product, ends[:n])
		if err != nil {
			l.warn("end of tickets", product, err) // they are read again, and the book knows them
			return
		}
		ends, again = ends[n:], again-ended
	}
	if len(batch) > 0 {
		l.o.Ended(batch, committed, again)
	}
}

func (l *Line) warn(what string, product int64, err error) {
	if l.o.Log != nil {
		l.o.Log.Warn("tickets", slog.String("what", what), slog.Int64("product", product), slog.Any("err", err))
	}
}

// Sells says whether a product is sold by tickets in its present run.
func (l *Line) Sells(ctx context.Context, product int64) (bool, error) {
	return l.o.Tickets.Sells(ctx, product)
}

// InFlight counts the tickets of a product that wait for their orders.
func (l *Line) InFlight(ctx context.Context, product int64) (int64, error) {
	return l.o.Tickets.InFlight(ctx, product)
}

// Find returns where a ticket is on its way, after at most wait while it is queued. [store.ErrNoTicket]: there is none
// in the product's present run.
func (l *Line) Find(ctx context.Context, id string, wait time.Duration) (ledger.TicketEnd, error) {
	product, order, ok := stock.ParseTicket(id)
	if !ok {
		return ledger.TicketEnd{}, fmt.Errorf("%w: %q", stock.ErrNoTicket, id)
	}
	until := time.Now().Add(wait)
	for {
		end, err := l.look(ctx, product, order)
		left := time.Until(until)
		if err != nil || end.State != ledger.TicketQueued || left <= 0 {
			return end, err
		}
		if err := l.waiting.wait(ctx, product, order, left, l.o.Tickets.Queued); err != nil {
			return end, cmp.Or(context.Cause(ctx), err)
		}
	}
}

// look asks Redis, and then SQL: the end of a ticket is in SQL before it leaves Redis.
func (l *Line) look(ctx context.Context, product int64, order string) (ledger.TicketEnd, error) {
	queued := ledger.TicketEnd{ID: order, ProductID: product, State: ledger.TicketQueued}
	units, err := l.o.Tickets.Queued(ctx, product, order)
	if err != nil {
		return queued, err
	}
	if queued.Quantity = units[0]; units[0] > 0 {
		return queued, nil
	}
	ends, err := l.o.Book.Ends(ctx, order)
	if err != nil {
		return queued, err
	}
	end, there := ends[order]
	if !there || end.ProductID != product {
		return queued, fmt.Errorf("%w: %s", stock.ErrNoTicket, stock.TicketID(product, order))
	}
	return end, nil
}

// measure registers the metrics.
func (l *Line) measure() {
	if l.o.Gauge == nil {
		return
	}
	read := func(pick func(age time.Duration, inFlight int64) float64) func() float64 {
		return func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), seldom)
			defer cancel()
			age, n, err := l.o.Tickets.Oldest(ctx)
			if err != nil {
				return math.NaN()
			}
			return pick(age, n)
		}
	}
	l.o.Gauge("shop_tickets_in_flight",
		"Tickets whose orders are still to be written in SQL; absent if that cannot be read.", nil,
		read(func(_ time.Duration, n int64) float64 { return float64(n) }))
	l.o.Gauge("shop_ticket_oldest_seconds",
		"For how long the oldest ticket in flight has waited for its order; absent if that cannot be read.", nil,
		read(func(age time.Duration, _ int64) float64 { return age.Seconds() }))
}
