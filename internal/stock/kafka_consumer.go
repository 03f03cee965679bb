package stock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lastitem/internal/idempotency"
	"lastitem/internal/step"
)

// Partitions of the topics. Requests: as many replicas as that can consume at once. Answers: each replica reads one, and drops what
// is meant for another one that has drawn the same.
const (
	requestPartitions = 12
	answerPartitions  = 16
)

// A consumer that is silent for kafkaSession is taken to be dead, and its partitions go to others: that is how long their products
// stand still.
const (
	kafkaSession   = 6 * time.Second
	kafkaHeartbeat = time.Second
	kafkaRetry     = 100 * time.Millisecond
)

// kafkaDeductor asks and, as a member of the group of all replicas, answers.
type kafkaDeductor struct {
	deps              Deps
	requests, answers string      // topics
	partition         int32       // of answers, where this replica listens
	client            *kgo.Client // produces, and reads answers
	ready             chan struct{}

	mu      sync.Mutex
	waiting map[string]chan kafkaAnswer // by id
}

// newKafka starts to connect, and goes on until it succeeds or the shop closes.
func newKafka(d Deps) (Deductor, error) {
	prefix := strings.ReplaceAll(d.Prefix, ":", "-") // Kafka's names have no colon
	k := &kafkaDeductor{
		deps: d, requests: prefix + "requests", answers: prefix + "answers", partition: rand.Int32N(answerPartitions), //nolint:gosec // any
		ready: make(chan struct{}), waiting: map[string]chan kafkaAnswer{},
	}
	var err error
	k.client, err = d.Kafka(kgo.ProducerLinger(0), kgo.RecordPartitioner(byPartition(k.answers)), kgo.RecordDeliveryTimeout(settleTimeout))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { k.work(ctx, prefix+"shop") })
	d.OnClose(func(ctx context.Context) error {
		cancel()
		running.Wait()
		// The last answers: their offsets may be committed. Who waits for one that cannot be sent knows nothing, and is told so.
		ctx, done := context.WithTimeout(ctx, kafkaRetry)
		defer done()
		_ = k.client.Flush(ctx)
		k.client.Close()
		return nil
	})
	return k, nil
}

// byPartition sends what goes to the topic of answers to the partition that the record names, all else by the hash of its key.
func byPartition(answers string) kgo.Partitioner {
	byKey, manual := kgo.StickyKeyPartitioner(nil), kgo.ManualPartitioner()
	return partitioner(func(topic string) kgo.TopicPartitioner {
		if topic == answers {
			return manual.ForTopic(topic)
		}
		return byKey.ForTopic(topic)
	})
}

type partitioner func(topic string) kgo.TopicPartitioner

// ForTopic calls p.
func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner { return p(topic) }

// work makes the topics, and reads answers and requests until ctx ends.
func (k *kafkaDeductor) work(ctx context.Context, group string) {
	for err := k.prepare(ctx); err != nil; err = k.prepare(ctx) {
		k.rest(ctx, err)
		if ctx.Err() != nil {
			return
		}
	}
	consumer, err := k.deps.Kafka(
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(k.requests), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.SessionTimeout(kafkaSession), kgo.HeartbeatInterval(kafkaHeartbeat),
	)
	if err != nil { // the options are wrong: no try would help
		k.log("consumer", err)
		return
	}
	var reading sync.WaitGroup
	reading.Go(func() { k.readAnswers(ctx) })
	close(k.ready)
	for ctx.Err() == nil {
		k.serve(ctx, consumer)
	}
	reading.Wait()
	consumer.Close() // leaves the group
}

func (k *kafkaDeductor) log(what string, err error) {
	if k.deps.Log != nil {
		k.deps.Log.Warn("kafka", "what", what, "err", err)
	}
}

// prepare makes the topics if they are new, and finds the end of the partition of answers by writing there: from that on this
// replica misses nothing that it asks for.
func (k *kafkaDeductor) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for topic, partitions := range map[string]int32{k.requests: requestPartitions, k.answers: answerPartitions} {
		create := kmsg.NewPtrCreateTopicsRequest()
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, -1 // as many copies as the broker's default says
		create.Topics = append(create.Topics, t)
		resp, err := create.RequestWith(ctx, k.client)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
				return err
			}
		}
	}
	r, err := k.client.ProduceSync(ctx, &kgo.Record{Topic: k.answers, Partition: k.partition}).First()
	if err != nil {
		return err
	}
	k.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{k.answers: {k.partition: kgo.NewOffset().At(r.Offset)}})
	return nil
}

