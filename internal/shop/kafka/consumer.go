package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lastitem/internal/idempotency"
	"lastitem/internal/step"
	"lastitem/internal/stock"
)

// batchLimit is how many records are executed together at most: a longer transaction would hold up the other replicas.
const batchLimit = 500

// The half of a log that answers, as a member of the group of all replicas.

// poll hands on what the consumer is assigned. It goes on while a batch is executed, so that the next batch is all that
// came meanwhile.
func (l *link) poll(ctx context.Context, records chan<- *kgo.Record) {
	for ctx.Err() == nil {
		fetches := l.consumer.PollRecords(ctx, batchLimit)
		l.k.rest(ctx, fetches.Err())
		for r := range fetches.RecordsAll() {
			select {
			case records <- r:
			case <-ctx.Done():
				return
			}
		}
	}
}

// serve executes the polled records, batch after batch. A batch is marked when all its records have results, and marks
// are committed in the background. If a replica dies, its uncommitted records are delivered again, to another.
func (l *link) serve(ctx context.Context, records <-chan *kgo.Record) {
	for {
		var batch []*kgo.Record
		select {
		case <-ctx.Done():
			return
		case r := <-records:
			batch = append(batch, r)
		}
		for len(batch) < batchLimit && len(records) > 0 { // nobody else takes any
			batch = append(batch, <-records)
		}
		if l.executeAll(ctx, batch) {
			l.consumer.MarkCommitRecords(batch...)
		}
	}
}

// executeAll executes the records of a batch, the products beside each other, the requests for each in their order and
// in one transaction. It returns false where ctx ended before all had their result.
func (l *link) executeAll(ctx context.Context, batch []*kgo.Record) bool {
	byProduct := map[int64][]request{}
	defer l.k.oldest.Store(0)
	for _, r := range batch {
		var m request
		err := json.Unmarshal(r.Value, &m)
		switch {
		case err == nil && m.probe():
			l.send(m.ReplyTo, answer{ID: m.Order.ID})
			continue
		case err == nil:
			err = m.check(time.Now())
		}
		switch {
		case err != nil:
			l.k.log("a request that cannot be executed is skipped", fmt.Errorf("%s/%d, offset %d: %w", r.Topic, r.Partition,
				r.Offset, err))
		case m.tooOld():
			l.reply(m, &stock.Ticket{Err: errTooOld})
		default:
			byProduct[m.Order.ProductID] = append(byProduct[m.Order.ProductID], m)
			if oldest := l.k.oldest.Load(); oldest == 0 || m.Order.CreatedMicros < oldest {
				l.k.oldest.Store(m.Order.CreatedMicros)
			}
		}
	}
	var products sync.WaitGroup
	for product, requests := range byProduct {
		products.Go(func() { l.execute(ctx, product, requests) })
	}
	products.Wait()
	return ctx.Err() == nil
}

// A batch that has failed for failsAfter is logged, and then every failsEvery. Once it has failed for longer than a
// session of the group, the database is asked every askEvery whether it works at all.
const (
	failsAfter = 3 * time.Second
	failsEvery = time.Minute
	askEvery   = time.Second
)

// execute commits a batch and sends its answers. A request without a final result is tried again, until it is too old;
// its effect happens once. "No, for now" is not final: the record may have been executed by a consumer that died then,
// or be delivered again, and be executed after all.
//
// If the database of this replica does not work at all, the link ends, and another replica gets the requests that are
// not done.
func (l *link) execute(ctx context.Context, product int64, batch []request) {
	begun := time.Now()
	log, ask := begun.Add(failsAfter), begun.Add(l.k.o.Group.session())
	for {
		again, why := l.try(product, batch)
		if batch = l.dropOld(again); len(batch) == 0 || ctx.Err() != nil {
			return
		}
		now := time.Now()
		if now.After(log) {
			log = now.Add(failsEvery)
			l.k.log("requests are tried again", fmt.Errorf("%d for product %d, since %s: %w", len(batch), product,
				now.Sub(begun).Round(time.Second), why))
		}
		if now.After(ask) {
			ask = now.Add(askEvery)
			if err := l.k.ready(ctx); err != nil {
				l.end(err)
				return
			}
		}
		l.k.rest(ctx, why)
	}
}

