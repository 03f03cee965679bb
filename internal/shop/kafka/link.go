package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"lastitem/internal/stock"
)

// The connection of a replica to the brokers: when it is made, used and replaced.

const (
	retryAfter = 100 * time.Millisecond // between tries of what failed
	beatEvery  = 250 * time.Millisecond // between looks at what is not usable; see link.watch
	lookEvery  = time.Second            // between looks at the topics
	silent     = 3 * time.Second        // bounds a look, and a goodbye
	deafFor    = 10 * time.Second       // from then on a partition of answers without a leader is given up for another
)

// link is one set of clients, on topics as they were found.
type link struct {
	k                 *Log
	client            *kgo.Client // produces, and reads answers
	consumer          *kgo.Client // is in the group
	requests, answers topic
	listens           int32 // partition of answers

	end     context.CancelCauseFunc // ends run, which returns the cause
	abandon func()                  // ends what the consumer waits for
	id      string                  // of this link's probes
	served  []bool                  // by partition of requests: its consumer answers. Under the Log's mutex, like round
	round   int                     // of doubts
}

// work keeps a link until ctx ends.
func (k *Log) work(ctx context.Context) {
	for ctx.Err() == nil {
		l, err := k.open(ctx)
		if err == nil {
			k.set(l, "its consumers have not answered yet")
			err = l.run(ctx)
			l.close()
			if ctx.Err() == nil {
				k.log("starting over", err)
			}
		}
		k.rest(ctx, err)
	}
}

// set replaces the link. Requests that wait for an answer over the old one are answered "unknown".
func (k *Log) set(l *link, why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.link, k.why = l, why
	for id, c := range k.waiting {
		delete(k.waiting, id)
		c <- answer{ID: id, Error: "unknown", Detail: "the topics or the brokers were lost meanwhile"}
	}
}

// ready is nil if the database could commit what this replica would consume. A replica that cannot commit must not be a
// consumer: the group sees its heartbeats, and would leave it its partitions for ever.
func (k *Log) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stock.SettleTimeout)
	defer cancel()
	if err := k.o.Ready(ctx); err != nil {
		return fmt.Errorf("%w: %w", errNoDatabase, err)
	}
	return nil
}

// errNoDatabase is why a replica that reaches the brokers is no consumer.
var errNoDatabase = errors.New("the database of this replica cannot commit")

// open waits for the database, finds or makes the topics, and makes the clients. It writes a record to the partition of
// answers, and reads the partition from that record on: so it misses no answer to a request that it sends later.
func (k *Log) open(ctx context.Context) (l *link, err error) {
	l = &link{k: k, id: uuid.NewString()}
	defer func() {
		if err != nil {
			l.close()
			k.failing(err)
		}
	}()
	if err := k.ready(ctx); err != nil {
		return l, err
	}
	// A record may be in the log twice, since its request has one effect anyway. So the producer need not be idempotent.
	// An idempotent one would keep a record whose request has given up, and send it when the broker is back.
	if l.client, err = k.o.Client(
		kgo.ProducerLinger(linger), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(),
		kgo.RecordDeliveryTimeout(stock.SettleTimeout), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	); err != nil {
		return l, err
	}
	ctx, cancel := context.WithTimeout(ctx, stock.SettleTimeout)
	defer cancel()
	if err := k.prepare(ctx, l); err != nil {
		return l, err
	}
	l.listens = l.answers.draw()
	l.served = make([]bool, l.requests.partitions)
	r, err := l.client.ProduceSync(ctx, &kgo.Record{Topic: l.answers.name, Partition: l.listens}).First()
	if err != nil {
		return l, err
	}
	l.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{l.answers.name: {l.listens: kgo.NewOffset().
		At(r.Offset)}})
	whole, abandon := context.WithCancel(context.Background())
	l.abandon = abandon
	l.consumer, err = k.o.Client(append(k.o.Group.opts(k.prefix+"shop"), kgo.WithContext(whole),
		kgo.ConsumeTopics(l.requests.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitMarks(), kgo.AutoCommitInterval(commitEvery))...)
	return l, err
}

