package stock

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
)

// The half of kafka that answers, as a member of the group of all replicas.

// poll hands on what the consumer is assigned. It goes on while a batch is executed, so that the next batch is all that came meanwhile.
func (l *kafkaLink) poll(ctx context.Context, records chan<- *kgo.Record) {
	for ctx.Err() == nil {
		fetches := l.consumer.PollRecords(ctx, queueBatch)
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
func (l *kafkaLink) serve(ctx context.Context, records <-chan *kgo.Record) {
	for {
		var batch []*kgo.Record
		select {
		case <-ctx.Done():
			return
		case r := <-records:
			batch = append(batch, r)
		}
		for len(batch) < queueBatch && len(records) > 0 { // nobody else takes any
			batch = append(batch, <-records)
		}
		if l.executeAll(ctx, batch) {
			l.consumer.MarkCommitRecords(batch...)
		}
	}
}

// executeAll executes the records of a batch, the products beside each other, the requests for each in their order and in one
// transaction. It returns false where ctx ended before all had their result.
func (l *kafkaLink) executeAll(ctx context.Context, batch []*kgo.Record) bool {
	byProduct := map[int64][]kafkaRequest{}
	defer l.k.oldest.Store(0)
	for _, r := range batch {
		var m kafkaRequest
		if err := json.Unmarshal(r.Value, &m); err != nil {
			l.k.log("a request that cannot be read is skipped", err)
			continue
		}
		switch {
		case m.probe():
			l.send(m.ReplyTo, kafkaAnswer{ID: m.Order.ID})
		case time.Since(time.UnixMicro(m.Order.CreatedMicros)) > kafkaLifetime:
			l.reply(m, &ticket{err: errTooOld})
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

// execute commits a batch and sends its answers. What has no final result is tried again: it happens once. "No, for now" is none:
// the record may have been executed by somebody who died then, or be delivered again, and be executed after all.
func (l *kafkaLink) execute(ctx context.Context, product int64, batch []kafkaRequest) {
	for len(batch) > 0 {
		tickets := make([]*ticket, len(batch))
		for i, m := range batch {
			tickets[i] = m.ticket()
		}
		l.k.deps.commit(product, tickets)
		l.k.deps.Steps.At(context.Background(), step.Committed, "")
		var again []kafkaRequest
		var why error
		for i, t := range tickets {
			if t.panicked == nil && !final(t.err) {
				again, why = append(again, batch[i]), t.err
				continue
			}
			l.reply(batch[i], t)
		}
		if batch = again; ctx.Err() != nil {
			return
		}
		if len(batch) > 0 {
			l.k.rest(ctx, why)
		}
	}
}

// errTooOld is a record whose rows may have been purged; see kafkaLifetime. Nothing says whether it was executed. It will not be now.
var errTooOld = fmt.Errorf("%w: the record is older than %s", ErrUnknown, kafkaLifetime)

// final says that a request has a result that another delivery of it would not change.
func final(err error) bool {
	return err == nil || errors.Is(err, errOtherRun) || errors.Is(err, ErrSoldOut) || errors.Is(err, ErrKeyReused) || errors.Is(err, ErrUnknownProduct) || errors.Is(err, ErrSegmented)
}

// ticket is the request on its way through the group commit. Its steps are nobody's in this process.
func (m kafkaRequest) ticket() *ticket {
	return &ticket{
		ctx: context.Background(), order: m.Order, fingerprint: m.Fingerprint, run: m.Run,
		answer: func(r Receipt, err error) idempotency.Answer {
			var refused *SoldOutError
			if errors.As(err, &refused) {
				return m.Refused.fill(refused.Available)
			}
			return m.Sold.fill(*r.Remaining)
		},
	}
}

// reply sends the result of a request to the replica that asked.
func (l *kafkaLink) reply(m kafkaRequest, t *ticket) {
	a := kafkaAnswer{ID: m.Order.ID, Stored: t.receipt.Stored, Replayed: t.receipt.Replayed}
	var refused *SoldOutError
	switch {
	case t.panicked != nil: // nothing happened now; a delivery before this one may have gone through
		l.k.log("panic", fmt.Errorf("order %s: %v", m.Order.ID, t.panicked))
		a.failed(fmt.Errorf("%w: it panicked", ErrUnknown))
	case errors.As(t.err, &refused):
		a.Refused, a.Count = true, refused.Available
	case t.err != nil:
		a.failed(t.err)
	case t.receipt.Remaining != nil:
		a.Count = *t.receipt.Remaining
	}
	l.send(m.ReplyTo, a)
}

// send produces an answer. Where that fails, its request hears nothing, and is answered "unknown".
func (l *kafkaLink) send(to int32, a kafkaAnswer) {
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
