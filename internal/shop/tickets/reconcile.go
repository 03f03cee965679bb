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
	"strings"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/stock"
	"lastitem/internal/store"
	"lastitem/internal/store/redisdb"
	"lastitem/internal/store/sqldb"
)

// Redis decides who wins, and SQL has the books: a failover of Redis, or a unit that got lost between the two, makes them
// differ. A look reads both at one moment while tickets are won:
//
//	SQL    BEGIN ─ SELECT ... FOR UPDATE ················ which tickets are sold? ─ ROLLBACK      no order is committed meanwhile
//	Redis                                  ticket_look                                        tickets are won and ended
//
// What has been won and is not yet sold is in flight, so stock = front + in flight at every such moment; the rest is
// drift. A repair adds it to the front, and never sets it: so it is right whenever it comes. A generation lets it come
// once.

const (
	lookWait  = 2 * time.Second // for the row
	pageLimit = 1000            // tickets
)

// errLooked rolls a transaction back that was only to read.
var errLooked = errors.New("tickets: nothing was to be written")

// Look reads both sides of a product at one moment. stock.ErrContended: another look is under way in this process, or the
// row is locked. A *stock.ReconcileError: nothing can be said.
func (l *Line) Look(ctx context.Context, product int64) (ledger.TicketLook, error) {
	found, err := l.lookAt(ctx, product, nil)
	return found.TicketLook, err
}

// sides is a look, with what a reconciliation asks besides.
type sides struct {
	ledger.TicketLook

	last    int64 // generation in the journal
	refused error // why it is not to be reconciled
	uneven  bool  // the initial stocks differ
}

// lookAt makes a look, and then calls write, if there is one, in the transaction that has the row.
func (l *Line) lookAt(ctx context.Context, product int64, write func(*sqldb.Tx, sides) error) (s sides, err error) {
	select {
	case l.looking <- struct{}{}: // one at a time, since it stops the commits
		defer func() { <-l.looking }()
	default:
		return s, fmt.Errorf("%w: another look is under way in this replica", stock.ErrContended)
	}
	alone, err := l.o.SQL.OneWriter(ctx)
	if err == nil && !alone {
		err = refuse(product, "several SQL servers write: the lock of a row excludes nobody on the others")
	}
	if err != nil {
		return s, err
	}
	err = l.o.SQL.GroupTx(ctx, func(tx *sqldb.Tx) error {
		if s, err = l.bothSides(tx, product); err == nil && write != nil {
			return write(tx, s)
		}
		return cmp.Or(err, errLooked)
	})
	if errors.Is(err, store.ErrRowBusy) || errors.Is(err, store.ErrConflict) {
		err = fmt.Errorf("%w: %w", stock.ErrContended, err)
	}
	if errors.Is(err, errLooked) {
		err = nil
	}
	return s, err
}

// bothSides reads SQL, whose row it locks, and then Redis.
func (l *Line) bothSides(tx *sqldb.Tx, product int64) (s sides, err error) {
	book, err := tx.FactsLocked(product, lookWait)
	if err != nil {
		return s, err
	}
	front, err := l.o.Tickets.Look(product)
	s.TicketLook, s.Run, s.Initial, s.Book = front.TicketLook, book.Run, book.Initial, book.Stock
	s.uneven = front.Initial != book.Initial
	switch {
	case err != nil:
		return s, err
	case front.Run != fmt.Sprint(book.Run):
		return s, refuse(product, "SQL and Redis are in different runs: the setting of the stock was cut short; set it again")
	case front.Tickets == nil:
		return s, refuse(product, fmt.Sprintf("consumers have more than %d tickets in hand", redisdb.MostLooked))
	}
	if s.Settled, err = tx.SoldOf(front.Tickets); err == nil {
		s.last, s.Journal, err = tx.Reconciled(product, s.Run, s.Generation)
	}
	if err == nil && !front.Ticketed {
		front.Ticketed, err = tx.Ticketed(product, s.Run)
	}
	switch {
	case front.Other:
		s.refused = refuse(product, "a mode has ordered or held units of it in Redis, which SQL does not know")
	case !front.Ticketed, book.Sold == ledger.Computed, book.Sold == ledger.InUnits:
		s.refused = refuse(product, "it is not sold by tickets")
	}
	return s, err
}

