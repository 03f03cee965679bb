package shop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/internal/store"
	"lastitem/internal/store/sqldb"
)

// groupCommit deducts for a batch of requests for one product in one transaction: one conditional update for the sum,
// one insert of all orders, one of all keys. It is the [stock.Group] of queue and of the Kafka log.
type groupCommit struct {
	sql   *sqldb.Store
	steps *step.Stream
	keep  idempotency.Retention
	// limits has the products that may have a limit per buyer
	limits *sync.Map
	// tickets says that the requests have units in Redis already, so that any way of selling with a counter will do.
	tickets bool

	repeated func() // is told of each transaction that is tried again
}

// groupTries is how often a batch is sent at most if some of its keys are taken, or orders there.
const groupTries = 10

// Commit deducts for a batch of requests for one product, as [stock.Group] says.
func (g groupCommit) Commit(product int64, batch []*stock.Ticket) {
	todo, repeated := firsts(batch)
	for try := 1; len(todo) > 0; try++ {
		panicked, err := g.tryCommit(product, todo)
		switch {
		case err == nil && panicked == nil:
			g.replayLimited(product, todo)
			todo = nil
		case panicked != nil && len(todo) == 1:
			todo[0].Panicked, todo = panicked, nil
		case panicked != nil: // rolled back: try each request alone, so that only the faulty one fails
			for _, t := range todo {
				g.Commit(product, []*stock.Ticket{t})
			}
			todo = nil
		case try < groupTries && (errors.Is(err, errKeysTaken) || errors.Is(err, store.ErrOrderExists)):
			todo = g.replayTaken(product, todo)
		default:
			fail(todo, err)
			todo = nil
		}
	}
	var others []*stock.Ticket
	for _, r := range repeated {
		switch {
		case errors.Is(r.first.Err, stock.ErrOtherRun), // the refusal of first does not apply to again
			!bytes.Equal(r.again.Fingerprint, r.first.Fingerprint): // the table decides which payload the key belongs to
			others = append(others, r.again)
		default:
			repeat(r.again, r.first)
		}
	}
	if len(others) > 0 {
		g.Commit(product, others)
	}
}

// ready is nil if the database can commit a batch now: it answers, takes writes, and its tables have the columns of
// this version. Nothing is written, since no product is ever in run 0; a server that is read-only refuses the statement
// all the same.
func (g groupCommit) ready(ctx context.Context) error {
	err := g.sql.GroupTx(ctx, func(tx *sqldb.Tx) error {
		if _, _, err := tx.TakeOfRun(0, 0, 0); err != nil {
			return err
		}
		_, err := tx.AnySold(0, []string{""})
		return err
	})
	if err == nil {
		_, err = g.sql.Answers(ctx, [][]byte{{}})
	}
	if errors.Is(err, store.ErrConflict) { // it has decided between transactions, so it works
		return nil
	}
	return err
}

// fail sets the same error on the whole batch.
func fail(batch []*stock.Ticket, err error) {
	for _, t := range batch {
		t.Receipt, t.Err = stock.Receipt{}, err
	}
}

// errKeysTaken says that nothing happened.
var errKeysTaken = fmt.Errorf("%w: some keys have an answer", stock.ErrContended)

// tryCommit is one transaction, tried again while the database decides for another. If it fails or panics, nothing
// happened, unless the error is ErrUnknown.
func (g groupCommit) tryCommit(product int64, batch []*stock.Ticket) (panicked any, err error) {
	ctx, cancel := stock.Settling(context.Background())
	defer cancel()
	defer func() { panicked = recover() }()
	return nil, store.Retry(ctx, 0, func(n int) error {
		if n > 0 {
			g.repeated()
		}
		return g.sql.GroupTx(ctx, func(tx *sqldb.Tx) error {
			limited, err := g.takeAny(tx, product, batch)
			if err != nil {
				return err
			}
			if err := errors.Join(g.insertOrders(tx, batch), bought(tx, limited, batch)); err != nil {
				return err
			}
			return insertAnswers(tx, product, batch)
		})
	})
}

// take decides which requests are sold, and takes the units.
func (g groupCommit) take(tx *sqldb.Tx, product int64, batch []*stock.Ticket) error {
	oldest := g.keep.Oldest(time.Now())
	if ok, err := g.takeSum(tx, product, batch, oldest); err != nil || ok {
		return err
	}
	row, run, err := tx.ReadLocked(product) // also where the product is unknown, or segmented
	take := tx.Take
	if batch[0].Run > 0 {
		take = func(product, sum int64) (int64, bool, error) { return g.takeOfRun(tx, product, sum, run) }
		if err == nil && !g.tickets {
			err = tx.RefuseHeld(product)
		}
	}
	if _, no := errors.AsType[*ledger.ProductError](err); no {
		return refuse(batch, ofRun(batch, run, oldest), err)
	}
	if err != nil {
		return err
	}
	sold := row.Stock - serve(ofRun(batch, run, oldest), row.Stock)
	if refused := logged(batch, func(t *stock.Ticket) bool {
		return errors.Is(t.Err, stock.ErrSoldOut)
	}); len(refused) > 0 {
		again, err := tx.AnySold(product, refused)
		switch {
		case err != nil:
			return err
		case again: // it was sold before, although there is too little now
			return errKeysTaken
		}
	}
	if sold == 0 {
		return nil
	}
	if _, ok, err := take(product, sold); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("%w: stock changed under its lock", store.ErrConflict))
	}
	return nil
}

