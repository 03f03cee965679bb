package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"lastitem/contract/api"
	"lastitem/internal/backend"
	"lastitem/loadtest"
	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// TestKafkaStorm puts the mode kafka on a real broker through what production does to it, under a load in which each
// key is asked for on two replicas at a time, and again until it has an answer: replicas killed and replaced, the
// broker killed, its topics deleted, its disk lost. In the end each key that was sold has one order.
func TestKafkaStorm(t *testing.T) {
	testenv.Engines(t, "kills a real broker, which starts again and again")
	t.Parallel()
	testenv.Installed(t, stack.Redis, stack.MySQL, stack.Nginx, stack.Kafka)
	k := startKafkaStorm(t)
	k.sells(t, "at first")
	for i := range k.stack.Replicas { // each time the group forms again
		k.kill(t, fmt.Sprintf("replica %d", i+1), func() {})
		k.sells(t, fmt.Sprintf("after replica %d was killed", i+1))
	}
	testkit.Must(t, k.stack.Roll(t.Context(), 1, program(t)))
	k.sells(t, "after replica 2 was told to end, and started again")
	k.deleteTopics(t)
	k.sells(t, "after the topics were deleted")
	k.kill(t, stack.Kafka, func() {})
	k.sellsSoon(t, "after the broker was killed")
	k.kill(t, stack.Kafka, func() {
		testkit.Check(t, os.RemoveAll(filepath.Join(k.stack.Dir, "kafka")))
	})
	k.sellsSoon(t, "after the broker lost its disk")
	k.judge(t)
}

// kafkaStorm is a stack under load.
type kafkaStorm struct {
	stack   *stack.Stack
	control *loadtest.Control
	done    func() // of testenv.Progress
	ctx     context.Context
	stop    func() // ends the load
	sold    atomic.Int64
	mu      sync.Mutex
	keys    map[string]string // key -> the body of its answer
	other   map[string]int    // answers that were not a sale
}

const (
	kafkaProduct = 101
	kafkaStock   = 1_000_000
)

func startKafkaStorm(t *testing.T) *kafkaStorm {
	t.Helper()
	k := &kafkaStorm{keys: map[string]string{}, other: map[string]int{}}
	k.stack = startStack(t, stack.Options{
		Replicas: 3, Backend: stack.Local, Only: []string{stack.Redis, stack.MySQL, stack.Kafka},
		Restart: true, Env: []string{"SHOP_KAFKA_SESSION=3s"},
	})
	var err error
	if k.control, err = loadtest.NewControl(k.stack.URL, k.stack.Token); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.control.Close)
	testkit.Must(t, k.control.SetStock(t.Context(), kafkaProduct, api.SetStock{Stock: kafkaStock}))
	k.ctx, k.done = testenv.Progress(t, 2*testenv.Still)
	loadCtx, cancel := context.WithCancel(k.ctx)
	var load sync.WaitGroup
	k.stop = sync.OnceFunc(func() { cancel(); load.Wait() })
	t.Cleanup(k.stop)
	for client := range 8 {
		load.Go(func() {
			for i := 0; loadCtx.Err() == nil; i++ {
				k.sell(loadCtx, t, fmt.Sprintf("%d/%d", client/2, i)) // each key by two clients
			}
		})
	}
	return k
}

