package kafka_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
	"lastitem/testkit/testenv"
)

// A broker that comes back without its topics: every replica makes them again, and sells.
func TestKafkaTopicsLost(t *testing.T) {
	t.Parallel()
	broker := testenv.EmbeddedKafka(t)
	env := stocktest.Embedded(t)
	env.Kafka = broker.Seeds
	sellsAfterLoss(t, env, func(*stocktest.Harness) { broker.Restart(t) })
}

// Topics that somebody deletes on a real broker, in the middle of a sale: every replica makes them again, and sells.
func TestKafkaTopicsDeleted(t *testing.T) {
	testenv.Engines(t, "starts Apache Kafka")
	t.Parallel()
	sellsAfterLoss(t, kafkaEnv(t), func(h *stocktest.Harness) {
		c, err := h.Replicas[0].Set.Kafka()
		testkit.Must(t, err)
		defer c.Close()
		gone, err := kadm.NewClient(c).DeleteTopics(t.Context(), topicOf(h.Replicas[0], "requests"),
			topicOf(h.Replicas[0], "answers"))
		testkit.Must(t, errors.Join(err, gone.Error()))
	})
}

// sellsAfterLoss sells on each of three replicas, before the topics are lost and after each replica has noticed.
func sellsAfterLoss(t *testing.T, env stocktest.Env, lose func(*stocktest.Harness)) {
	t.Helper()
	var log testkit.Log
	env.Log = slog.New(slog.NewTextHandler(&log, nil))
	h := stocktest.Open(t, env, 3, stock.Modes())
	product := h.Product(t, 9, 0)
	for _, r := range h.Replicas {
		r.Sell(t, "kafka", stock.SQL, product, 1, "")
	}
	lose(h)
	for _, r := range h.Replicas { // one that has not noticed may sell on topics that another has made
		awaitSale(t, r, product, "soon")
	}
	testkit.Until(t, "every replica notices", func() bool {
		return strings.Count(log.String(), `"starting over"`) >= len(h.Replicas)
	})
	for _, r := range h.Replicas {
		awaitSale(t, r, product, "later")
	}
	h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 9, Sold: 9, Orders: 9, Keys: 6})
}

// awaitSale asks, with one key, until a unit is sold: what is lost on the way is asked for again.
func awaitSale(t *testing.T, r *stocktest.Replica, product int64, name string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, err := r.Deduct(t.Context(), "kafka", stock.SQL, product, 1,
			fmt.Sprintf("%s-%s-%d", r.Options.Replica, name, product))
		if err == nil {
			return
		}
		if time.Since(begun) > 2*stocktest.Patience {
			t.Fatalf("nothing was sold any more: %v", err)
		}
	}
}

// Topics that somebody else has made, with fewer partitions, are used as they are, and the log says so.
func TestKafkaFewPartitions(t *testing.T) {
	t.Parallel()
	env := stocktest.Embedded(t)
	env.Kafka = testenv.EmbeddedKafka(t).Seeds
	before := stocktest.Open(t, env, 1, nil)
	c, err := before.Replicas[0].Set.Kafka()
	testkit.Must(t, err)
	defer c.Close()
	for topic, partitions := range map[string]int32{"requests": 2, "answers": 1} {
		_, err := kadm.NewClient(c).CreateTopic(t.Context(), partitions, 1, nil, topicOf(before.Replicas[0], topic))
		testkit.Must(t, err)
	}
	var log testkit.Log
	env.Log = slog.New(slog.NewTextHandler(&log, nil))
	h := stocktest.Open(t, env, 3, stock.Modes())
	for range 4 { // on both partitions
		product := h.Product(t, 3, 0)
		for _, r := range h.Replicas {
			r.Sell(t, "kafka", stock.SQL, product, 1, "")
		}
	}
	for _, line := range []string{"requests partitions=2 wanted=12", "answers partitions=1 wanted=16"} {
		if n := strings.Count(log.String(), line); n != len(h.Replicas) {
			t.Errorf("the log has %d lines with %q, want %d:\n%s", n, line, len(h.Replicas), log.String())
		}
	}
}

