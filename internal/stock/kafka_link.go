package stock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What a replica has with the brokers, when it is usable, and when it is made new.

const (
	kafkaRetry  = 100 * time.Millisecond // between tries of what failed
	kafkaBeat   = 250 * time.Millisecond // between looks at what is not usable; see kafkaLink.watch
	kafkaLook   = time.Second            // between looks at the topics
	kafkaSilent = 3 * time.Second        // bounds a look, and a goodbye
)

// KafkaGroup is how the group of consumers finds out that one of them is dead.
type KafkaGroup struct {
	// Session is the silence after which a consumer is taken to be dead and its partitions go to others: that is how long their
	// products stand still. Brokers take 6 s or more unless they are told otherwise. 0 = 6 s.
	Session time.Duration
	// Heartbeat is how often a consumer says that it is alive; 0 = a sixth of Session.
	Heartbeat time.Duration
	// Rebalance is how long the others wait for a consumer when partitions are dealt out again; 0 = Session. Kafka's own default of a
	// minute is also how long a group stands still that waits for a consumer which it lost with a broker.
	Rebalance time.Duration
}

func (g KafkaGroup) opts(name string) []kgo.Opt {
	if g.Session <= 0 {
		g.Session = 6 * time.Second
	}
	if g.Heartbeat <= 0 {
		g.Heartbeat = g.Session / 6
	}
	if g.Rebalance <= 0 {
		g.Rebalance = g.Session
	}
	return []kgo.Opt{
		kgo.ConsumerGroup(name), kgo.SessionTimeout(g.Session), kgo.HeartbeatInterval(g.Heartbeat), kgo.RebalanceTimeout(g.Rebalance),
	}
}

// kafkaDeductor asks and, as a member of the group of all replicas, answers.
type kafkaDeductor struct {
	deps   Deps
	prefix string // of topics and group
	runs   *runReader
	oldest atomic.Int64 // when the oldest request was made that this replica is executing, Unix microseconds; 0 = it executes none

	mu      sync.Mutex
	link    *kafkaLink                  // nil while there is none
	why     string                      // there is none, or no partition of it is usable
	waiting map[string]chan kafkaAnswer // by id of the request
}

// kafkaLink is one set of clients, on topics as they were found.
type kafkaLink struct {
	k                 *kafkaDeductor
	client            *kgo.Client // produces, and reads answers
	consumer          *kgo.Client // is in the group
	requests, answers kafkaTopic
	listens           int32 // partition of answers

	id     string // of this link's probes
	served []bool // partitions of requests that a consumer answers from; under the deductor's mutex, like round
	round  int    // of doubts
}

// newKafka starts to connect, and goes on until the shop closes.
func newKafka(d Deps) (Deductor, error) {
	k := &kafkaDeductor{
		deps: d, prefix: strings.ReplaceAll(d.Prefix, ":", "-"), // Kafka's names have no colon
		runs: &runReader{of: d.SQL.Run, calls: map[int64]*runCalls{}}, why: "no broker has answered yet", waiting: map[string]chan kafkaAnswer{},
	}
	if d.Gauge != nil {
		d.Gauge("shop_kafka_lag_seconds", "Age of the oldest request from Kafka that this replica is executing; 0 while there is none.", k.lag)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { k.work(ctx) })
	d.OnClose(func(context.Context) error {
		cancel()
		running.Wait()
		return nil
	})
	d.UsableWhen(k.usable)
	return k, nil
}

// lag is the age of the oldest request in the batch that is being executed, in seconds: it grows while the database hangs, and with the
// time that requests have waited in the log.
func (k *kafkaDeductor) lag() float64 {
	if oldest := k.oldest.Load(); oldest != 0 {
		return max(0, time.Since(time.UnixMicro(oldest)).Seconds())
	}
	return 0
}

// work keeps a link until ctx ends.
func (k *kafkaDeductor) work(ctx context.Context) {
	for ctx.Err() == nil {
		l, err := k.open(ctx)
		if err == nil {
			k.set(l, "its consumers have not answered yet")
			err = l.run(ctx)
			k.set(nil, "starting over")
			l.close()
			if ctx.Err() == nil {
				k.log("starting over", err)
			}
		}
		k.rest(ctx, err)
	}
}

// set replaces the link. Whoever waits for an answer over the one before gets none.
func (k *kafkaDeductor) set(l *kafkaLink, why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.link, k.why = l, why
	for id, c := range k.waiting {
		delete(k.waiting, id)
		c <- kafkaAnswer{ID: id, Error: "unknown", Detail: "the topics or the brokers were lost meanwhile"}
	}
}

