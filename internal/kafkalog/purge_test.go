package kafkalog_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
	"lastitem/internal/store"
	"lastitem/internal/testenv"
)

// A log that is read again from its beginning, after its keys and orders have been purged, sells nothing again.
func TestKafkaRedeliveryAfterPurge(t *testing.T) {
	t.Parallel()
	env := stocktest.Embedded(t)
	env.Kafka = testenv.EmbeddedKafka(t).Seeds
	h := stocktest.Open(t, env, 1, stock.Modes())
	r := h.Replicas[0]
	product := h.Product(t, 5, 0)
	if _, err := r.Deduct(t.Context(), "kafka", stock.SQL, product, 1, "key"); err != nil {
		t.Fatal(err)
	}
	request := records(t, r, "requests", 1, isRequest)[0]
	if _, err := r.Backends.SQL.Purge(t.Context(), store.Retention{Orders: time.Nanosecond, Keys: time.Nanosecond}); err != nil {
		t.Fatal(err)
	}
	made := regexp.MustCompile(`"created_us":\d+`)
	old := made.ReplaceAllString(request, fmt.Sprintf(`"created_us":%d`, time.Now().Add(-2*time.Hour).UnixMicro()))
	if old == request {
		t.Fatalf("%s has no time", request)
	}
	produce(t, r, "requests", product, old)
	if _, err := r.Deduct(t.Context(), "kafka", stock.SQL, product, 1, ""); err != nil { // behind it, and done when that is
		t.Fatal(err)
	}
	l := h.Ledger(t, product)
	if p := l.Purged["sql"]; l.Stock["sql"] != 3 || len(l.Orders) != 1 || p.Orders != 1 || p.Keys != 1 {
		t.Errorf("stock %d, %d orders, %+v purged, want 3, 1 and one of each: the old record is void", l.Stock["sql"], len(l.Orders), p)
	}
}