// linger is how long a record waits for others, to be sent with them. Each batch answers many requests at once, so
// records come in bursts. Sent one by one, they cost twice as many produce requests and fetches, on which a busy shop
// spends its time. 5 ms makes even fewer requests, but also fewer sales, because requests and answers both wait.
const linger = 2 * time.Millisecond

// commitEvery is how often offsets are committed. A record delivered again for lack of a commit has no effect.
const commitEvery = 200 * time.Millisecond

// run consumes, reads answers and watches until ctx ends or the link is of no use any more, and says why.
func (l *link) run(ctx context.Context) error {
	ctx, l.end = context.WithCancelCause(ctx)
	var running sync.WaitGroup
	records := make(chan *kgo.Record, batchLimit)
	running.Go(func() { l.poll(ctx, records) })
	running.Go(func() { l.serve(ctx, records) })
	running.Go(func() { l.end(l.readAnswers(ctx)) })
	running.Go(func() { l.end(l.watch(ctx)) })
	<-ctx.Done()
	l.k.set(nil, "starting over") // no answer is read any more, and the last batch may take long
	running.Wait()
	return context.Cause(ctx)
}

// close ends the clients. It says goodbye to the group, and sends the last answers, but waits for neither for long.
// Closing a client waits for its last commit of offsets: half a minute if the broker does not answer, unless the
// client's context ends.
func (l *link) close() {
	ctx, done := context.WithTimeout(context.Background(), silent)
	defer done()
	if l.abandon != nil {
		defer l.abandon()
	}
	if l.consumer != nil {
		if err := l.consumer.LeaveGroupContext(ctx); err != nil {
			l.abandon()
		}
		l.consumer.Close()
	}
	if l.client != nil {
		_ = l.client.Flush(ctx)
		l.client.Close()
	}
}

// readAnswers hands answers to those who wait for them, and returns when what it reads from is not there any more. The
// second answer to a request that was delivered twice is dropped.
func (l *link) readAnswers(ctx context.Context) error {
	for ctx.Err() == nil {
		fetches := l.client.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			if lost(e.Err) {
				return fmt.Errorf("%s/%d: %w", e.Topic, e.Partition, e.Err)
			}
		}
		l.k.rest(ctx, fetches.Err())
		for r := range fetches.RecordsAll() {
			var a answer
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
	for _, e := range []error{kerr.UnknownTopicID, kerr.InconsistentTopicID, kerr.UnknownTopicOrPartition,
		kerr.OffsetOutOfRange} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.As(err, &data)
}

// watch looks at the topics every second, and returns an error when they are not those that the link was made on, or
// this replica has long been unable to hear answers. It probes the partitions that are not served, with a request for
// nothing, which the consumer of the partition answers.
func (l *link) watch(ctx context.Context) error {
	ticks := time.NewTicker(beatEvery)
	defer ticks.Stop()
	answers := true // a broker does
	heard := time.Now()
	for beat := 0; ; beat++ {
		if beat%int(lookEvery/beatEvery) == 0 || !answers {
			err := l.look(ctx)
			deaf := errors.Is(err, errNoLeader)
			if !deaf {
				heard = time.Now()
			}
			if errors.Is(err, errTopicsChanged) || time.Since(heard) > deafFor {
				return err
			}
			answers = err == nil
			switch {
			case ctx.Err() != nil:
			case deaf:
				l.k.doubtAll(l, err.Error())
			case err != nil:
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
func (l *link) probe(ctx context.Context) {
	for _, m := range l.k.probes(l) {
		value, err := json.Marshal(m)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, silent)
		l.client.TryProduce(ctx, &kgo.Record{Topic: l.requests.name, Partition: m.partition, Value: value},
			func(_ *kgo.Record, err error) {
				cancel()
				if err != nil {
					l.k.debug("probe", err)
				}
			})
	}
}
