package kafkalog

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

// poll hands on what the consumer is assigned. It goes on while a batch is executed, so that the next batch is all that came meanwhile.
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

// serve executes, batch after batch, what has been polled. A batch is marked when all of it has its result, and marks are committed
// beside the work: what was not committed when a replica dies is delivered again, to another one.
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

// executeAll executes the records of a batch, the products beside each other, the requests for each in their order and in one
// transaction. It returns false where ctx ended before all had their result.
func (l *link) executeAll(ctx context.Context, batch []*kgo.Record) bool {
	byProduct := map[int64][]request{}
	defer l.k.oldest.Store(0)
	for _, r := range batch {
		var m request
		if err := json.Unmarshal(r.Value, &m); err != nil {
			l.k.log("a request that cannot be read is skipped", err)
			continue
		}
		switch {
		case m.probe():
			l.send(m.ReplyTo, answer{ID: m.Order.ID})
		case time.Since(time.UnixMicro(m.Order.CreatedMicros)) > lifetime:
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

// execute commits a batch and sends its answers. A request without a final result is tried again; its effect happens once. "No, for now" is
// not final: the record may have been executed by a consumer that died then, or be delivered again, and be executed after all.
func (l *link) execute(ctx context.Context, product int64, batch []request) {
	for len(batch) > 0 {
		tickets := make([]*stock.Ticket, len(batch))
		for i, m := range batch {
			tickets[i] = m.ticket()
		}
		l.k.o.Commit.Commit(product, tickets)
		l.k.o.Steps.At(context.Background(), step.Committed, "")
		var again []request
		var why error
		for i, t := range tickets {
			if t.Panicked == nil && !final(t.Err) {
				again, why = append(again, batch[i]), t.Err
				continue
			}
			l.reply(batch[i], t)
		}
		batch = again
		if ctx.Err() != nil {
			return
		}
		if len(batch) > 0 {
			l.k.rest(ctx, why)
		}
	}
}

// errTooOld is a record whose rows may have been purged; see lifetime. Whether it was executed cannot be known. It is not executed now.
var errTooOld = fmt.Errorf("%w: the record is older than %s", stock.ErrUnknown, lifetime)

// final says that a request has a result that another delivery of it would not change.
func final(err error) bool {
	return err == nil || errors.Is(err, stock.ErrOtherRun) || errors.Is(err, stock.ErrSoldOut) || errors.Is(err, stock.ErrKeyReused) || errors.Is(err, stock.ErrUnknownProduct) || errors.Is(err, stock.ErrSegmented)
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
	l.client.TryProduce(context.Background(), &kgo.Record{Topic: l.answers.name, Partition: to, Value: value}, func(_ *kgo.Record, err error) {
		if err != nil {
			l.k.debug("answer not sent", err)
		}
	})
}
