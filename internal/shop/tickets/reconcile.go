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
	"sync/atomic"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/stock"
	"lastitem/internal/store/redisdb"
	"lastitem/internal/store/sqldb"
)

// Redis decides who wins, and SQL has the books: a failover of Redis, or a unit that got lost between the two, makes
// them differ. A look reads both at one moment while tickets are won:
//
//	SQL    BEGIN ─ SELECT ... FOR UPDATE ··············· which of these are sold? ─ ROLLBACK
//	Redis                                 ticket_look
//
// No order is committed meanwhile, and tickets are won and ended as before.
//
// What has been won and is not yet sold is in flight, so stock = front + in flight at every such moment; the rest is
// drift. A repair adds it to the front, and never sets it: so it is right whenever it comes. A generation lets it come
// once.

// ReconcilerOptions configure a [Reconciler].
type ReconcilerOptions struct {
	Tickets *redisdb.Tickets
	SQL     *sqldb.Store
	// Every is the mean time between two looks at each product, 0 = never, and Repair says that they repair. Apart is the
	// time between the two looks of a repair: no COMMIT may take longer.
	Every, Apart time.Duration
	Repair       bool
	// Down, Log and Gauge are as in [Options].
	Down  func() error
	Log   *slog.Logger
	Gauge func(name, help string, labels map[string]string, read func() float64)
}

// Reconciler compares Redis with SQL.
type Reconciler struct {
	o       ReconcilerOptions
	looking chan struct{}         // has room for one look
	drift   atomic.Pointer[int64] // the largest of the last round of looks; nil = there was none
	ctx     context.Context
	stop    context.CancelFunc
	done    chan struct{}
}

// OpenReconciler begins to look every so often, if it is to.
func OpenReconciler(o ReconcilerOptions) *Reconciler {
	r := &Reconciler{o: o, looking: make(chan struct{}, 1), done: make(chan struct{})}
	r.ctx, r.stop = context.WithCancel(context.Background())
	if o.Gauge != nil {
		o.Gauge("shop_stock_drift_units", "The largest difference between Redis and SQL of a product sold by tickets, in "+
			"the last round of SHOP_RECONCILE; absent if there was none.", nil, func() float64 {
			if most := r.drift.Load(); most != nil {
				return float64(*most)
			}
			return math.NaN()
		})
	}
	go r.reconcile()
	return r
}

// Close ends the looks.
func (r *Reconciler) Close() {
	r.stop()
	<-r.done
}

const (
	lookWait  = 2 * time.Second // for the row, and for other looks
	pageLimit = 1000            // tickets
)

// errLooked rolls a transaction back that was only to read.
var errLooked = errors.New("tickets: nothing was to be written")

