package kafka_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"lastitem/contract/ledger"
	"lastitem/internal/shop/kafka"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
	"lastitem/testkit/testenv"
)

// What the consumer does while its database does not work, and with records that no database would take.

// A replica that reaches Kafka, but not the database, gives its partitions up: the other one sells all products.
func TestKafkaCutOffFromItsDatabase(t *testing.T) {
	t.Parallel()
	env := stocktest.Embedded(t)
	env.Kafka = testenv.EmbeddedKafka(t).Seeds
	h := stocktest.Open(t, env, 2, stock.Modes())
	var products []int64
	for range 24 { // in most partitions
		products = append(products, h.Product(t, 1000, 0))
	}
	pool, err := h.Replicas[0].Set.DB.DB()
	if err == nil {
		err = pool.Close()
	}
	testkit.Must(t, err)
	rounds := 0
	for notes := func() bool {
		s, err := h.Replicas[0].Mode("kafka")
		return err == nil && s.Err != nil
	}; rounds == 0 || rounds < 30 && !notes(); rounds++ {
		for _, product := range products { // the group may have given the replica no partition yet
			awaitSale(t, h.Replicas[1], product, fmt.Sprint("cut ", rounds))
		}
	}
	awaitReason(t, h.Replicas[0], "cannot commit")
	for _, product := range products {
		l, err := h.Replicas[1].Ledger(t.Context(), product)
		testkit.Must(t, err)
		if f := l.Facts[stock.SQL]; f.Stock != int64(1000-rounds) || len(f.Orders) != rounds {
			t.Errorf("product %d: %d left with %d orders after %d rounds", product, f.Stock, len(f.Orders), rounds)
		}
	}
}

// A replica whose tables are not there yet is no consumer: the group would give it partitions.
func TestKafkaWaitsForItsTables(t *testing.T) {
	t.Parallel()
	broker := testenv.EmbeddedKafka(t)
	var joined atomic.Int64
	broker.Cluster.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		broker.Cluster.KeepControl()
		joined.Add(1)
		return nil, nil, false
	})
	env := stocktest.Embedded(t)
	db := stocktest.Open(t, env, 1, nil).Replicas[0].Set.DB
	testkit.Must(t, db.Exec("ALTER TABLE idempotent_log RENAME TO gone").Error)
	env.Kafka, env.Unready = broker.Seeds, true
	h := stocktest.Open(t, env, 1, stock.Modes())
	awaitReason(t, h.Replicas[0], "cannot commit")
	if n := joined.Load(); n != 0 {
		t.Errorf("it has joined the group %d times, want never", n)
	}
	testkit.Must(t, db.Exec("ALTER TABLE gone RENAME TO idempotent_log").Error)
	h.Replicas[0].AwaitMode(t, "kafka")
}

// Records that no database would take, or that would bring its books into disorder, are skipped: those after them are
// sold.
func TestKafkaSkipsInvalidRecords(t *testing.T) { onEachKafka(t, kafkaSkipsInvalidRecords) }

func kafkaSkipsInvalidRecords(t *testing.T, h *stocktest.Harness) {
	product, r := h.Product(t, 9, 0), h.Replicas[0]
	r.Sell(t, "kafka", stock.SQL, product, 2, fmt.Sprint(product))
	request := records(t, r, "requests", 1, isRequest)[0]
	id := orderOf(t, request).ID
	keyAt := strings.Index(request, `"key":"`) + len(`"key":"`)
	key := request[keyAt : keyAt+strings.IndexByte(request[keyAt:], '"')]
	for i, change := range [][]string{
		{`"quantity":2,`, `"quantity":-5,`},
		{`"quantity":2,`, `"quantity":0,`},
		{`"quantity":2,`, fmt.Sprintf(`"quantity":%d,`, stock.MaxQuantity+1)},
		{runOf(t, h, product), `"run":0,`},
		{runOf(t, h, product), `"run":-1,`},
		{fmt.Sprintf(`"product_id":%d,`, product), `"product_id":-1,`},
		{`"fingerprint":"`, `"fingerprint":"AAAA`},
		{key, strings.Repeat("AAAA", 100)},
		{`"mode":"kafka"`, fmt.Sprintf(`"mode":%q`, strings.Repeat("m", 65))},
		{`"created_us":`, `"created_us":9`},
		{id, id + "0000"},
		{`"status":200`, `"status":99999`},
	} {
		bad := strings.Replace(request, change[0], change[1], 1)
		if bad == request {
			t.Fatalf("%s has no %s", request, change[0])
		}
		if change[0] != id {
			bad = strings.Replace(bad, id, fmt.Sprintf("0197a000-0000-7000-8000-%012d", i), 1)
		}
		if change[0] != key {
			bad = strings.Replace(bad, `"key":"`, fmt.Sprintf(`"key":"%04d`, i), 1)
		}
		produce(t, r, "requests", product, bad)
	}
	r.Sell(t, "kafka", stock.SQL, product, 1, "")
	h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 9, Stock: 6, Sold: 3, Orders: 2, Keys: 1})
}

// A request that becomes too old while the database is away is not sold when that is back.
func TestKafkaTooOldMeanwhile(t *testing.T) { onEachKafka(t, kafkaTooOldMeanwhile) }

