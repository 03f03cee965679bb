package kafkalog_test

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lastitem/internal/stock"
)

// An answer may overtake the acknowledgement of its record. Requests whose records went to the broker together with that one are sold
// all the same.
func TestKafkaAnswerBeforeAcknowledgement(t *testing.T) {
	t.Parallel()
	broker, h, product := ownKafka(t)
	h.SetStock(t, product, 10_000, 0)
	other, err := h.Replicas[0].Set.Kafka(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var overtaken atomic.Bool
	answered := make(chan struct{})
	broker.Cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.Cluster.KeepControl()
		requests := requestsIn(r.(*kmsg.ProduceRequest))
		if len(requests) > 1 && overtaken.CompareAndSwap(false, true) {
			broker.Cluster.SleepControl(func() {
				m := requests[0]
				answer := &kgo.Record{Topic: topicOf(h.Replicas[0], "answers"), Partition: m.replyTo, Value: fmt.Appendf(nil, `{"id":%q,"error":"segmented"}`, m.id)}
				if err := other.ProduceSync(t.Context(), answer).FirstErr(); err != nil {
					t.Error(err)
				}
				<-answered
			})
		}
		return nil, nil, false
	})
	for !overtaken.Load() {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				_, err := h.Replicas[0].Deduct(t.Context(), "kafka", stock.SQL, product, 1, "")
				switch {
				case errors.Is(err, stock.ErrSegmented):
					close(answered)
				case err != nil:
					t.Errorf("Deduct() beside an answer that was fast = %v, want nil", err)
				}
			})
		}
		wg.Wait()
	}
}

// sentRequest is a request as it goes to the broker.
type sentRequest struct {
	id      string
	replyTo int32
}

var inRecord = regexp.MustCompile(`"order":\{"id":"([0-9a-f-]{36})"[^\x00]*?"reply_to":(\d+)`)

// requestsIn finds the requests among the records of a produce request, which are not compressed.
func requestsIn(r *kmsg.ProduceRequest) (all []sentRequest) {
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			for _, found := range inRecord.FindAllSubmatch(p.Records, -1) {
				partition, _ := strconv.ParseInt(string(found[2]), 10, 32)
				all = append(all, sentRequest{string(found[1]), int32(partition)})
			}
		}
	}
	return all
}
