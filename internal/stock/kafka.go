package stock

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lastitem/internal/step"
	"lastitem/internal/store"
)

// kafka puts the queue outside the process. The request is a record in the partition of its product; whichever replica consumes
// that partition runs the transaction of queue on what a poll brings, and sends the answer back to the replica that asked. The
// log outlives every process. It delivers at least once, so each request is executed behind its idempotency key, or an id of
// its own where it has none.
//
//	replica 1   A: produce ─────────────────────────────────────────────── answer: 200
//	replica 2   poll: A, B ── UPDATE, INSERTs, COMMIT ── answers ── kill -9, offsets not committed
//	replica 3                                                          poll: A, B again ── keys known: the same answers
var kafka = Mode{
	Name:   "kafka",
	Title:  Text{"One partition per product, one consumer, the same transaction", "同一商品进同一分区，单消费者，与 queue 同样的事务"},
	Needs:  []Backend{NeedSQL, NeedKafka},
	Stores: []Store{SQL},
	Claims: map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: "–", Late: "–", Pause: ".", Crash: ".", Failover: "–", Retry: ".", LateWrite: "."},
	},
	New: newKafka,
}

// kafkaStart is how long a request waits for a replica that is making its topics and joining the group, however short its own wait.
const kafkaStart = 5 * time.Second

func (k *kafkaDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	k.deps.Steps.At(ctx, step.Waiting, "")
	late := time.NewTimer(max(req.Wait, kafkaStart))
	defer late.Stop()
	select { // in whatever case, nothing has been sent
	case <-k.ready:
	case <-late.C:
		return Receipt{}, fmt.Errorf("%w: kafka: no broker has answered yet", ErrUnavailable)
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return Receipt{}, fmt.Errorf("%w: gave up before it was sent: %w", ErrContended, context.Cause(ctx))
	}
	m, err := k.message(ctx, req)
	if err != nil {
		return Receipt{}, err
	}
	a, err := k.ask(ctx, m)
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
	order, err := k.deps.newOrder("kafka", item, req, nil, 0)
	if err != nil {
		return kafkaRequest{}, err
	}
	if len(order.Key) == 0 {
		order.Key = []byte(order.ID) // delivered twice, it is executed once
	}
	m := kafkaRequest{
		Order: order, ReplyTo: k.partition,
		Sold: onWire(soldTemplate(req, []store.Order{order})), Refused: onWire(refusedTemplate(req, item)),
	}
	if m.Fingerprint, err = fingerprint(req); err != nil {
		return m, err
	}
	m.Run, err = k.deps.SQL.Run(ctx, item.ProductID)
	return m, err
}

// ask produces the request and waits for its answer. Once it is sent, a client that hangs up ends nothing.
func (k *kafkaDeductor) ask(ctx context.Context, m kafkaRequest) (kafkaAnswer, error) {
	value, err := json.Marshal(m)
	if err != nil {
		return kafkaAnswer{}, err
	}
	if err := begin(ctx); err != nil {
		return kafkaAnswer{}, err
	}
	ctx, cancel := settling(ctx)
	defer cancel()
	answer := k.expect(m.Order.ID)
	defer k.forget(m.Order.ID)
	produced := make(chan error, 1)
	k.client.Produce(ctx, &kgo.Record{
		Topic: k.requests, Key: strconv.AppendInt(nil, m.Order.ProductID, 10), Value: value,
	}, func(_ *kgo.Record, err error) { produced <- err })
	for {
		select {
		case a := <-answer:
			return a, nil
		case err := <-produced:
			if err != nil {
				return kafkaAnswer{}, fmt.Errorf("%w: kafka: %w", ErrUnknown, err)
			}
			produced = nil
		case <-ctx.Done():
			return kafkaAnswer{}, fmt.Errorf("%w: kafka: no answer in %s", ErrUnknown, settleTimeout)
		}
	}
}

// result is the answer as the request gets it.
func (a kafkaAnswer) result(m kafkaRequest, req Request) (Receipt, error) {
	if err := a.failure(req.Items[0].ProductID); err != nil {
		return Receipt{}, err
	}
	r := Receipt{Stored: a.Stored}
	own := len(req.Key) == 0 // its id is nobody else's: what was found under it is this request's first answer, delivered twice
	switch {
	case a.Replayed && !own:
		return Receipt{Stored: a.Stored, Replayed: true}, nil
	case a.Refused || a.Stored != nil && a.Replayed && a.Stored.Status >= 300:
		return r, soldOut(req.Items[0], a.Count)
	}
	r.OrderID = m.Order.ID
	if !a.Replayed {
		r.Remaining = &a.Count
	}
	return r, nil
}