// takeSum deducts the sum of all requests at once and answers them, if the stock suffices, and all requests are valid
// in one run and not too old.
func (g groupCommit) takeSum(tx *sqldb.Tx, product int64, batch []*stock.Ticket, oldest int64) (ok bool, err error) {
	sum, ok := total64(batch)
	run := batch[0].Run
	if !ok || slices.ContainsFunc(batch, func(t *stock.Ticket) bool {
		return t.Run != run || run > 0 && t.Order.CreatedMicros < oldest
	}) {
		return false, nil
	}
	var left int64
	if run > 0 {
		left, ok, err = g.takeOfRun(tx, product, sum, run)
	} else {
		left, ok, err = tx.Take(product, sum)
	}
	if ok && err == nil {
		serve(batch, left+sum)
	}
	return ok && err == nil, err
}

func (g groupCommit) takeOfRun(tx *sqldb.Tx, product, sum, run int64) (left int64, ok bool, err error) {
	if g.tickets {
		return tx.TakeTickets(product, sum, run)
	}
	return tx.TakeOfRun(product, sum, run)
}

// ofRun refuses requests from a log that belong to another run or are older than oldest, and returns the rest.
func ofRun(batch []*stock.Ticket, run, oldest int64) (rest []*stock.Ticket) {
	for _, t := range batch {
		if t.Run != 0 && (t.Run != run || t.Order.CreatedMicros < oldest) {
			t.Receipt, t.Err, t.Order.Remaining = stock.Receipt{}, stock.ErrOtherRun, nil
			continue
		}
		rest = append(rest, t)
	}
	return rest
}

// refuse sets err on the requests of the product's current run. The outcome of requests from an earlier run is unknown,
// so they keep their error. If all requests are of the current run, it returns err.
func refuse(batch, ofRun []*stock.Ticket, err error) error {
	if len(ofRun) == len(batch) {
		return err
	}
	for _, t := range ofRun {
		t.Order.Remaining = nil
	}
	fail(ofRun, err)
	return nil
}

// total64 sums the requested quantities; false if the sum exceeds every possible stock.
func total64(batch []*stock.Ticket) (sum int64, ok bool) {
	for _, t := range batch {
		if t.Order.Quantity > math.MaxInt64-sum {
			return 0, false
		}
		sum += t.Order.Quantity
	}
	return sum, true
}

// serve sells to the requests in order while stock lasts, and returns the stock left.
func serve(batch []*stock.Ticket, has int64) (left int64) {
	for _, t := range batch {
		o := &t.Order
		if o.Quantity > has {
			t.Receipt, o.Remaining = stock.Receipt{}, nil
			t.Err = &stock.SoldOutError{ProductID: o.ProductID, Requested: o.Quantity, Available: has}
			continue
		}
		has -= o.Quantity
		remaining := has
		t.Receipt, t.Err, o.Remaining = stock.Receipt{OrderID: o.ID, Remaining: &remaining}, nil, &remaining
	}
	return has
}

// insertOrders inserts the orders of the requests that were sold. It reports the steps for each of them, marked as
// shared.
func (g groupCommit) insertOrders(tx *sqldb.Tx, batch []*stock.Ticket) error {
	orders := make([]ledger.Order, 0, len(batch))
	for _, t := range batch {
		if t.Err == nil {
			orders = append(orders, t.Order)
			g.steps.At(t.Ctx, step.Written, "")
		}
	}
	if len(orders) == 0 {
		return nil
	}
	if err := tx.InsertOrders(orders); err != nil {
		return err
	}
	for _, t := range batch {
		if t.Err == nil {
			g.steps.At(t.Ctx, step.Ordered, "")
		}
	}
	return nil
}

// insertAnswers stores the answers of requests with a key that were sold or sold out: no other error is an answer.
func insertAnswers(tx *sqldb.Tx, product int64, batch []*stock.Ticket) error {
	var answers []sqldb.KeyedAnswer
	for _, t := range batch {
		if len(t.Order.Key) == 0 || t.Err != nil && !errors.Is(t.Err, stock.ErrSoldOut) {
			continue
		}
		a := t.Answer(t.Receipt, t.Err)
		t.Receipt.Stored = &a
		answers = append(answers, sqldb.KeyedAnswer{Key: t.Order.Key, Answer: claimOf(t).Record(a)})
	}
	if len(answers) == 0 {
		return nil
	}
	n, err := tx.InsertAnswers(product, time.Now().UnixMicro(), answers)
	if err == nil && n < len(answers) {
		err = errKeysTaken
	}
	return err
}
