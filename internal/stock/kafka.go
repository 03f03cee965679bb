package stock

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lastitem/internal/step"
	"lastitem/internal/store"
)

// kafka puts the queue outside the process. The request is a record in the partition of its product; whichever replica consumes
// that partition runs the transaction of queue on what the polls have brought, and sends the answer back to the replica that
// asked. The log outlives every process. It delivers at least once, so a request has an effect once: by its idempotency key, or,
// without one, by the id of its order.
//
//	replica 1   A: produce ─────────────────────────────────────────────── answer: 200
//	replica 2   poll: A, B ── UPDATE, INSERTs, COMMIT ── answers ── kill -9, offsets not committed
//	replica 3                                                          poll: A, B again ── rows found: the same answers
var kafka = Mode{
	Name:   "kafka",
	Title:  Text{"One partition per product, one consumer, the same transaction", "同一商品进同一分区，单消费者，与 queue 同样的事务"},
	Needs:  []Backend{NeedSQL, NeedKafka},
	Queued: true,
	Stores: []Store{SQL},
	Claims: map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: "–", Late: "–", Pause: ".", Crash: ".", Failover: "–", Retry: ".", LateWrite: "."},
	},
	New: newKafka,
}

func (k *kafkaDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	k.deps.Steps.At(ctx, step.Waiting, "")
	l, partition, err := k.route(req.Items[0].ProductID)
	if err != nil {
		return Receipt{}, err // nothing is produced that nobody would execute soon
	}
	m, err := k.message(ctx, req)
	if err != nil {
		return Receipt{}, err
	}
	if ctx.Err() != nil {
		return Receipt{}, contended(ctx)
	}
	m.ReplyTo = l.listens
	a, err := l.ask(ctx, partition, m)
	if err != nil {
		return Receipt{}, err
	}
	r, err := a.result(m, req)
	if err == nil && !r.Replayed {
		// The consumer, which may be another process, has passed them; this deduction does so now.
		for _, p := range []step.Point{step.Written, step.Ordered, step.Committed} {
			k.deps.Steps.At(ctx, p, "")
		}
	}
	return r, err
}

// message is the request as the consumer needs it, which may be another replica: the order complete but for what is left, and both
// answers but for a number, and the run that the product is in.
func (k *kafkaDeductor) message(ctx context.Context, req Request) (kafkaRequest, error) {
	item := req.Items[0]
	order, err := k.deps.newOrder(item, req, nil, 0)
	if err != nil {
		return kafkaRequest{}, err
	}
	m := kafkaRequest{
		Order: order,
		Sold:  onWire(soldTemplate(req, []store.Order{order})), Refused: onWire(refusedTemplate(req, item)),
	}
	if m.Fingerprint, err = fingerprint(req); err != nil {
		return m, err
	}
	m.Run, err = k.runs.read(ctx, item.ProductID)
	return m, err
}

// contended is for a request whose client has gone before anything was sent.
func contended(ctx context.Context) error {
	return fmt.Errorf("%w: gave up before it was sent: %w", ErrContended, context.Cause(ctx))
}

// ask produces a request and waits for its answer. Once it is sent, a client that hangs up ends nothing.
func (l *kafkaLink) ask(ctx context.Context, partition int32, m kafkaRequest) (kafkaAnswer, error) {
	value, err := json.Marshal(m)
	if err != nil {
		return kafkaAnswer{}, err
	}
	if err := begin(ctx); err != nil {
		return kafkaAnswer{}, err
	}
	ctx, cancel := settling(ctx)
	defer cancel()
	answer := l.k.expect(m.Order.ID)
	defer l.k.forget(m.Order.ID)
	produced := make(chan error, 1)
	// The record has a context of its own. An answer may come before the broker has acknowledged the record; a context that ends then
	// would cancel the produce request, with the records of all others that are in it.
	sent, done := settling(ctx)
	l.client.Produce(sent, &kgo.Record{
		Topic: l.requests.name, Partition: partition, Key: productKey(m.Order.ProductID), Value: value, Headers: headers(ctx),
	}, func(_ *kgo.Record, err error) {
		done()
		produced <- err
	})
	for {
		select {
		case a := <-answer:
			return a, nil
		case err := <-produced:
			if err != nil {
				l.k.doubt(l, partition)
				return kafkaAnswer{}, fmt.Errorf("%w: kafka: %w", ErrUnknown, err)
			}
			produced = nil
		case <-ctx.Done():
			l.k.doubt(l, partition)
			return kafkaAnswer{}, fmt.Errorf("%w: kafka: no answer in %s", ErrUnknown, settleTimeout)
		}
	}
}

// headers are the names of the request, for who follows it through the log: traceparent where it has one, as Kafka clients write it.
func headers(ctx context.Context) []kgo.RecordHeader {
	t := step.FromContext(ctx)
	if t == nil {
		return nil
	}
	all := []kgo.RecordHeader{{Key: "request_id", Value: []byte(t.RequestID)}}
	if t.TraceParent != "" {
		all = append(all, kgo.RecordHeader{Key: "traceparent", Value: []byte(t.TraceParent)})
	}
	return all
}

// result is the answer as the request gets it.
func (a kafkaAnswer) result(m kafkaRequest, req Request) (Receipt, error) {
	if err := a.failure(req.Items[0].ProductID); err != nil {
		return Receipt{}, err
	}
	r := Receipt{Stored: a.Stored}
	switch {
	case a.Replayed:
		return Receipt{Stored: a.Stored, Replayed: true}, nil
	case a.Refused:
		return r, soldOut(req.Items[0], a.Count)
	}
	r.OrderID, r.Remaining = m.Order.ID, &a.Count
	return r, nil
}

// kafkaLifetime is the age from which a record is void: its request was answered "unknown" long ago. It bounds for how long what
// keeps a redelivered record from having a second effect must be kept, in three steps. Within one run that is the row of its key
// in idempotent_log or, without a key, its row in orders, which is kept at least as long. Where keys are kept for less than twice
// kafkaLifetime, half of that time is the bound instead ([Deps.KeepKeys]): the other half is for clocks that differ. In another run the record is void
// whatever its age. And the log itself keeps records for kafkaRetention where the topics are ours; where somebody else has made them
// with another retention, or none, nothing changes, since age and run are looked at in the record.
const (
	kafkaLifetime  = 10 * time.Minute
	kafkaRetention = time.Hour
)