// open finds or makes the topics, and makes the clients. The end of the partition of answers it finds by writing there: from that on
// this replica misses nothing that it asks for.
func (k *kafkaDeductor) open(ctx context.Context) (l *kafkaLink, err error) {
	l = &kafkaLink{k: k, id: uuid.NewString()}
	defer func() {
		if err != nil {
			l.close()
			k.failing(err)
		}
	}()
	// A record may be in the log twice, since its request has one effect anyway. So the producer need not be idempotent: one that is
	// keeps a record whose request has given up, and sends it when the broker is back.
	if l.client, err = k.deps.Kafka(
		kgo.ProducerLinger(kafkaLinger), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(),
		kgo.RecordDeliveryTimeout(settleTimeout), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	); err != nil {
		return l, err
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := k.prepare(ctx, l); err != nil {
		return l, err
	}
	l.listens = rand.Int32N(l.answers.partitions) //nolint:gosec // any
	l.served = make([]bool, l.requests.partitions)
	r, err := l.client.ProduceSync(ctx, &kgo.Record{Topic: l.answers.name, Partition: l.listens}).First()
	if err != nil {
		return l, err
	}
	l.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{l.answers.name: {l.listens: kgo.NewOffset().At(r.Offset)}})
	l.consumer, err = k.deps.Kafka(append(k.deps.KafkaGroup.opts(k.prefix+"shop"),
		kgo.ConsumeTopics(l.requests.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitMarks(), kgo.AutoCommitInterval(kafkaCommit))...)
	return l, err
}

// kafkaLinger is how long a record waits for company. Requests and answers come in bursts, since each batch answers many at once; sent
// as they come, they make twice as many requests to the broker and fetches from it, and those are what a busy shop spends its time on.
// 5 ms makes even fewer requests and fewer sales: requests and answers both wait.
const kafkaLinger = 2 * time.Millisecond

// kafkaCommit is how often offsets are committed. What is delivered again because they were not has no effect.
const kafkaCommit = 200 * time.Millisecond

// run consumes, reads answers and watches until ctx ends or the link is of no use any more, and says why.
func (l *kafkaLink) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	records := make(chan *kgo.Record, queueBatch)
	running.Go(func() { l.poll(ctx, records) })
	running.Go(func() { l.serve(ctx, records) })
	running.Go(func() { cancel(l.readAnswers(ctx)) })
	running.Go(func() { cancel(l.watch(ctx)) })
	<-ctx.Done()
	running.Wait()
	return context.Cause(ctx)
}

// close ends the clients. It says goodbye to the group, and sends the last answers, but waits for neither for long.
func (l *kafkaLink) close() {
	ctx, done := context.WithTimeout(context.Background(), kafkaSilent)
	defer done()
	if l.consumer != nil {
		_ = l.consumer.LeaveGroupContext(ctx)
		l.consumer.Close()
	}
	if l.client != nil {
		_ = l.client.Flush(ctx)
		l.client.Close()
	}
}

// readAnswers hands answers to those who wait for them, and returns when what it reads from is not there any more. The second
// answer to a request that was delivered twice is dropped.
func (l *kafkaLink) readAnswers(ctx context.Context) error {
	for ctx.Err() == nil {
		fetches := l.client.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			if lost(e.Err) {
				return fmt.Errorf("%s/%d: %w", e.Topic, e.Partition, e.Err)
			}
		}
		l.k.rest(ctx, fetches.Err())
		for r := range fetches.RecordsAll() {
			var a kafkaAnswer
			if json.Unmarshal(r.Value, &a) == nil {
				l.k.deliver(l, a)
			}
		}
	}
	return ctx.Err()
}

// lost says that a topic, or what was in it, is gone.
func lost(err error) bool {
	var data *kgo.ErrDataLoss
	for _, e := range []error{kerr.UnknownTopicID, kerr.InconsistentTopicID, kerr.UnknownTopicOrPartition, kerr.OffsetOutOfRange} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.As(err, &data)
}

// watch looks at the topics every second, and returns an error when they are not those that the link was made on. Partitions that are
// not served it probes: with a request for nothing, which whoever consumes the partition answers.
func (l *kafkaLink) watch(ctx context.Context) error {
	ticks := time.NewTicker(kafkaBeat)
	defer ticks.Stop()
	answers := true // a broker does
	for beat := 0; ; beat++ {
		if beat%int(kafkaLook/kafkaBeat) == 0 || !answers {
			err := l.look(ctx)
			if errors.Is(err, errTopicsChanged) {
				return err
			}
			if answers = err == nil; err != nil && ctx.Err() == nil {
				l.k.doubtAll(l, "no broker answers: "+err.Error())
			}
		}
		if answers {
			l.probe(ctx)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks.C:
		}
	}
}

// probe asks the consumers of the partitions that are not served whether they are there.
func (l *kafkaLink) probe(ctx context.Context) {
	for _, m := range l.k.probes(l) {
		value, err := json.Marshal(m)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, kafkaSilent)
		l.client.TryProduce(ctx, &kgo.Record{Topic: l.requests.name, Partition: m.partition, Value: value}, func(_ *kgo.Record, err error) {
			cancel()
			if err != nil {
				l.k.debug("probe", err)
			}
		})
	}
}
