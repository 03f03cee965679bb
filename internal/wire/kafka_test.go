package wire_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"lastitem/internal/backend"
	"lastitem/internal/testenv"
	"lastitem/internal/wire"
)

func TestKafka(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]*kversion.Versions{"topics by id": kversion.Stable(), "topics by name": kversion.V2_4_0()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testKafka(t, kgo.MaxVersions(version))
		})
	}
}

func testKafka(t *testing.T, versions kgo.Opt) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var r wire.Recorder
	broker := testenv.EmbeddedKafka(t)
	addr := tap(t, &r, broker.Seeds, wire.Kafka)
	dial := kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	})
	open := func(opts ...kgo.Opt) *kgo.Client {
		client, err := backend.OpenKafka(broker.Seeds, append(opts, dial, versions)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return client
	}
	producer := open(kgo.ManualFlushing(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if _, err := kadm.NewClient(producer).CreateTopic(ctx, 3, 1, nil, "sales"); err != nil {
		t.Fatal(err)
	}
	consumer := open(kgo.ConsumerGroup("shop"), kgo.ConsumeTopics("sales"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.FetchMaxWait(10*time.Millisecond))
	waitForFetches(ctx, t, broker, 3) // of which two have been answered, with nothing
	value := `{"it's":1,"body":"` + strings.Repeat("aGFja3M+", 5) + `"}`
	for _, record := range []*kgo.Record{{Key: []byte("1 0"), Value: []byte(value)}, {Value: []byte("x")}} {
		record.Topic, record.Partition = "sales", 2
		producer.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("Produce: %v", err)
			}
		})
	}
	if err := producer.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	fetches := consumer.PollFetches(ctx)
	if fetches.NumRecords() != 2 {
		t.Fatalf("%d records, %v", fetches.NumRecords(), fetches.Err())
	}
	if err := consumer.CommitRecords(ctx, fetches.Records()...); err != nil {
		t.Fatal(err)
	}
	want(t, []string{
		`Produce sales/2: key '1 0' value "{\"it's\":1,\"body\":<bytes>}", value x`,
		`Fetch sales/2: key '1 0' offset 0, offset 1`, `OffsetCommit shop sales/2: offset 2`,
	}, recorded(t, &r))
}

// waitForFetches waits until the broker has been asked so many times for records.
func waitForFetches(ctx context.Context, t *testing.T, broker *testenv.EmbeddedBroker, n int) {
	t.Helper()
	asked := make(chan struct{}, n)
	broker.Cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		broker.Cluster.KeepControl()
		select {
		case asked <- struct{}{}:
		default:
		}
		return nil, nil, false
	})
	for range n {
		select {
		case <-asked:
		case <-ctx.Done():
			t.Fatal("the consumer does not fetch")
		}
	}
}

// What is produced is held, and then its answer; the polls of a consumer go on.
func TestKafkaCuts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	broker := testenv.EmbeddedKafka(t)
	p := newProxy(t, broker.Seeds, wire.Kafka)
	client, err := backend.OpenKafka(broker.Seeds, kgo.DefaultProduceTopic("sales"), kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, p.Addr)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, "sales"); err != nil {
		t.Fatal(err)
	}
	for i, answer := range []bool{false, true} {
		h := p.Add(wire.Rule{Answer: answer, Match: is("Produce sales")})
		done := make(chan error, 1)
		client.Produce(ctx, &kgo.Record{Value: []byte("x")}, func(_ *kgo.Record, err error) { done <- err })
		reached(t, h)
		there := func() int64 {
			offsets, err := admin.ListEndOffsets(ctx, "sales") // by another connection than what is produced
			if err != nil {
				t.Fatal(err)
			}
			o, _ := offsets.Lookup("sales", 0)
			return o.Offset
		}
		want := int64(i)
		if answer {
			want++
		}
		if n := there(); n != want {
			t.Errorf("while it is held (answer: %t) there are %d records, want %d", answer, n, want)
		}
		h.Pass()
		if err := <-done; err != nil || there() != int64(i+1) {
			t.Errorf("Produce = %v, %d records", err, there())
		}
	}
	if len(p.Unanswered()) > 0 || p.Err() != nil {
		t.Error(p.Unanswered(), p.Err())
	}
}
