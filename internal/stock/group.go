package stock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"lastitem/internal/idempotency"
	"lastitem/internal/step"
	"lastitem/internal/store"
)

// ticket is one request for one product on its way through a group commit, and then its result.
type ticket struct {
	ctx         context.Context // whose steps they are; it ends nothing
	order       store.Order
	fingerprint []byte // of the payload, with a key
	answer      func(Receipt, error) idempotency.Answer
	// run is the product's run in which the request is valid, for requests from a log; 0 = any run. A log may deliver a request
	// again. A sold request without a key is then recognised by the row of its order. A refused one is refused again, since within
	// one run stock only falls.
	run int64

	receipt  Receipt
	err      error
	panicked any // what answer or a reader of steps panicked with; then nothing happened
}

// groupTries bounds how often a batch is sent that the database turned down, or that met keys which were taken.
const groupTries = 10

// commit deducts for a batch of requests for one product, in one transaction: one conditional update for the sum, one insert of
// all orders, one of all keys. When it returns every ticket has its result; until then nobody may be answered.
//
// First come, first served: the results are those of the requests one after the other, in the order of the batch. So when stock
// runs short a large request is refused and a smaller one behind it may still be served.
func (d Deps) commit(product int64, batch []*ticket) {
	todo, repeated := firsts(batch)
	for try := 1; len(todo) > 0; try++ {
		panicked, err := d.tryCommit(product, todo)
		switch {
		case err == nil && panicked == nil:
			todo = nil
		case panicked != nil && len(todo) == 1:
			todo[0].panicked, todo = panicked, nil
		case panicked != nil: // rolled back: each for itself, so that one's failure is not everybody's
			for _, t := range todo {
				d.commit(product, []*ticket{t})
			}
			todo = nil
		case try < groupTries && (errors.Is(err, errKeysTaken) || errors.Is(err, store.ErrOrderExists)):
			todo = d.replayTaken(product, todo)
		case try < groupTries && errors.Is(err, store.ErrConflict):
		default:
			fail(todo, err)
			todo = nil
		}
	}
	var others []*ticket
	for _, r := range repeated {
		switch {
		case errors.Is(r.first.err, errOtherRun), // which says nothing of this one
			!bytes.Equal(r.again.fingerprint, r.first.fingerprint): // only the table knows which of the two the key belongs to
			others = append(others, r.again)
		default:
			r.again.repeat(r.first)
		}
	}
	if len(others) > 0 {
		d.commit(product, others)
	}
}

// fail gives all the same error.
func fail(batch []*ticket, err error) {
	for _, t := range batch {
		t.receipt, t.err = Receipt{}, err
	}
}

type repetition struct{ again, first *ticket }

// identity recognises repetitions of a request in one batch: by its key, or by the order's id if a log may hold the request twice.
type identity struct{ key, order string }

// firsts splits the batch into the first request of each identity, and the repetitions.
func firsts(batch []*ticket) (todo []*ticket, repeated []repetition) {
	var seen map[identity]*ticket
	for _, t := range batch {
		id := identity{key: string(t.order.Key)}
		if id.key == "" && t.run > 0 {
			id.order = t.order.ID
		}
		if id == (identity{}) {
			todo = append(todo, t)
			continue
		}
		if seen == nil {
			seen = make(map[identity]*ticket, len(batch))
		}
		if first := seen[id]; first != nil {
			repeated = append(repeated, repetition{t, first})
			continue
		}
		seen[id] = t
		todo = append(todo, t)
	}
	return todo, repeated
}

// repeat copies the result of the first request with the same identity and payload; with a key, its stored answer.
func (t *ticket) repeat(first *ticket) {
	switch {
	case first.receipt.Stored != nil:
		t.receipt = Receipt{Stored: first.receipt.Stored, Replayed: true}
	case first.panicked != nil:
		t.err = ErrInFlight // nothing happened, and nothing is kept
	default:
		t.receipt, t.err = first.receipt, first.err
	}
}

// replayTaken answers the requests whose keys have a stored answer, and those whose orders already exist. It returns the others.
func (d Deps) replayTaken(product int64, batch []*ticket) (todo []*ticket) {
	ctx, cancel := settling(context.Background())
	defer cancel()
	taken, sold, err := d.known(ctx, product, batch)
	if err != nil {
		fail(batch, err)
		return nil
	}
	for _, t := range batch {
		earlier, replays := taken[string(t.order.Key)]
		remaining, again := sold[t.order.ID]
		switch {
		case len(t.order.Key) > 0 && replays:
			t.receipt, t.err = replay(earlier, t.fingerprint, t.order.Mode)
		case again:
			t.receipt, t.err = Receipt{OrderID: t.order.ID, Remaining: remaining}, nil
		default:
			todo = append(todo, t)
		}
	}
	return todo
}

// known returns the stored answers of the batch's keys and, for the existing orders of requests without a key, the stock left after each.
func (d Deps) known(ctx context.Context, product int64, batch []*ticket) (taken map[string]store.Answer, sold map[string]*int64, err error) {
	var keys [][]byte
	for _, t := range batch {
		if len(t.order.Key) > 0 {
			keys = append(keys, t.order.Key)
		}
	}
	if len(keys) > 0 {
		if taken, err = d.SQL.Answers(ctx, keys); err != nil {
			return nil, nil, err
		}
	}
	if ids := unkeyed(batch, func(*ticket) bool { return true }); len(ids) > 0 {
		sold, err = d.SQL.Sold(ctx, product, ids)
	}
	return taken, sold, err
}

// unkeyed lists the orders of those tickets that come from a log and have no key.
func unkeyed(batch []*ticket, kind func(*ticket) bool) (ids []string) {
	for _, t := range batch {
		if len(t.order.Key) == 0 && t.run > 0 && kind(t) {
			ids = append(ids, t.order.ID)
		}
	}
	return ids
}

