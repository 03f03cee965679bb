package wire_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/backend"
	"lastitem/stack/wire"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

func TestKafka(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]*kversion.Versions{"topics by id": kversion.Stable(),
		"topics by name": kversion.V2_4_0()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testKafka(t, kgo.MaxVersions(version))
		})
	}
}

func testKafka(t *testing.T, versions kgo.Opt) {
	ctx := testkit.Within(t, time.Minute)
	var r wire.Recorder
	broker := testenv.EmbeddedKafka(t)
	addr := tap(t, &r, broker.Seeds, wire.Kafka)
	dial := kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	})
	open := func(opts ...kgo.Opt) *kgo.Client {
		client, err := backend.OpenKafka(broker.Seeds, append(opts, dial, versions)...)
		testkit.Must(t, err)
		t.Cleanup(client.Close)
		return client
	}
	producer := open(kgo.ManualFlushing(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	_, err := kadm.NewClient(producer).CreateTopic(ctx, 3, 1, nil, "sales")
	testkit.Must(t, err)
	consumer := open(kgo.ConsumerGroup("shop"), kgo.ConsumeTopics("sales"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.FetchMaxWait(10*time.Millisecond))
	waitForFetches(ctx, t, broker, 3) // of which two have been answered, with nothing
	value := `{"it's":1,"body":"` + strings.Repeat("aGFja3M+", 5) + `"}`
	for _, record := range []*kgo.Record{{Key: []byte("1 0"), Value: []byte(value)}, {Value: []byte("x")}} {
		record.Topic, record.Partition = "sales", 2
		producer.Produce(ctx, record, func(_ *kgo.Record, err error) {
			testkit.Is(t, err, nil, "Produce")
		})
	}
	testkit.Must(t, producer.Flush(ctx))
	fetches := consumer.PollFetches(ctx)
	if fetches.NumRecords() != 2 {
		t.Fatalf("%d records, %v", fetches.NumRecords(), fetches.Err())
	}
	testkit.Must(t, consumer.CommitRecords(ctx, fetches.Records()...))
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
	ctx := testkit.Within(t, time.Minute)
	broker := testenv.EmbeddedKafka(t)
	p := newProxy(t, broker.Seeds, wire.Kafka)
	client, err := backend.OpenKafka(broker.Seeds, kgo.DefaultProduceTopic("sales"),
		kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, p.Addr)
		}))
	testkit.Must(t, err)
	t.Cleanup(client.Close)
	admin := kadm.NewClient(client)
	_, err = admin.CreateTopic(ctx, 1, 1, nil, "sales")
	testkit.Must(t, err)
	holdWrites(t, p, is("Produce sales"), func(int) error {
		return client.ProduceSync(ctx, &kgo.Record{Value: []byte("x")}).FirstErr()
	}, func() (int64, error) {
		offsets, err := admin.ListEndOffsets(ctx, "sales") // by another connection than what is produced
		o, _ := offsets.Lookup("sales", 0)
		return o.Offset, err
	})
	if len(p.Unanswered()) > 0 {
		t.Error(p.Unanswered())
	}
}

// etcdProxy is a proxy before an etcd, a client through it and one past it.
func etcdProxy(t *testing.T) (p *wire.Proxy, far, near *clientv3.Client, prefix string) {
	t.Helper()
	etcd := testenv.Etcd(t)
	p = newProxy(t, etcd.Addr, wire.GRPC)
	through := testenv.Coordination{Addr: p.Addr, Prefix: etcd.Prefix}
	return p, through.EtcdClient(t), etcd.EtcdClient(t), etcd.Prefix
}

func puts(key string) func(wire.Call) bool {
	return func(c wire.Call) bool { return strings.HasPrefix(c.Text, "KV.Put ") && strings.Contains(c.Text, key) }
}