func refuse(product int64, why string) error {
	return &stock.ReconcileError{ProductID: product, Why: why}
}

// Reconcile looks at a product, and with repair adds what is missing in Redis' count to it, or takes what is too much.
// A repair follows from two looks, [Options.Apart]: a batch that a consumer has in hand may be on neither side, and its
// drift passes. A *stock.ReconcileError, or stock.ErrContended: nothing was changed.
func (l *Line) Reconcile(ctx context.Context, product int64, repair bool) (r ledger.Reconciled, err error) {
	first, err := l.lookAt(ctx, product, nil)
	r.TicketLook = first.TicketLook
	if err = cmp.Or(err, first.refused); err != nil || !repair || first.Drift() == 0 {
		return r, err
	}
	if err := l.repairable(ctx, product, first); err != nil {
		return r, err
	}
	select {
	case <-time.After(l.o.Apart):
	case <-ctx.Done():
		return r, fmt.Errorf("%w: %w", stock.ErrUnavailable, context.Cause(ctx))
	}
	if err := stock.Begin(ctx); err != nil {
		return r, err
	}
	var c ledger.Correction
	second, err := l.lookAt(ctx, product, func(tx *sqldb.Tx, second sides) (err error) {
		if c, err = decide(product, first, second); err == nil && c.Leaked != c.Forgotten {
			return tx.Journal(time.Now().UnixMicro(), c)
		}
		return cmp.Or(err, errLooked)
	})
	r.TicketLook = second.TicketLook
	switch {
	case errors.Is(err, stock.ErrUnknown): // only whether the journal has it
		return r, fmt.Errorf("%w: the journal did not answer: %s", stock.ErrUnavailable, err.Error())
	case err != nil, c.Leaked == c.Forgotten:
		return r, err
	}
	return l.correct(ctx, r, c)
}

// repairable refuses a repair that would hide something else. The books are read from a snapshot, without the lock.
func (l *Line) repairable(ctx context.Context, product int64, s sides) error {
	if s.uneven {
		return refuse(product, "the initial stocks differ: an adjustment has reached one store only; repeat it with its key")
	}
	if d := s.Drift(); d > s.Initial || d < -s.Initial {
		return refuse(product, fmt.Sprintf("a drift of %d units is more than there were at first", d))
	}
	f, _, err := l.o.SQL.Snapshot(ctx, product, ledger.Want{})
	if off := f.Stock + f.Held + f.Totals.Units - f.Restocked - f.Initial; err == nil && off != 0 {
		err = refuse(product, fmt.Sprintf("stock and orders in SQL differ by %d units themselves", off))
	}
	return err
}

// decide makes the correction of the look with the smaller drift; none if the drift has passed.
func decide(product int64, first, second sides) (c ledger.Correction, err error) {
	smaller := second
	if a, b := first.Drift(), second.Drift(); a < 0 != (b < 0) && b != 0 {
		return c, refuse(product, fmt.Sprintf("the drift was %d units in one look and %d in the next", a, b))
	} else if max(a, -a) < max(b, -b) {
		smaller = first
	}
	if first.Run != second.Run || first.Generation != second.Generation {
		return c, fmt.Errorf("%w: somebody else has corrected it, or set the stock", stock.ErrContended)
	}
	return ledger.Correction{Product: product, Run: second.Run, Base: second.Generation,
		Generation: max(second.Generation, second.last) + 1, Leaked: smaller.Leaked(), Forgotten: smaller.Forgotten(),
	}, second.refused
}

