// Package kafka is the log of the mode kafka: requests for a product go to a partition of a topic, the replica that
// consumes the partition commits them in batches, and sends the answers back to the replica that asked.
//
//	Ask (ask.go)          produce a request ··· wait for its answer
//	serve (consumer.go)   poll ── commit the batch ── produce the answers ── commit the offsets
//	watch (link.go)       are the topics still there? does the consumer of each partition answer (usable.go)?
//
// The log delivers at least once. [Open] starts a [Log]; messages.go has the records.
package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lastitem/internal/step"
	"lastitem/internal/stock"
)

// Group is how the group of consumers finds out that one of them is dead.
type Group struct {
	// Session is the silence after which a consumer is taken to be dead and its partitions go to others: that is how long
	// their products stand still. Brokers take 6 s or more unless they are told otherwise. 0 = 6 s.
	Session time.Duration
	// Heartbeat is how often a consumer says that it is alive; 0 = a sixth of Session.
	Heartbeat time.Duration
	// Rebalance is how long the others wait for a consumer when partitions are reassigned; 0 = Session. With Kafka's own
	// default of a minute, a group that has lost a consumer together with a broker stands still for a minute.
	Rebalance time.Duration
}

// session is Session or its default.
func (g Group) session() time.Duration {
	if g.Session <= 0 {
		return 6 * time.Second
	}
	return g.Session
}

func (g Group) opts(name string) []kgo.Opt {
	g.Session = g.session()
	if g.Heartbeat <= 0 {
		g.Heartbeat = g.Session / 6
	}
	if g.Rebalance <= 0 {
		g.Rebalance = g.Session
	}
	return []kgo.Opt{
		kgo.ConsumerGroup(name), kgo.SessionTimeout(g.Session), kgo.HeartbeatInterval(g.Heartbeat),
		kgo.RebalanceTimeout(g.Rebalance),
	}
}

// Options are what a [Log] works with.
type Options struct {
	Client func(...kgo.Opt) (*kgo.Client, error) // makes a client of the brokers, which the log closes
	Group  Group
	Prefix string // of the topics and the group
	// Run reads the run that a product is in: a record of another one is void.
	Run func(ctx context.Context, product int64) (int64, error)
	// Ready is nil if Commit can commit now. While it cannot, this replica is no consumer: the others are to have its
	// partitions.
	Ready  func(ctx context.Context) error
	Commit stock.Group // executes what is consumed
	// Gauge registers a metric whose value read returns, NaN = absent; nil = no metrics.
	Gauge func(name, help string, labels map[string]string, read func() float64)
	Steps *step.Stream
	Log   *slog.Logger // nil = none
}

// Log is a [stock.Log] on Kafka: it asks and, as a member of the group of all replicas, answers. It is safe for
// concurrent use.
type Log struct {
	o      Options
	prefix string // of topics and group
	runs   *runReader
	// time of the oldest request that this replica is executing, in Unix microseconds; 0 = it executes none
	oldest atomic.Int64
	cancel context.CancelFunc
	ended  chan struct{} // closed when nothing of it runs any more

	mu      sync.Mutex
	link    *link                  // nil while there is none
	why     string                 // why there is none, or why a partition of it is not usable
	waiting map[string]chan answer // by id of the request
}

// Open starts to connect, and goes on until the log is closed.
func Open(o Options) *Log {
	ctx, cancel := context.WithCancel(context.Background())
	k := &Log{
		o: o, prefix: strings.ReplaceAll(o.Prefix, ":", "-"), // Kafka's names have no colon
		runs: &runReader{of: o.Run, calls: map[int64]*runCalls{}}, cancel: cancel, ended: make(chan struct{}),
		why: "no broker has answered yet", waiting: map[string]chan answer{},
	}
	if o.Gauge != nil {
		o.Gauge("shop_kafka_lag_seconds", "Age of the oldest request from Kafka that this replica is executing; 0 while "+
			"there is none.", nil, k.lag)
	}
	go func() {
		defer close(k.ended)
		k.work(ctx)
	}()
	return k
}

// Close ends the log's clients, and waits for that until ctx ends.
func (k *Log) Close(ctx context.Context) error {
	k.cancel()
	select {
	case <-k.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("kafka: still closing: %w", context.Cause(ctx))
	}
}

// lag is the age of the oldest request in the batch that is being executed, in seconds: it grows while the database
// hangs, and with the time that requests have waited in the log.
func (k *Log) lag() float64 {
	if oldest := k.oldest.Load(); oldest != 0 {
		return max(0, time.Since(time.UnixMicro(oldest)).Seconds())
	}
	return 0
}
