package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lastitem/contract/ledger"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
	"lastitem/testkit/testenv"
)

// onEachKafka runs a test on every set of backends, with three replicas and an embedded broker. TestKafkaItself runs it
// on a real one.
func onEachKafka(t *testing.T, test func(*testing.T, *stocktest.Harness)) {
	t.Parallel()
	for _, e := range stocktest.Envs {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			env := e.Open(t)
			env.Kafka = testenv.EmbeddedKafka(t).Seeds
			test(t, stocktest.Open(t, env, 3, stock.Modes()))
		})
	}
}

func TestKafkaItself(t *testing.T) {
	testenv.Engines(t, "starts Apache Kafka")
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *stocktest.Harness){
		"reset in the middle":              kafkaResetInTheMiddle,
		"outlives a database that is down": kafkaOutlivesADatabaseThatIsDown,
		"skips invalid records":            kafkaSkipsInvalidRecords,
		"too old meanwhile":                kafkaTooOldMeanwhile,
		"redelivery without its key":       kafkaRedeliveryWithoutItsKey,
		"twice in the log":                 kafkaTwiceInTheLog,
		"too old":                          kafkaTooOld,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, stocktest.Open(t, kafkaEnv(t), 3, stock.Modes()))
		})
	}
}

// kafkaEnv is a real broker and a real database.
func kafkaEnv(t *testing.T) stocktest.Env {
	t.Helper()
	env := stocktest.On(testenv.Miniredis(t), testenv.MySQL(t))
	env.Kafka = testenv.Kafka(t, env.Prefix)
	return env
}

// A consumer that dies between the commit of the database and that of its offsets: the requests are delivered again, to
// another replica, and have one effect, with a key and without. They are sold what they were, although less is left
// now.
func TestKafkaRedelivery(t *testing.T) {
	onRedelivery(t, func(t *testing.T, h *stocktest.Harness, product int64,
		succeed func(between func()) *stocktest.Replica) {
		sold := h.Replicas[0].Sell(t, "kafka", stock.SQL, product, 4, "")
		b := succeed(func() {})
		// Behind what A left in the same partition, so that this is done when that is.
		b.Sell(t, "kafka", stock.SQL, product, 1, fmt.Sprint(product))
		for _, answer := range awaitAnswers(t, b, sold.OrderID, 2) {
			if !strings.Contains(answer, `"count":1`) || strings.Contains(answer, `"refused"`) ||
				strings.Contains(answer, `"error"`) {
				t.Errorf("answer to A = %s, want that it was sold, and 1 left", answer)
			}
		}
		h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 5, Stock: 0, Sold: 5, Orders: 2, Keys: 1})
	})
}

// The same, and the stock is set in between. The keys went with the orders: what belongs to the time before is void.
func TestKafkaRedeliveryAfterReset(t *testing.T) {
	onRedelivery(t, func(t *testing.T, h *stocktest.Harness, product int64,
		succeed func(between func()) *stocktest.Replica) {
		key := fmt.Sprint(product)
		var old []string
		for _, key := range []string{"", key} {
			sold := h.Replicas[0].Sell(t, "kafka", stock.SQL, product, 2, key)
			old = append(old, sold.OrderID)
		}
		before := runOf(t, h, product)
		h.SetStock(t, product, 3, 0)
		// The key is free again, and somebody has used it for the same payload: both will be in one batch.
		request := records(t, h.Replicas[0], "requests", 2, isRequest)[1]
		now := strings.Replace(request, before, runOf(t, h, product), 1)
		if now == request {
			t.Fatalf("the request %s is not of the run %s", request, before)
		}
		b := succeed(func() {
			produce(t, h.Replicas[0], "requests", product, strings.ReplaceAll(now, old[1], uuid.NewString()))
		})
		if r, err := b.Deduct(t.Context(), "kafka", stock.SQL, product, 2, key); err != nil || !r.Replayed ||
			r.Stored.Status != 200 {
			t.Errorf("B's Deduct() = %+v, %v, want the answer to what was sent in this run", r, err)
		}
		for _, id := range old {
			if last := awaitAnswers(t, b, id, 2)[1]; !strings.Contains(last, `"error":"unknown"`) {
				t.Errorf("second answer to A = %s, want unknown", last)
			}
		}
		h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 3, Stock: 1, Sold: 2, Orders: 1, Keys: 1})
	})
}

