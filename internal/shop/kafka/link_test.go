package kafka_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
	"lastitem/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// An answer may overtake the acknowledgement of its record. Requests whose records went to the broker together with
// that one are sold all the same.
func TestKafkaAnswerBeforeAcknowledgement(t *testing.T) {
	t.Parallel()
	broker, h, product := ownKafka(t)
	h.SetStock(t, product, 10_000, 0)
	other, err := h.Replicas[0].Set.Kafka(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	testkit.Must(t, err)
	defer other.Close()
	var overtaken atomic.Bool
	answered := make(chan struct{})
	broker.Cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.Cluster.KeepControl()
		requests := requestsIn(r.(*kmsg.ProduceRequest))
		if len(requests) > 1 && overtaken.CompareAndSwap(false, true) {
			broker.Cluster.SleepControl(func() {
				m := requests[0]
				answer := &kgo.Record{Topic: topicOf(h.Replicas[0], "answers"), Partition: m.replyTo,
					Value: fmt.Appendf(nil, `{"id":%q,"error":"segmented"}`, m.id)}
				testkit.Check(t, other.ProduceSync(t.Context(), answer).FirstErr())
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

var replyTo = regexp.MustCompile(`"reply_to":(\d+)`)

// A replica whose partition of answers has lost its broker listens on another one, and says meanwhile why it does not
// sell.
func TestKafkaAnswersWithoutALeader(t *testing.T) {
	t.Parallel()
	broker, h, product := ownKafka(t)
	r := h.Replicas[0]
	r.Sell(t, "kafka", stock.SQL, product, 1, "")
	request := records(t, r, "requests", 1, isRequest)[0]
	listens, err := strconv.ParseInt(replyTo.FindStringSubmatch(request)[1], 10, 32)
	testkit.Must(t, err)
	unlead(t, broker, r, topicOf(r, "answers"), int32(listens))
	awaitReason(t, r, fmt.Sprintf("no broker leads the partition of this replica's answers: %d", listens))
	awaitSale(t, r, product, "elsewhere")
	last := records(t, r, "requests", 2, func(value []byte) bool {
		return isRequest(value) && bytes.Contains(value, fmt.Appendf(nil, `"product_id":%d`, product))
	})
	if now := replyTo.FindStringSubmatch(last[len(last)-1])[1]; now == fmt.Sprint(listens) {
		t.Errorf("the request after that is answered to partition %s, want another one", now)
	}
}

// unlead makes a broker say from now on that a partition of a topic has no leader.
func unlead(t *testing.T, broker *testenv.EmbeddedBroker, r *stocktest.Replica, topic string, partition int32) {
	t.Helper()
	c, err := r.Set.Kafka()
	testkit.Must(t, err)
	defer c.Close()
	truth, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), c) // of all topics
	testkit.Must(t, err)
	for _, found := range truth.Topics {
		for i := range found.Partitions {
			if p := &found.Partitions[i]; *found.Topic == topic && p.Partition == partition {
				p.ErrorCode, p.Leader = kerr.LeaderNotAvailable.Code, -1
			}
		}
	}
	broker.Cluster.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.Cluster.KeepControl()
		asked := r.(*kmsg.MetadataRequest)
		lie := *truth
		lie.Version = asked.Version
		lie.Topics = slices.DeleteFunc(slices.Clone(truth.Topics), func(t kmsg.MetadataResponseTopic) bool {
			return asked.Topics != nil && !slices.ContainsFunc(asked.Topics, func(a kmsg.MetadataRequestTopic) bool {
				return a.Topic != nil && *a.Topic == *t.Topic || a.TopicID == t.TopicID
			})
		})
		return &lie, nil, true
	})
}

// A link that has ended takes no request, although its last batch is still being executed: no answer would be read.
func TestKafkaEndedLinkTakesNothing(t *testing.T) {
	t.Parallel()
	broker, h, product := ownKafka(t)
	r := h.Replicas[0]
	hold := make(chan struct{})
	resume := sync.OnceFunc(func() { close(hold) })
	defer resume()
	awaitWritten := firstAt(t, h, step.Written, func() { <-hold })
	held := stocktest.Go(t, func() (stock.Receipt, error) {
		return r.Deduct(t.Context(), "kafka", stock.SQL, product, 1, "")
	})
	awaitWritten()
	broker.Restart(t)
	awaitReason(t, r, "starting over")
	r.Refuse(t, stock.ErrUnavailable, "kafka", stock.SQL, product, 1, "")
	resume()
	if got := held(); !errors.Is(got.Err, stock.ErrUnknown) {
		t.Errorf("Deduct() over it before = %v, want ErrUnknown", got.Err)
	}
}

// A replica ends in time although the coordinator of its group answers nothing any more.
func TestKafkaClosesBesideASilentCoordinator(t *testing.T) {
	t.Parallel()
	broker, h, product := ownKafka(t)
	var silent atomic.Bool
	for _, key := range []kmsg.Key{kmsg.OffsetCommit, kmsg.LeaveGroup} {
		broker.Cluster.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
			broker.Cluster.KeepControl()
			return nil, nil, silent.Load()
		})
	}
	silent.Store(true)
	h.Replicas[0].Sell(t, "kafka", stock.SQL, product, 1, "")
	ctx := testkit.Within(t, 15*time.Second)
	testkit.Is(t, h.Replicas[0].Close(ctx), nil, "Close()")
}