// A stream is held, never the connection: others go on, in whichever order.
func TestGRPCHoldsStreams(t *testing.T) {
	t.Parallel()
	p, far, near, prefix := etcdProxy(t)
	ctx := t.Context()
	command := p.Add(wire.Rule{Match: puts(prefix + "command")})
	answer := p.Add(wire.Rule{Match: puts(prefix + "answer"), Answer: true})
	done := map[string]chan error{}
	for _, key := range []string{"command", "answer"} {
		done[key] = make(chan error, 1)
		go func() {
			_, err := far.Put(ctx, prefix+key, "1")
			done[key] <- err
		}()
	}
	reached(t, command)
	reached(t, answer)
	for i := range 20 { // headers of which the table would be full
		_, err := far.Put(ctx, fmt.Sprint(prefix, "other", i), strings.Repeat("x", 20_000))
		testkit.Must(t, err)
	}
	there := func(key string) int64 {
		r, err := near.Get(ctx, prefix+key)
		testkit.Must(t, err)
		return r.Count
	}
	if there("command") != 0 || there("answer") != 1 {
		t.Errorf("%d of the held command has arrived, %d of the held answer", there("command"), there("answer"))
	}
	if n := len(p.Unanswered()); n != 2 {
		t.Errorf("unanswered: %v", p.Unanswered())
	}
	answer.Pass()
	testkit.Check(t, <-done["answer"])
	command.Pass()
	if err := <-done["command"]; err != nil || there("command") != 1 {
		t.Errorf("the held command: %v, %d", err, there("command"))
	}
}

// A call that its client has given up still reaches the server once the proxy passes it on. Dropping a call or an
// answer without an error does not break the other streams of the connection.
func TestGRPCCuts(t *testing.T) {
	t.Parallel()
	p, far, near, prefix := etcdProxy(t)
	// giveUp puts a key, and cancels the call once the proxy holds it and then() has returned.
	giveUp := func(key string, held *wire.Hold, then func()) {
		// the server gets this deadline, too, and must not reach it before the late call
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			select {
			case <-held.Reached():
				then()
				cancel()
			case <-ctx.Done():
			}
		}()
		if _, err := far.Put(ctx, prefix+key, "1"); !errors.Is(err, context.Canceled) {
			t.Errorf("Put %s = %v, want that it is given up", key, err)
		}
	}
	late := p.Add(wire.Rule{Match: puts(prefix + "late")})
	dropped := p.Add(wire.Rule{Match: puts(prefix + "dropped")})
	lost := p.Add(wire.Rule{Match: puts(prefix + "lost"), Answer: true})
	giveUp("late", late, func() {})
	giveUp("dropped", dropped, func() { dropped.Drop(false) })
	giveUp("lost", lost, func() { lost.Drop(false) })
	count := func(key string) int64 {
		r, err := near.Get(t.Context(), prefix+key)
		testkit.Must(t, err)
		return r.Count
	}
	if count("late") != 0 || count("dropped") != 0 || count("lost") != 1 {
		t.Errorf("late %d, dropped %d, lost %d; want 0, 0, 1", count("late"), count("dropped"), count("lost"))
	}
	late.Pass()
	testkit.Until(t, "the late write arrives", func() bool { return count("late") == 1 })
	testkit.Until(t, "nothing is unanswered", func() bool { return len(p.Unanswered()) == 0 })
	_, err := far.Put(t.Context(), prefix+"last", "1")
	testkit.Check(t, err)
	reset := p.Add(wire.Rule{Match: puts(prefix + "reset")})
	go func() { reached(t, reset); reset.Drop(true) }()
	if _, err := far.Put(t.Context(), prefix+"reset", "1"); err == nil || count("reset") != 0 {
		t.Errorf("Put by a connection that is reset: %v, %d", err, count("reset"))
	}
}

// Events of a watch are pushes; one is lost, and the next is not.
func TestGRPCPushes(t *testing.T) {
	t.Parallel()
	p, far, near, prefix := etcdProxy(t)
	lost := p.Add(wire.Rule{Push: true, Match: func(c wire.Call) bool { return strings.Contains(c.Text, prefix+"lost") }})
	events := far.Watch(clientv3.WithRequireLeader(t.Context()), prefix, clientv3.WithPrefix(),
		clientv3.WithCreatedNotify())
	if r := <-events; !r.Created {
		t.Fatalf("%+v", r)
	}
	_, err := near.Put(t.Context(), prefix+"lost", "1")
	testkit.Must(t, err)
	reached(t, lost)
	lost.Drop(false)
	_, err = near.Put(t.Context(), prefix+"seen", "1")
	testkit.Must(t, err)
	r := <-events
	if len(r.Events) != 1 || string(r.Events[0].Kv.Key) != prefix+"seen" {
		t.Errorf("%+v, want only what came after the lost one", r.Events)
	}
}