// runOf is the run of a product, as a record says it.
func runOf(t *testing.T, h *stocktest.Harness, product int64) string {
	t.Helper()
	run, err := h.Replicas[0].Backends.SQL.Run(t.Context(), product)
	testkit.Must(t, err)
	return fmt.Sprintf(`"run":%d,`, run)
}

// ownKafka is a broker that one replica on embedded servers uses alone, and a product of 5.
func ownKafka(t *testing.T) (*testenv.EmbeddedBroker, *stocktest.Harness, int64) {
	t.Helper()
	broker := testenv.EmbeddedKafka(t)
	env := stocktest.Embedded(t)
	env.Kafka = broker.Seeds
	h := stocktest.Open(t, env, 1, stock.Modes())
	product := h.Product(t, 5, 0)
	return broker, h, product
}

// Where the stock is set while a request is on its way nobody knows what became of it, and nothing comes of it any
// more.
func TestKafkaResetOnTheWay(t *testing.T) {
	t.Parallel()
	broker, h, product := ownKafka(t)
	h.Replicas[0].Sell(t, "kafka", stock.SQL, product, 1, "")
	reset := sync.OnceFunc(func() { h.SetStock(t, product, 5, 0) })
	broker.Cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		broker.Cluster.KeepControl()
		reset()
		return nil, nil, false
	})
	if r, err := h.Replicas[0].Deduct(t.Context(), "kafka", stock.SQL, product, 1, ""); !errors.Is(err, stock.ErrUnknown) {
		t.Errorf("Deduct() of the run before = %+v, %v, want ErrUnknown", r, err)
	}
	h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 5, Stock: 5})
}

// A reset waits for a consumer in the middle of its transaction, and takes away what that has done.
func TestKafkaResetInTheMiddle(t *testing.T) { onEachKafka(t, kafkaResetInTheMiddle) }

func kafkaResetInTheMiddle(t *testing.T, h *stocktest.Harness) {
	product := h.Product(t, 5, 0)
	hold := make(chan struct{})
	resume := sync.OnceFunc(func() { close(hold) })
	defer resume()
	awaitWritten := firstAt(t, h, step.Written, func() { <-hold })
	deducted := stocktest.Go(t, func() (stock.Receipt, error) {
		return h.Replicas[0].Deduct(t.Context(), "kafka", stock.SQL, product, 1, "key")
	})
	awaitWritten()
	set := make(chan error, 1)
	go func() { set <- h.Replicas[1].SetStock(t.Context(), product, 3, ledger.Rules{}) }()
	time.Sleep(100 * time.Millisecond) // most likely it waits for the row now; if not, it comes later, to the same effect
	resume()
	testkit.Mustf(t, <-set, "SetStock()")
	if r := deducted(); r.Err != nil {
		t.Errorf("Deduct() before the reset = %v, want nil", r.Err)
	}
	h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 3, Stock: 3})
}

// The log outlives the database: no run of a new one is one of the old one.
func TestKafkaNewDatabase(t *testing.T) {
	t.Parallel()
	broker, h, product := ownKafka(t)
	h.Replicas[0].Sell(t, "kafka", stock.SQL, product, 1, "")
	request := records(t, h.Replicas[0], "requests", 1, isRequest)[0]
	renewed := stocktest.Embedded(t)
	renewed.Kafka = broker.Seeds
	h = stocktest.Open(t, renewed, 1, stock.Modes())
	h.SetStock(t, product, 5, 0)
	produce(t, h.Replicas[0], "requests", product, request)
	h.Replicas[0].Sell(t, "kafka", stock.SQL, product, 1, "")
	h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 5, Stock: 4, Sold: 1, Orders: 1})
}