// While the group has no members nothing is produced that would be sold later: requests are declined, and the mode says
// why.
func TestKafkaGroupIsLate(t *testing.T) {
	t.Parallel()
	broker := testenv.EmbeddedKafka(t)
	var late atomic.Bool
	late.Store(true)
	broker.Cluster.ControlKey(int16(kmsg.JoinGroup), func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.Cluster.KeepControl()
		if !late.Load() {
			return nil, nil, false
		}
		no := r.ResponseKind().(*kmsg.JoinGroupResponse) // as a broker says that has no topic of offsets yet
		no.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		return no, nil, true
	})
	env := stocktest.Embedded(t)
	env.Kafka, env.Unready = broker.Seeds, true
	h := stocktest.Open(t, env, 1, stock.Modes())
	product := h.Product(t, 5, 0)
	wantUnusable(t, h.Replicas[0], product, "its consumers have not answered yet")
	for range 3 {
		wantUnusable(t, h.Replicas[0], product, "12 of 12 partitions")
	}
	late.Store(false)
	h.Replicas[0].AwaitMode(t, "kafka")
	h.Replicas[0].Sell(t, "kafka", stock.SQL, product, 1, "")
	h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 5, Stock: 4, Sold: 1, Orders: 1})
}

// The log may hold one record twice, side by side: it has one effect. The column of keys holds what clients gave, and
// nothing else.
func TestKafkaTwiceInTheLog(t *testing.T) { onEachKafka(t, kafkaTwiceInTheLog) }

func kafkaTwiceInTheLog(t *testing.T, h *stocktest.Harness) {
	product, r := h.Product(t, 9, 0), h.Replicas[0]
	r.Sell(t, "kafka", stock.SQL, product, 2, "")
	request := records(t, r, "requests", 1, isRequest)[0]
	again := strings.ReplaceAll(request, orderOf(t, request).ID, "0197a000-0000-7000-8000-000000000000")
	for range 3 {
		produce(t, r, "requests", product, again)
	}
	awaitAnswers(t, r, "0197a000-0000-7000-8000-000000000000", 3)
	h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 9, Stock: 5, Sold: 4, Orders: 2})
	l, err := r.Ledger(t.Context(), product)
	testkit.Must(t, err)
	for _, o := range l.Facts[stock.SQL].Orders {
		if len(o.Key) > 0 {
			t.Errorf("order %s has the key %q, want none: its client gave none", o.ID, o.Key)
		}
	}
}

type orderInLog struct {
	ID      string `json:"id"`
	Created int64  `json:"created_us"`
}

func orderOf(t *testing.T, request string) orderInLog {
	t.Helper()
	var m struct {
		Order orderInLog `json:"order"`
	}
	testkit.Must(t, json.Unmarshal([]byte(request), &m))
	return m.Order
}

// A record that is older than the rows that would tell it was executed are kept for certain is void.
func TestKafkaTooOld(t *testing.T) { onEachKafka(t, kafkaTooOld) }

func kafkaTooOld(t *testing.T, h *stocktest.Harness) {
	product, r := h.Product(t, 9, 0), h.Replicas[0]
	r.Sell(t, "kafka", stock.SQL, product, 2, "")
	request := records(t, r, "requests", 1, isRequest)[0]
	const id = "0197a000-0000-7000-8000-000000000001"
	o := orderOf(t, request)
	old := strings.NewReplacer(o.ID, id, fmt.Sprint(o.Created),
		fmt.Sprint(o.Created-time.Hour.Microseconds())).Replace(request)
	produce(t, r, "requests", product, old)
	if answer := awaitAnswers(t, r, id, 1)[0]; !strings.Contains(answer, `"error":"unknown"`) {
		t.Errorf("answer to a record of an hour ago = %s, want unknown", answer)
	}
	h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 9, Stock: 7, Sold: 2, Orders: 1})
}