// correct makes a correction that the journal has.
func (l *Line) correct(ctx context.Context, r ledger.Reconciled, c ledger.Correction) (ledger.Reconciled, error) {
	done, err := l.o.Tickets.Correct(context.WithoutCancel(ctx), c)
	if err == nil && !done {
		err = fmt.Errorf("%w: somebody else has corrected it, or set the stock", stock.ErrContended)
	}
	if err != nil {
		return r, err
	}
	r.Repaired, r.Generation = c.Leaked-c.Forgotten, c.Generation
	if l.o.Log != nil {
		l.o.Log.Warn("tickets", slog.String("what", "Redis' count was corrected"), slog.Int64("product", c.Product),
			slog.Int64("units", r.Repaired), slog.Int64("leaked", c.Leaked), slog.Int64("forgotten", c.Forgotten))
	}
	err = stock.Settle(ctx, func(ctx context.Context) error {
		return l.o.SQL.Corrected(ctx, time.Now().UnixMicro(), c)
	})
	if err != nil {
		l.warn("the journal does not say that a correction was made; the next one will", c.Product, err)
	}
	return r, nil
}

// reconcile looks at all products every so often.
func (l *Line) reconcile() {
	for {
		every := l.o.Reconcile
		select {
		case <-time.After(every/2 + rand.N(every)): // replicas that start together do not stay together
		case <-l.ctx.Done():
			return
		}
		if l.o.Down() != nil {
			continue
		}
		products, err := l.o.Tickets.Products(l.ctx)
		most := int64(0)
		for _, product := range products {
			r, failed := l.Reconcile(l.ctx, product, l.o.Repair)
			if _, no := errors.AsType[*stock.ReconcileError](failed); failed != nil && !no {
				err = errors.Join(err, fmt.Errorf("product %d: %w", product, failed))
			}
			if d := r.Drift() - r.Repaired; failed == nil && d != 0 {
				l.warn("Redis and SQL differ", product, fmt.Errorf("drift %d: leaked %d, forgotten %d", d, r.Leaked(), r.Forgotten()))
				most = max(most, d, -d)
			}
		}
		if err != nil && l.ctx.Err() == nil {
			l.warn("a reconciliation", 0, err)
			continue
		}
		l.drift.Store(&most)
	}
}

// measureDrift is the largest drift of the last round; NaN = there was none.
func (l *Line) measureDrift() float64 {
	if most := l.drift.Load(); most != nil {
		return float64(*most)
	}
	return math.NaN()
}

// listed are the states in the order in which the tickets are listed. One that ends meanwhile is there twice: what is in
// flight is read first, since an end is in SQL before the ticket leaves Redis.
var listed = []ledger.TicketState{ledger.TicketQueued, ledger.TicketFailed, ledger.TicketRefused, ledger.TicketSame,
	ledger.TicketSold}

// Page lists the tickets of a product's run, after a position, and returns the position of the next page; "" = the
// first, and none.
func (l *Line) Page(ctx context.Context, product int64, after string) (page []ledger.TicketEnd, next string, err error) {
	state, id, _ := strings.Cut(cmp.Or(after, string(ledger.TicketQueued)), "/")
	from := slices.Index(listed, ledger.TicketState(state))
	if from < 0 || strings.Trim(id, "0123456789abcdef-") != "" {
		return nil, "", &stock.InvalidError{Field: "after", Why: "was not issued by this service"}
	}
	for _, state := range listed[from:] {
		var more []ledger.TicketEnd
		if atMost := pageLimit - len(page); state == ledger.TicketQueued {
			more, err = l.o.Tickets.InFlightAfter(ctx, product, id, atMost)
		} else {
			more, err = l.o.SQL.EndsPage(ctx, product, state, id, atMost)
		}
		if page = append(page, more...); err != nil {
			return nil, "", err
		}
		if len(page) == pageLimit {
			return page, string(state) + "/" + page[pageLimit-1].ID, nil
		}
		id = ""
	}
	return page, "", nil
}