// onRedelivery runs a test on every set of backends with one replica, A, whose commits of offsets do not arrive, and a
// product of 5. succeed ends A, calls between, and starts B, to which all is delivered again.
func onRedelivery(t *testing.T, test func(t *testing.T, h *stocktest.Harness, product int64,
	succeed func(between func()) *stocktest.Replica)) {
	t.Parallel()
	for _, e := range stocktest.Envs {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			broker := testenv.EmbeddedKafka(t)
			var cut atomic.Bool
			broker.Cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
				broker.Cluster.KeepControl()
				if !cut.Load() {
					return nil, nil, false
				}
				return nil, errors.New("cut off"), true
			})
			env := e.Open(t)
			env.Kafka = broker.Seeds
			cut.Store(true)
			h := stocktest.Open(t, env, 1, stock.Modes())
			test(t, h, h.Product(t, 5, 0), func(between func()) *stocktest.Replica {
				testkit.Must(t, h.Replicas[0].Close(t.Context()))
				cut.Store(false)
				between()
				return stocktest.Open(t, env, 1, stock.Modes()).Replicas[0]
			})
		})
	}
}

// A request that panics in the consumer has no order, and nobody may say that it has.
func TestKafkaPanics(t *testing.T) {
	t.Parallel()
	_, h, product := ownKafka(t)
	var crashes atomic.Bool
	crashes.Store(true)
	h.Replicas[0].Options.Steps.Subscribe(func(_ context.Context, e step.Event) {
		if e.Point == step.Written && crashes.CompareAndSwap(true, false) {
			panic("crash")
		}
	})
	r, err := h.Replicas[0].Deduct(t.Context(), "kafka", stock.SQL, product, 1, "")
	testkit.IsError(t, err, stock.ErrUnknown, "Deduct() that panicked = %+v", r)
	if r, err := h.Replicas[0].Deduct(t.Context(), "kafka", stock.SQL, product, 1, ""); err != nil {
		t.Errorf("Deduct() behind it = %+v, %v, want nil", r, err)
	}
	h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 5, Stock: 4, Sold: 1, Orders: 1})
}

// What the database turns down for now is in the log, and may be delivered again: "nothing happened" would be false
// then, so it is tried until it is done.
func TestKafkaOutlivesADatabaseThatIsDown(t *testing.T) {
	onEachKafka(t, kafkaOutlivesADatabaseThatIsDown)
}

func kafkaOutlivesADatabaseThatIsDown(t *testing.T, h *stocktest.Harness) {
	product := h.Product(t, 5, 0)
	db := h.Replicas[0].Set.DB
	testkit.Must(t, db.Exec("ALTER TABLE orders RENAME TO gone").Error)
	awaitTry := firstAt(t, h, step.Committed, func() {})
	await := stocktest.Go(t, func() (stock.Receipt, error) {
		return h.Replicas[1].Deduct(t.Context(), "kafka", stock.SQL, product, 1, "")
	})
	awaitTry()
	testkit.Must(t, db.Exec("ALTER TABLE gone RENAME TO orders").Error)
	if r := await(); r.Err != nil || *r.Receipt.Remaining != 4 {
		t.Errorf("Deduct() = %+v, %v, want 4 left", r.Receipt, r.Err)
	}
	h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 5, Stock: 4, Sold: 1, Orders: 1})
}

// firstAt calls then when some replica is at a point for the first time. The function that it returns waits until one
// is.
func firstAt(t *testing.T, h *stocktest.Harness, point step.Point, then func()) (await func()) {
	t.Helper()
	there := make(chan struct{})
	first := sync.OnceFunc(func() {
		close(there)
		then()
	})
	for _, r := range h.Replicas {
		r.Options.Steps.Subscribe(func(_ context.Context, e step.Event) {
			if e.Point == point {
				first()
			}
		})
	}
	return func() {
		t.Helper()
		select {
		case <-there:
		case <-time.After(stocktest.Patience):
			t.Errorf("nobody got to %s", point)
		}
	}
}

// awaitAnswers waits until a request has been answered n times, by whomever, and returns the answers.
func awaitAnswers(t *testing.T, r *stocktest.Replica, order string, n int) []string {
	t.Helper()
	return records(t, r, "answers", n, func(value []byte) bool { return bytes.Contains(value, []byte(`"id":"`+order)) })
}

