package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lastitem/internal/step"
	"lastitem/internal/stock"
)

// The half of a log that asks.

// Ask produces a request to the partition of its product, and waits for its answer.
func (k *Log) Ask(ctx context.Context, r stock.LogRequest) (stock.Receipt, error) {
	l, partition, err := k.route(r.Order.ProductID)
	if err != nil {
		return stock.Receipt{}, err // nothing is produced that nobody would execute soon
	}
	m := request{Order: r.Order, Fingerprint: r.Fingerprint, Sold: onWire(r.Sold), Refused: onWire(r.Refused),
		ReplyTo: l.listens}
	if m.Run, err = k.runs.read(ctx, r.Order.ProductID); err != nil {
		return stock.Receipt{}, err
	}
	if ctx.Err() != nil {
		return stock.Receipt{}, contended(ctx)
	}
	a, err := l.ask(ctx, partition, m)
	if err != nil {
		return stock.Receipt{}, err
	}
	return a.result(m)
}

// contended is for a request whose client has gone before anything was sent.
func contended(ctx context.Context) error {
	return fmt.Errorf("%w: gave up before it was sent: %w", stock.ErrContended, context.Cause(ctx))
}

// ask produces a request and waits for its answer. Once it is sent, a client that hangs up ends nothing.
func (l *link) ask(ctx context.Context, partition int32, m request) (answer, error) {
	value, err := json.Marshal(m)
	if err != nil {
		return answer{}, err
	}
	answered, err := l.k.expect(l, m.Order.ID)
	if err != nil {
		return answer{}, err
	}
	defer l.k.forget(m.Order.ID)
	if err := stock.Begin(ctx); err != nil {
		return answer{}, err
	}
	ctx, cancel := stock.Settling(ctx)
	defer cancel()
	produced := make(chan error, 1)
	// The record has a context of its own. An answer may come before the broker has acknowledged the record; a context
	// that ends then would cancel the produce request, with the records of all others that are in it.
	sent, done := stock.Settling(ctx)
	l.client.Produce(sent, &kgo.Record{
		Topic: l.requests.name, Partition: partition, Key: productKey(m.Order.ProductID), Value: value, Headers: headers(ctx),
	}, func(_ *kgo.Record, err error) {
		done()
		produced <- err
	})
	for {
		select {
		case a := <-answered:
			return a, nil
		case err := <-produced:
			if err != nil {
				l.k.doubt(l, partition)
				return answer{}, fmt.Errorf("%w: kafka: %w", stock.ErrUnknown, err)
			}
			produced = nil
		case <-ctx.Done():
			l.k.doubt(l, partition)
			return answer{}, fmt.Errorf("%w: kafka: no answer in %s", stock.ErrUnknown, stock.SettleTimeout)
		}
	}
}

// headers identify the request to readers of the log: its id and, if it has one, its traceparent, as Kafka clients
// write it.
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
func (a answer) result(m request) (stock.Receipt, error) {
	if err := a.failure(m.Order.ProductID); err != nil {
		return stock.Receipt{}, err
	}
	r := stock.Receipt{Stored: a.Stored}
	switch {
	case a.Replayed:
		return stock.Receipt{Stored: a.Stored, Replayed: true}, nil
	case a.Refused:
		return r, &stock.SoldOutError{ProductID: m.Order.ProductID, Requested: m.Order.Quantity, Available: a.Count}
	}
	r.OrderID, r.Remaining = m.Order.ID, &a.Count
	return r, nil
}

// Lifetime is the age from which a record is void: its request was answered "unknown" long ago. Until then a duplicate
// must find a row that keeps it from having a second effect. Within one run that is the row of its key in
// idempotent_log or, without a key, its row in orders. Where keys are kept for less than twice Lifetime, a record is
// void after half of that time ([idempotency.Retention.Oldest]): the other half is for clocks that differ. In another
// run a record is void at any age. Topics that this shop makes keep records for topicRetention. Topics made by somebody
// else may have another retention, or none: that changes nothing, since each record has its time and its run.
const (
	Lifetime       = 10 * time.Minute
	topicRetention = time.Hour
)
