package stock

import (
	"context"

	"lastitem/contract/ledger"
	"lastitem/internal/step"
	"lastitem/say/text"
)

// kafka puts the queue outside the process. The request is a record in the partition of its product; the replica that
// consumes that partition runs the transaction of queue on the polled records, and sends each answer back to the
// replica that asked. The log outlives every process. It delivers at least once, so a duplicate is recognised by its
// idempotency key or, without one, by the id of its order.
//
//	replica 1   A: produce ─────────────────────────────────────────────── answer: 200
//	replica 2   poll: A, B ── UPDATE, INSERTs, COMMIT ── answers ── kill -9, offsets not committed
//	replica 3                                                          poll: A, B again ── rows found: the same answers
var kafka = Mode{
	Name:   "kafka",
	Title:  text.Of("Each product in one partition, one consumer, the same transaction"),
	Needs:  []Backend{NeedSQL, NeedKafka},
	Queued: true,
	Stores: []Store{SQL},
	Claims: map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: "–", Late: "–", Pause: ".", Crash: ".", Failover: "–", Retry: ".",
			Redelivery: ".", LateWrite: "."},
	},
	New: func(d Deps) (Deductor, error) { return kafkaDeductor{d}, nil },
}

type kafkaDeductor struct{ deps Deps }

// Deduct sends the request. The log executes it: it passes the consumed records to the same group commit as queue.
func (k kafkaDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	d := k.deps
	d.Steps.At(ctx, step.Waiting, "")
	order, err := d.Orders.New(req, nil, 0)
	if err != nil {
		return Receipt{}, err
	}
	ask := LogRequest{Order: order, Sold: soldTemplate(req, []ledger.Order{order}),
		Refused: refusedTemplate(req, req.Items[0])}
	if ask.Fingerprint, err = fingerprint(req); err != nil {
		return Receipt{}, err
	}
	r, err := d.Log.Ask(ctx, ask)
	if err == nil && !r.Replayed {
		// The consumer, which may be another process, has passed these steps; this deduction reports them now.
		for _, p := range []step.Point{step.Written, step.Ordered, step.Committed} {
			d.Steps.At(ctx, p, "")
		}
	}
	return r, err
}