// errKeysTaken is a conflict for who gives up at last: nothing happened.
var errKeysTaken = fmt.Errorf("%w: some keys have an answer", store.ErrConflict)

// tryCommit is the transaction. Where it fails or panics nothing happened, unless the error says that nobody knows.
func (d Deps) tryCommit(product int64, batch []*ticket) (panicked any, err error) {
	ctx, cancel := settling(context.Background())
	defer cancel()
	defer func() { panicked = recover() }()
	return nil, d.SQL.GroupTx(ctx, func(tx *store.Tx) error {
		if err := d.take(tx, product, batch); err != nil {
			return err
		}
		if err := d.insertOrders(tx, batch); err != nil {
			return err
		}
		return insertAnswers(tx, product, batch)
	})
}

// errOtherRun refuses a request from a log that was made before the stock was set, or so long ago that its key may have been purged.
// Nobody can tell any more whether it was executed then, so it is not executed now.
var errOtherRun = fmt.Errorf("%w: the stock was set meanwhile, or the request is older than keys are kept", ErrUnknown)

// oldestRequest is the earliest time at which an executable request from a log was made. A key is kept from its execution on. If the
// request is younger than half of the retention, its key still exists, even if the clocks of replicas differ.
func (d Deps) oldestRequest() int64 {
	if d.KeepKeys == 0 {
		return math.MinInt64
	}
	return time.Now().Add(-d.KeepKeys / 2).UnixMicro()
}

// take decides who is sold what, and takes the units.
func (d Deps) take(tx *store.Tx, product int64, batch []*ticket) error {
	oldest := d.oldestRequest()
	if ok, err := takeSum(tx, product, batch, oldest); err != nil || ok {
		return err
	}
	row, run, err := tx.ReadLocked(product) // also where the product is unknown, or segmented
	if err != nil {
		return err
	}
	sold := row.Stock - serve(ofRun(batch, run, oldest), row.Stock)
	if refused := unkeyed(batch, func(t *ticket) bool { return errors.Is(t.err, ErrSoldOut) }); len(refused) > 0 {
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
	if _, ok, err := tx.Take(product, sold); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("%w: stock changed under its lock", store.ErrConflict))
	}
	return nil
}

// takeSum deducts the sum of all requests at once, and answers them, if there is enough stock and all of them are valid in one run and
// not too old.
func takeSum(tx *store.Tx, product int64, batch []*ticket, oldest int64) (ok bool, err error) {
	sum, ok := total64(batch)
	run := batch[0].run
	if !ok || slices.ContainsFunc(batch, func(t *ticket) bool { return t.run != run || run > 0 && t.order.CreatedMicros < oldest }) {
		return false, nil
	}
	var left int64
	if run > 0 {
		left, ok, err = tx.TakeOfRun(product, sum, run)
	} else {
		left, ok, err = tx.Take(product, sum)
	}
	if ok && err == nil {
		serve(batch, left+sum)
	}
	return ok && err == nil, err
}

// ofRun refuses requests from a log that belong to another run or are older than oldest, and returns the rest.
func ofRun(batch []*ticket, run, oldest int64) (rest []*ticket) {
	for _, t := range batch {
		if t.run != 0 && (t.run != run || t.order.CreatedMicros < oldest) {
			t.receipt, t.err, t.order.Remaining = Receipt{}, errOtherRun, nil
			continue
		}
		rest = append(rest, t)
	}
	return rest
}

// total64 sums up what is asked for; false where that is beyond any stock.
func total64(batch []*ticket) (sum int64, ok bool) {
	for _, t := range batch {
		if t.order.Quantity > math.MaxInt64-sum {
			return 0, false
		}
		sum += t.order.Quantity
	}
	return sum, true
}

// serve hands out what is there, in order, and returns what is left.
func serve(batch []*ticket, has int64) (left int64) {
	for _, t := range batch {
		item := Item{t.order.ProductID, t.order.Quantity}
		if item.Quantity > has {
			t.receipt, t.err, t.order.Remaining = Receipt{}, soldOut(item, has), nil
			continue
		}
		has -= item.Quantity
		remaining := has
		t.receipt, t.err, t.order.Remaining = Receipt{OrderID: t.order.ID, Remaining: &remaining}, nil, &remaining
	}
	return has
}

// insertOrders inserts the orders of those who were sold something. The steps are reported for each of them, as shared ones.
func (d Deps) insertOrders(tx *store.Tx, batch []*ticket) error {
	orders := make([]store.Order, 0, len(batch))
	for _, t := range batch {
		if t.err == nil {
			orders = append(orders, t.order)
			d.Steps.At(t.ctx, step.Written, "")
		}
	}
	if len(orders) == 0 {
		return nil
	}
	if err := tx.InsertOrders(orders); err != nil {
		return err
	}
	for _, t := range batch {
		if t.err == nil {
			d.Steps.At(t.ctx, step.Ordered, "")
		}
	}
	return nil
}

// insertAnswers keeps the answers of those with a key, refusals too, but not that of another run, which is none.
func insertAnswers(tx *store.Tx, product int64, batch []*ticket) error {
	var answers []store.KeyedAnswer
	for _, t := range batch {
		if len(t.order.Key) == 0 || errors.Is(t.err, errOtherRun) {
			continue
		}
		a := t.answer(t.receipt, t.err)
		t.receipt.Stored = &a
		answers = append(answers, store.KeyedAnswer{
			Key: t.order.Key, Answer: store.Answer{Fingerprint: t.fingerprint, Status: a.Status, Body: a.Body, Mode: t.order.Mode},
		})
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