// Look reads both sides of a product at one moment. stock.ErrContended: another look is under way in this process. An
// error of the store that says so: the row is locked. A *stock.ReconcileError: nothing can be said.
func (r *Reconciler) Look(ctx context.Context, product int64) (ledger.TicketLook, error) {
	found, err := r.lookAt(ctx, product, nil)
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
func (r *Reconciler) lookAt(ctx context.Context, product int64, write func(*sqldb.Tx, sides) error) (s sides,
	err error) {
	select {
	case r.looking <- struct{}{}: // one at a time, since it stops the commits
		defer func() { <-r.looking }()
	case <-time.After(lookWait):
		return s, fmt.Errorf("%w: other looks are under way in this replica", stock.ErrContended)
	}
	alone, err := r.o.SQL.OneWriter(ctx)
	if err == nil && !alone {
		err = refuse(product, "several SQL servers write: the lock of a row excludes nobody on the others")
	}
	if err != nil {
		return s, err
	}
	err = r.o.SQL.GroupTx(ctx, func(tx *sqldb.Tx) error {
		if s, err = r.bothSides(tx, product); err == nil && write != nil {
			return write(tx, s)
		}
		return cmp.Or(err, errLooked)
	})
	if errors.Is(err, errLooked) {
		err = nil
	}
	return s, err
}

// bothSides reads SQL, whose row it locks, and then Redis.
func (r *Reconciler) bothSides(tx *sqldb.Tx, product int64) (s sides, err error) {
	book, err := tx.FactsLocked(product, lookWait)
	if err != nil {
		return s, err
	}
	front, err := r.o.Tickets.Look(product)
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
// A repair follows from two looks, [ReconcilerOptions.Apart]: a batch that a consumer has in hand may be on neither
// side, and its drift passes. A *stock.ReconcileError, or stock.ErrContended: nothing was changed.
func (r *Reconciler) Reconcile(ctx context.Context, product int64, repair bool) (did ledger.Reconciled, err error) {
	first, err := r.lookAt(ctx, product, nil)
	did.TicketLook = first.TicketLook
	if err = cmp.Or(err, first.refused); err != nil || !repair || first.Drift() == 0 {
		return did, err
	}
	if err := r.repairable(ctx, product, first); err != nil {
		return did, err
	}
	select {
	case <-time.After(r.o.Apart):
	case <-ctx.Done():
		return did, fmt.Errorf("%w: %w", stock.ErrUnavailable, context.Cause(ctx))
	}
	if err := stock.Begin(ctx); err != nil {
		return did, err
	}
	var c ledger.Correction
	second, err := r.lookAt(ctx, product, func(tx *sqldb.Tx, second sides) (err error) {
		if c, err = decide(product, first, second); err == nil && c.Leaked != c.Forgotten {
			return tx.Journal(time.Now().UnixMicro(), c)
		}
		return cmp.Or(err, errLooked)
	})
	did.TicketLook = second.TicketLook
	switch {
	case errors.Is(err, stock.ErrUnknown): // only whether the journal has it
		return did, fmt.Errorf("%w: the journal did not answer: %s", stock.ErrUnavailable, err.Error())
	case err != nil, c.Leaked == c.Forgotten:
		return did, err
	}
	return r.correct(ctx, did, c)
}

// repairable refuses a repair that would hide something else. The books are read from a snapshot, without the lock.
func (r *Reconciler) repairable(ctx context.Context, product int64, s sides) error {
	if s.uneven {
		return refuse(product, "the initial stocks differ: an adjustment has reached one store only; repeat it with its key")
	}
	if s.Stuck < 0 {
		return refuse(product, "entries in the stream have no ticket: consumers may still sell them")
	}
	if d := s.Drift(); d > s.Initial || d < -s.Initial {
		return refuse(product, fmt.Sprintf("a drift of %d units is more than there were at first", d))
	}
	f, _, err := r.o.SQL.Snapshot(ctx, product, ledger.Want{})
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
func (r *Reconciler) correct(ctx context.Context, did ledger.Reconciled, c ledger.Correction) (ledger.Reconciled,
	error) {
	done, err := r.o.Tickets.Correct(context.WithoutCancel(ctx), c)
	if err == nil && !done {
		err = fmt.Errorf("%w: somebody else has corrected it, or set the stock", stock.ErrContended)
	}
	if err != nil {
		return did, err
	}
	did.Repaired, did.Generation = c.Leaked-c.Forgotten, c.Generation
	if r.o.Log != nil {
		r.o.Log.Warn("tickets", slog.String("what", "Redis' count was corrected"), slog.Int64("product", c.Product),
			slog.Int64("units", did.Repaired), slog.Int64("leaked", c.Leaked), slog.Int64("forgotten", c.Forgotten))
	}
	err = stock.Settle(ctx, func(ctx context.Context) error {
		return r.o.SQL.Corrected(ctx, time.Now().UnixMicro(), c)
	})
	if err != nil {
		r.warn("the journal does not say that a correction was made; the next one will", c.Product, err)
	}
	return did, nil
}

// reconcile looks at all products every so often.
func (r *Reconciler) reconcile() {
	defer close(r.done)
	for r.o.Every > 0 {
		select {
		case <-time.After(r.o.Every/2 + rand.N(r.o.Every)): // replicas that start together do not stay together
		case <-r.ctx.Done():
			return
		}
		if r.o.Down() != nil {
			continue
		}
		if most, err := r.round(); err == nil {
			r.drift.Store(&most)
		} else if r.ctx.Err() == nil {
			r.warn("a reconciliation", 0, err)
		}
	}
}

// round reconciles each product, and returns the largest drift that is left. A product that is refused is none.
func (r *Reconciler) round() (most int64, err error) {
	products, err := r.o.Tickets.Products(r.ctx)
	for _, product := range products {
		did, failed := r.Reconcile(r.ctx, product, r.o.Repair)
		if errors.Is(failed, stock.ErrReconcile) {
			continue
		}
		if did.Stuck != 0 {
			r.warn("tickets without entries in the stream, or below zero, entries without tickets", product,
				fmt.Errorf("%d", did.Stuck))
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("product %d: %w", product, failed))
		} else if d := did.Drift() - did.Repaired; d != 0 {
			r.warn("Redis and SQL differ", product, fmt.Errorf("drift %d: leaked %d, forgotten %d", d, did.Leaked(),
				did.Forgotten()))
			most = max(most, d, -d)
		}
	}
	return most, err
}

func (r *Reconciler) warn(what string, product int64, err error) {
	if r.o.Log != nil {
		r.o.Log.Warn("reconciler", slog.String("what", what), slog.Int64("product", product), slog.Any("err", err))
	}
}

// listed are the states in the order in which the tickets are listed. One that ends meanwhile is there twice: what is
// in flight is read first, since an end is in SQL before the ticket leaves Redis.
var listed = []ledger.TicketState{ledger.TicketQueued, ledger.TicketFailed, ledger.TicketRefused, ledger.TicketSame,
	ledger.TicketSold}

// Page lists the tickets of a product's run, after a position, and returns the position of the next page; "" = the
// first, and none.
func (r *Reconciler) Page(ctx context.Context, product int64, after string) (page []ledger.TicketEnd, next string,
	err error) {
	state, id, _ := strings.Cut(cmp.Or(after, string(ledger.TicketQueued)), "/")
	from := slices.Index(listed, ledger.TicketState(state))
	if from < 0 || strings.Trim(id, "0123456789abcdef-") != "" {
		return nil, "", &stock.InvalidError{Field: "after", Why: "was not issued by this service"}
	}
	for _, state := range listed[from:] {
		var more []ledger.TicketEnd
		if atMost := pageLimit - len(page); state == ledger.TicketQueued {
			more, err = r.o.Tickets.InFlightAfter(ctx, product, id, atMost)
		} else {
			more, err = r.o.SQL.EndsPage(ctx, product, state, id, atMost)
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