func kafkaTooOldMeanwhile(t *testing.T, h *stocktest.Harness) {
	product, r := h.Product(t, 9, 0), h.Replicas[0]
	r.Sell(t, "kafka", stock.SQL, product, 2, "")
	request := records(t, r, "requests", 1, isRequest)[0]
	testkit.Must(t, r.Set.DB.Exec("ALTER TABLE orders RENAME TO gone").Error)
	tried := firstAt(t, h, step.Committed, func() {})
	const id = "0197a000-0000-7000-8000-000000000002"
	o := orderOf(t, request)
	soon := time.Now().Add(6*time.Second - kafka.Lifetime).UnixMicro()
	produce(t, r, "requests", product, strings.NewReplacer(o.ID, id, fmt.Sprint(o.Created),
		fmt.Sprint(soon)).Replace(request))
	tried()
	answer := awaitAnswers(t, r, id, 1)[0]
	testkit.Must(t, r.Set.DB.Exec("ALTER TABLE gone RENAME TO orders").Error)
	if !strings.Contains(answer, `"error":"unknown"`) {
		t.Errorf("answer to a record that became too old = %s, want unknown", answer)
	}
	awaitSale(t, r, product, "behind it")
	h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 9, Stock: 6, Sold: 3, Orders: 2, Keys: 1})
}

// A record whose key has been removed before its order is recognised by that, and does not hold up those after it.
func TestKafkaRedeliveryWithoutItsKey(t *testing.T) { onEachKafka(t, kafkaRedeliveryWithoutItsKey) }

func kafkaRedeliveryWithoutItsKey(t *testing.T, h *stocktest.Harness) {
	for _, units := range []int64{5, 3} { // also where too little is left for it
		redeliverWithoutKey(t, h, units)
	}
}

func redeliverWithoutKey(t *testing.T, h *stocktest.Harness, units int64) {
	product, r := h.Product(t, units, 0), h.Replicas[0]
	sold := r.Sell(t, "kafka", stock.SQL, product, 2, fmt.Sprint(product))
	request := records(t, r, "requests", 1, func(value []byte) bool {
		return bytes.Contains(value, []byte(sold.OrderID))
	})[0]
	testkit.Must(t, r.Set.DB.Exec("DELETE FROM idempotent_log WHERE product_id = ?", product).Error)
	produce(t, r, "requests", product, request)
	left := fmt.Sprintf(`"count":%d`, units-2)
	if again := awaitAnswers(t, r, sold.OrderID, 2)[1]; !strings.Contains(again, left) ||
		strings.Contains(again, `"error"`) {
		t.Errorf("second answer = %s, want that it was sold, and %s", again, left)
	}
	r.Sell(t, "kafka", stock.SQL, product, 1, "")
	h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: units, Stock: units - 3, Sold: 3, Orders: 2})
}

// Where a product is segmented while a request is on its way nobody knows what became of it.
func TestKafkaSegmentedOnTheWay(t *testing.T) {
	t.Parallel()
	_, h, product := ownKafka(t)
	r := h.Replicas[0]
	r.Sell(t, "kafka", stock.SQL, product, 1, "")
	request := records(t, r, "requests", 1, isRequest)[0]
	h.SetStock(t, product, 6, 3)
	now := strings.Replace(request, orderOf(t, request).ID, "0197a000-0000-7000-8000-000000000003", 1)
	now = strings.Replace(now, request[strings.Index(request, `"run":`):strings.Index(request, `"reply_to"`)],
		runOf(t, h, product), 1)
	produce(t, r, "requests", product, request)
	produce(t, r, "requests", product, now)
	if again := awaitAnswers(t, r, orderOf(t, request).ID, 2)[1]; !strings.Contains(again, `"error":"unknown"`) {
		t.Errorf("answer to a request of the run before = %s, want unknown", again)
	}
	if answer := awaitAnswers(t, r, "0197a000-0000-7000-8000-000000000003", 1)[0]; !strings.Contains(answer,
		`"error":"segmented"`) {
		t.Errorf("answer to a request of this run = %s, want segmented", answer)
	}
	r.Refuse(t, stock.ErrSegmented, "kafka", stock.SQL, product, 1, "")
}

// A product that was sold from the log takes no holds and no returns: a record that was refused may come again, and
// would find the units that came back. One that was held is not sold from the log.
func TestKafkaTakesNoHolds(t *testing.T) {
	t.Parallel()
	_, h, product := ownKafka(t)
	r := h.Replicas[0]
	hold := func(product int64) error {
		_, err := r.Reserve(t.Context(), "reserve-sql", stock.ReserveRequest{Request: stock.Request{Store: stock.SQL,
			Items: []stock.Item{{ProductID: product, Quantity: 1}}}, For: time.Minute})
		return err
	}
	sold := r.Sell(t, "kafka", stock.SQL, product, 1, "")
	testkit.IsError(t, hold(product), stock.ErrReservationUnsupported, "a hold")
	_, err := r.Return(t.Context(), product, sold.OrderID, true, ledger.Part{})
	testkit.IsError(t, err, stock.ErrReturnUnsupported, "a return")
	held := h.Product(t, 5, 0)
	testkit.Must(t, hold(held))
	r.Refuse(t, stock.ErrReservationUnsupported, "kafka", stock.SQL, held, 1, "key")
	r.Refuse(t, stock.ErrReservationUnsupported, "kafka", stock.SQL, held, 9, "")
}