// try commits a batch once and sends the final results. It returns the other requests, and why one of them has none.
func (l *link) try(product int64, batch []request) (again []request, why error) {
	tickets := make([]*stock.Ticket, len(batch))
	for i, m := range batch {
		tickets[i] = m.ticket()
	}
	l.k.o.Commit.Commit(product, tickets)
	l.k.o.Steps.At(context.Background(), step.Committed, "")
	for i, t := range tickets {
		if t.Panicked == nil && !final(t.Err) {
			again, why = append(again, batch[i]), t.Err
			continue
		}
		l.reply(batch[i], t)
	}
	return again, why
}

// dropOld answers the requests of a batch that have become too old, and returns the others.
func (l *link) dropOld(batch []request) (rest []request) {
	for _, m := range batch {
		if m.tooOld() {
			l.reply(m, &stock.Ticket{Err: errTooOld})
			continue
		}
		rest = append(rest, m)
	}
	return rest
}

// tooOld says that a request is void by its age.
func (m request) tooOld() bool { return time.Since(m.Order.CreatedAt()) > Lifetime }

// errTooOld is a record whose key may have been purged; see [Lifetime]. Whether it was executed cannot be known: by
// another consumer, or by a commit of this one whose answer was lost. It is not executed now.
var errTooOld = fmt.Errorf("%w: the record is older than %s", stock.ErrUnknown, Lifetime)

// final says that a request has a result that another delivery of it would not change.
func final(err error) bool {
	for _, is := range errorWords {
		if errors.Is(err, is) {
			return true
		}
	}
	return err == nil || errors.Is(err, stock.ErrOtherRun) || errors.Is(err, stock.ErrSoldOut)
}

// ticket is the request on its way through the group commit. It has no trace: the trace is in the process that asked.
func (m request) ticket() *stock.Ticket {
	return &stock.Ticket{
		Ctx: context.Background(), Order: m.Order, Fingerprint: m.Fingerprint, Run: m.Run,
		Answer: func(r stock.Receipt, err error) idempotency.Answer {
			var refused *stock.SoldOutError
			if errors.As(err, &refused) {
				return m.Refused.fill(refused.Available)
			}
			return m.Sold.fill(*r.Remaining)
		},
	}
}

// reply sends the result of a request to the replica that asked.
func (l *link) reply(m request, t *stock.Ticket) {
	a := answer{ID: m.Order.ID, Stored: t.Receipt.Stored, Replayed: t.Receipt.Replayed}
	var refused *stock.SoldOutError
	switch {
	case t.Panicked != nil: // nothing happened now; a delivery before this one may have gone through
		l.k.log("panic", fmt.Errorf("order %s: %v", m.Order.ID, t.Panicked))
		a.failed(fmt.Errorf("%w: it panicked", stock.ErrUnknown))
	case errors.As(t.Err, &refused):
		a.Refused, a.Count = true, refused.Available
	case t.Err != nil:
		a.failed(t.Err)
	case t.Receipt.Remaining != nil:
		a.Count = *t.Receipt.Remaining
	}
	l.send(m.ReplyTo, a)
}

// send produces an answer. If that fails, the asking replica gets no answer, and reports "unknown".
func (l *link) send(to int32, a answer) {
	value, err := json.Marshal(a)
	if err != nil {
		l.k.log("answer", err)
		return
	}
	l.client.TryProduce(context.Background(), &kgo.Record{Topic: l.answers.name, Partition: to, Value: value},
		func(_ *kgo.Record, err error) {
			if err != nil {
				l.k.debug("answer not sent", err)
			}
		})
}