// records waits until a topic has n records of a kind, and returns them.
func records(t *testing.T, r *stocktest.Replica, topic string, n int, kind func(value []byte) bool) (values []string) {
	t.Helper()
	c, err := r.Set.Kafka(kgo.ConsumeTopics(topicOf(r, topic)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	testkit.Must(t, err)
	defer c.Close()
	ctx := testkit.Within(t, stocktest.Patience)
	for len(values) < n {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%s has %d of the records, want %d: %q", topic, len(values), n, values)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if kind(r.Value) {
				values = append(values, string(r.Value))
			}
		})
	}
	return values
}

// isRequest tells a request from a probe.
func isRequest(value []byte) bool { return !bytes.Contains(value, []byte(`"id":"probe/`)) }

// produce puts a record for a product into a topic.
func produce(t *testing.T, r *stocktest.Replica, topic string, product int64, value string) {
	t.Helper()
	c, err := r.Set.Kafka()
	testkit.Must(t, err)
	defer c.Close()
	record := &kgo.Record{Topic: topicOf(r, topic), Key: strconv.AppendInt(nil, product, 10), Value: []byte(value)}
	testkit.Must(t, c.ProduceSync(t.Context(), record).FirstErr())
}

func topicOf(r *stocktest.Replica, topic string) string {
	return strings.ReplaceAll(r.Backends.Lockers.Prefix, ":", "-") + topic
}

// Whether a request arrived that nobody answers is unknown. One after it is declined: nothing of it is sent.
func TestKafkaNoAnswer(t *testing.T) {
	t.Parallel()
	broker, h, product := ownKafka(t)
	deduct := func() error {
		_, err := h.Replicas[0].Deduct(t.Context(), "kafka", stock.SQL, product, 1, "")
		return err
	}
	testkit.Mustf(t, deduct(), "Deduct()")
	var held atomic.Bool
	broker.Cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		broker.Cluster.KeepControl()
		held.Store(true)
		return nil, errors.New("cut off"), true
	})
	if err := deduct(); !errors.Is(err, stock.ErrUnknown) || !held.Load() {
		t.Errorf("Deduct() whose record is never acknowledged = %v, want ErrUnknown", err)
	}
	testkit.IsError(t, deduct(), stock.ErrUnavailable, "Deduct() behind it")
}

// A client that hangs up before its request is sent has bought nothing.
func TestKafkaHangUp(t *testing.T) {
	t.Parallel()
	_, h, product := ownKafka(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.Replicas[0].Deduct(gone, "kafka", stock.SQL, product, 1, "")
	if !errors.Is(err, stock.ErrContended) || !errors.Is(err, context.Canceled) {
		t.Errorf("Deduct() of a client that is gone = %v, want ErrContended, and why: nothing was sent", err)
	}
}

// Where no broker answers a request is declined at once, and the mode says why.
func TestKafkaNobodyThere(t *testing.T) {
	t.Parallel()
	env := stocktest.Embedded(t)
	env.Kafka, env.Unready = "127.0.0.1:1", true
	h := stocktest.Open(t, env, 1, stock.Modes())
	product := h.Product(t, 5, 0)
	wantUnusable(t, h.Replicas[0], product, "refused")
}

// wantUnusable wants the mode to be declined and to say why.
func wantUnusable(t *testing.T, r *stocktest.Replica, product int64, why string) {
	t.Helper()
	var notReady *stock.NotReadyError
	_, err := r.Deduct(t.Context(), "kafka", stock.SQL, product, 1, "")
	if !errors.Is(err, stock.ErrUnavailable) || !errors.As(err, &notReady) || notReady.Why == "" {
		t.Errorf("Deduct() = %v, want ErrUnavailable, and why", err)
	}
	awaitReason(t, r, why)
}

// awaitReason waits until the mode says why it cannot be used.
func awaitReason(t *testing.T, r *stocktest.Replica, why string) {
	t.Helper()
	testkit.NoError(t, why+" in the error of the mode", func() error {
		s, err := r.Mode("kafka")
		if err == nil && s.Err != nil && strings.Contains(s.Err.Error(), why) {
			return nil
		}
		return fmt.Errorf("Mode() = %s, %s", fmt.Sprint(s.Err), fmt.Sprint(err))
	})
}