// sell asks for a unit with a key until it has an answer for good, which is the same for all who ask, or the load ends.
func (k *kafkaStorm) sell(ctx context.Context, t *testing.T, key string) {
	for ctx.Err() == nil {
		status, body := k.ask(ctx, key)
		if status != http.StatusOK {
			k.mu.Lock()
			k.other[body]++
			k.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		k.mu.Lock()
		if before, ok := k.keys[key]; ok && before != body {
			t.Errorf("answers to key %s: %s and %s, want the same", key, before, body)
		}
		k.keys[key] = body
		k.mu.Unlock()
		k.sold.Add(1)
		k.done()
		return
	}
}

// ask returns an answer, or with status 0 why there is none.
func (k *kafkaStorm) ask(ctx context.Context, key string) (status int, body string) {
	url := fmt.Sprintf("%s/deduct_stock/kafka?product_id=%d", k.stack.URL, kafkaProduct)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Idempotency-Key", key)
	return answerOf(req)
}

// sells waits until the load has sold some more.
func (k *kafkaStorm) sells(t *testing.T, when string) {
	t.Helper()
	for from := k.sold.Load(); k.sold.Load() < from+50; time.Sleep(5 * time.Millisecond) {
		if k.ctx.Err() != nil {
			k.stop()
			t.Fatalf("nothing is sold %s: %v; answers: %v", when, context.Cause(k.ctx), k.other)
		}
	}
}

// kill ends a part as kill -9 does, while it is stopped does some harm, and waits until it has been started again.
func (k *kafkaStorm) kill(t *testing.T, part string, harm func()) {
	t.Helper()
	pid := k.stack.PID(part)
	err := syscall.Kill(pid, syscall.SIGSTOP)
	harm()
	if err = errors.Join(err, syscall.Kill(pid, syscall.SIGKILL)); err != nil {
		t.Fatalf("kill %s: %v", part, err)
	}
	for k.stack.PID(part) == pid {
		if k.ctx.Err() != nil {
			t.Fatalf("%s was not started again: %v", part, context.Cause(k.ctx))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// sellsSoon wants a sale within ten seconds of the moment from which a plain client can produce, and on a machine where
// the broker takes long to start, of as long as that took five times.
func (k *kafkaStorm) sellsSoon(t *testing.T, when string) {
	t.Helper()
	begun := time.Now()
	k.client(t, func(c *kgo.Client) error {
		return c.ProduceSync(k.ctx, &kgo.Record{Topic: "plain", Value: []byte("hello")}).FirstErr()
	}, kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(-1))
	back := time.Now()
	k.sells(t, when)
	took, limit := time.Since(back), 10*time.Second+5*back.Sub(begun)
	t.Logf("%s a plain client could produce after %s, and units were sold %s later", when, back.Sub(begun), took)
	if took > limit {
		t.Errorf("%s nothing was sold for %s after a plain client could produce, want %s at most", when, took, limit)
	}
}

// deleteTopics deletes the topics of the shop.
func (k *kafkaStorm) deleteTopics(t *testing.T) {
	t.Helper()
	k.client(t, func(c *kgo.Client) error {
		admin := kadm.NewClient(c)
		topics, err := admin.ListTopics(k.ctx)
		if err != nil {
			return err
		}
		names := slices.DeleteFunc(topics.Names(), func(name string) bool { return !strings.HasPrefix(name, "lastitem-") })
		if len(names) != 2 {
			return fmt.Errorf("the topics of the shop are %q, want two", names)
		}
		gone, err := admin.DeleteTopics(k.ctx, names...)
		return errors.Join(err, gone.Error())
	})
}

// client lends a client of the broker.
func (k *kafkaStorm) client(t *testing.T, use func(*kgo.Client) error, opts ...kgo.Opt) {
	t.Helper()
	c, err := backend.OpenKafka(k.stack.Kafka.URL, opts...)
	testkit.Must(t, err)
	defer c.Close()
	testkit.Must(t, use(c))
}

// judge ends the load, and wants an order for each key that was sold, at most one for the few whose request was cut off
// at the end, and what the orders took to be missing from the stock.
func (k *kafkaStorm) judge(t *testing.T) {
	t.Helper()
	k.stop()
	ledger, err := k.control.Ledger(t.Context(), kafkaProduct)
	testkit.Must(t, err)
	orders := map[string]int{}
	for _, o := range ledger.Orders {
		orders[o.Key]++
	}
	for key := range k.keys {
		if orders[key] == 0 {
			t.Errorf("key %s was sold, and has no order", key)
		}
	}
	for key, n := range orders {
		if n != 1 {
			t.Errorf("key %s has %d orders, want 1", key, n)
		}
	}
	if left := ledger.Stock["sql"]; left != kafkaStock-int64(len(ledger.Orders)) {
		t.Errorf("%d are left of %d with %d orders", left, kafkaStock, len(ledger.Orders))
	}
	t.Logf("%d keys sold, %d orders, answers that were no sale: %v", len(k.keys), len(ledger.Orders), k.other)
}

// answerOf returns the status and body of an answer, or with status 0 why there is none. Of a problem it is the code.
func answerOf(req *http.Request) (status int, body string) {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "no answer"
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, "no answer"
	}
	var problem struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(text, &problem) == nil && problem.Code != "" {
		return res.StatusCode, problem.Code
	}
	return res.StatusCode, string(text)
}