// expect returns where the answer to a request will be.
func (k *kafkaDeductor) expect(id string) <-chan kafkaAnswer {
	c := make(chan kafkaAnswer, 1)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting[id] = c
	return c
}

func (k *kafkaDeductor) forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.waiting, id)
}

// readAnswers hands answers to those who wait for them. The second one to a request that was delivered twice is dropped.
func (k *kafkaDeductor) readAnswers(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := k.client.PollFetches(ctx)
		k.rest(ctx, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			var a kafkaAnswer
			if json.Unmarshal(r.Value, &a) != nil {
				return
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			if c := k.waiting[a.ID]; c != nil {
				delete(k.waiting, a.ID)
				c <- a
			}
		})
	}
}

// serve executes what one poll brings: the products beside each other, the requests for each in their order and in one
// transaction. Offsets are committed last: who dies before has it delivered again, to another one.
func (k *kafkaDeductor) serve(ctx context.Context, consumer *kgo.Client) {
	fetches := consumer.PollRecords(ctx, queueBatch)
	k.rest(ctx, fetches.Err())
	byProduct := map[int64][]kafkaRequest{}
	fetches.EachRecord(func(r *kgo.Record) {
		var m kafkaRequest
		if err := json.Unmarshal(r.Value, &m); err != nil {
			k.log("request", err)
			return
		}
		byProduct[m.Order.ProductID] = append(byProduct[m.Order.ProductID], m)
	})
	var products sync.WaitGroup
	for product, batch := range byProduct {
		products.Go(func() { k.execute(ctx, product, batch) })
	}
	products.Wait()
	if len(byProduct) == 0 || ctx.Err() != nil {
		return
	}
	if err := consumer.CommitRecords(ctx, fetches.Records()...); err != nil {
		k.log("commit of offsets", err) // they come again, to no effect
	}
}

// execute commits a batch and sends its answers. What has no final result is tried again: behind its key it happens once. "No, for
// now" is none: the record may have been executed by somebody who died then, or be delivered again, and be executed after all.
func (k *kafkaDeductor) execute(ctx context.Context, product int64, batch []kafkaRequest) {
	for len(batch) > 0 {
		tickets := make([]*ticket, len(batch))
		for i, m := range batch {
			tickets[i] = m.ticket()
		}
		k.deps.commit(product, tickets)
		k.deps.Steps.At(context.Background(), step.Committed, "")
		var again []kafkaRequest
		for i, t := range tickets {
			if t.panicked == nil && !final(t.err) {
				again = append(again, batch[i])
				continue
			}
			k.send(batch[i], t)
		}
		if batch = again; ctx.Err() != nil {
			return
		}
		if len(batch) > 0 {
			k.rest(ctx, ErrUnknown)
		}
	}
}

// rest logs an error, and waits before what had it is tried again. Without one it does nothing.
func (k *kafkaDeductor) rest(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	if k.deps.Log != nil { // that the brokers are down, the health check says
		k.deps.Log.Debug("kafka", "what", "trying again", "err", err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(kafkaRetry):
	}
}

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

// send sends the answer to the replica that asked.
func (k *kafkaDeductor) send(m kafkaRequest, t *ticket) {
	a := kafkaAnswer{ID: m.Order.ID, Stored: t.receipt.Stored, Replayed: t.receipt.Replayed}
	var refused *SoldOutError
	switch {
	case t.panicked != nil: // nothing happened now; a delivery before this one may have gone through
		k.log("panic", fmt.Errorf("order %s: %v", m.Order.ID, t.panicked))
		a.failed(fmt.Errorf("%w: it panicked", ErrUnknown))
	case errors.As(t.err, &refused):
		a.Refused, a.Count = true, refused.Available
	case t.err != nil:
		a.failed(t.err)
	case t.receipt.Remaining != nil:
		a.Count = *t.receipt.Remaining
	}
	value, err := json.Marshal(a)
	if err != nil {
		k.log("answer", err)
		return
	}
	k.client.Produce(context.Background(), &kgo.Record{Topic: k.answers, Partition: m.ReplyTo, Value: value}, func(_ *kgo.Record, err error) {
		if err != nil {
			k.log("answer", err)
		}
	})
}
