package wire_test

import (
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	driver "github.com/go-sql-driver/mysql"

	"lastitem/internal/backend"
	"lastitem/internal/testenv"
	"lastitem/internal/wire"
)

// tap puts a tap before a server.
func tap(t *testing.T, r *wire.Recorder, addr string, p wire.Protocol) string {
	t.Helper()
	tap, err := r.Tap("server", addr, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tap.Close)
	return tap.Addr
}

// recorded are the texts of the calls so far, after those that are not asked for; each must have been answered.
func recorded(t *testing.T, r *wire.Recorder, leaveOut ...string) (texts []string) {
	t.Helper()
calls:
	for _, c := range r.Between(time.Time{}, time.Now()) {
		for _, prefix := range leaveOut {
			if strings.HasPrefix(c.Text, prefix) {
				continue calls
			}
		}
		if c.Server != "server" || !c.Answered.After(c.Sent) {
			t.Errorf("%s: on %s, sent %v, answered %v", c.Text, c.Server, c.Sent, c.Answered)
		}
		texts = append(texts, c.Text)
	}
	return texts
}

func want(t *testing.T, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestRedis(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	o, err := redis.ParseURL(testenv.Miniredis(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	o.Addr = tap(t, &r, o.Addr, wire.Redis)
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	sub := c.Subscribe(t.Context(), "news")
	t.Cleanup(func() { _ = sub.Close() })
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sub.Ping(t.Context()); err != nil { // no part of what the others send
		t.Fatal(err)
	}
	if err := c.Set(t.Context(), "stock:{101}", `{"a b": 'c'}`, 0).Err(); err != nil {
		t.Fatal(err)
	}
	pipe := c.Pipeline()
	pipe.Get(t.Context(), "stock:{101}")
	pipe.Del(t.Context(), "stock:{101}", "")
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Publish(t.Context(), "news", "it's sold").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := sub.ReceiveMessage(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, []string{
		`SET stock:{101} "{\"a b\": 'c'}"`, `GET stock:{101}`, `DEL stock:{101} ""`, `PUBLISH news "it's sold"`,
	}, recorded(t, &r, "HELLO", "CLIENT"))
	r.Forget()
	if left := r.Between(time.Time{}, time.Now()); len(left) > 0 {
		t.Errorf("after Forget: %v", left)
	}
}

// numberless hides the number of a prepared statement, which the server counts for everybody.
func numberless(calls []string) []string {
	for i, c := range calls {
		calls[i] = statementNumber.ReplaceAllString(c, "EXECUTE statement <n>")
	}
	return calls
}

var statementNumber = regexp.MustCompile(`^EXECUTE statement \d+$`)

func TestMySQL(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	cfg, err := driver.ParseDSN(testenv.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Addr = tap(t, &r, cfg.Addr, wire.MySQL)
	db, err := backend.OpenSQL(cfg.FormatDSN(), 1)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	var n int
	if err := pool.QueryRowContext(t.Context(), "SELECT\n\t? + 1", 41).Scan(&n); err != nil || n != 42 {
		t.Fatalf("%d, %v", n, err)
	}
	bytes := []byte{0, 1, '\'', 0xff}
	if err := pool.QueryRowContext(t.Context(), "SELECT 1 FROM dual WHERE 'x' = ? OR 1", bytes).Scan(&n); err != nil {
		t.Fatal(err)
	}
	prepared, err := pool.PrepareContext(t.Context(), "SELECT ?")
	if err != nil {
		t.Fatal(err)
	}
	if err := prepared.QueryRowContext(t.Context(), 7).Scan(&n); err != nil {
		t.Fatal(err)
	}
	_ = prepared.Close()
	if err := pool.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, []string{
		"SELECT 41 + 1", "SELECT 1 FROM dual WHERE 'x' = <bytes> OR 1", "PREPARE SELECT ?", "EXECUTE statement <n>", "PING",
	}, numberless(recorded(t, &r, "SET NAMES")))
	calls := r.Between(time.Time{}, time.Now())
	for i := range calls[1:] {
		if calls[i].Answered.After(calls[i+1].Sent) {
			t.Errorf("%s is answered after %s was sent", calls[i].Text, calls[i+1].Text)
		}
	}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
	}))
	t.Cleanup(server.Close)
	addr := tap(t, &r, strings.TrimPrefix(server.URL, "http://"), wire.HTTP)
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPut, "/v1/kv/lock?acquire=1", "owner 1"}, {http.MethodGet, "/v1/kv/lock", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+addr+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	want(t, []string{"PUT /v1/kv/lock?acquire=1 'owner 1'", "GET /v1/kv/lock"}, recorded(t, &r))
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	etcd := testenv.Etcd(t)
	tapped := testenv.Coordination{Addr: tap(t, &r, etcd.Addr, wire.GRPC), Prefix: etcd.Prefix}
	c := tapped.EtcdClient(t)
	r.Forget() // what the client has said to see that it can
	if _, err := c.Put(t.Context(), etcd.Prefix+"a", "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), etcd.Prefix+"a"); err != nil {
		t.Fatal(err)
	}
	want(t, []string{
		`KV.Put key:"` + etcd.Prefix + `a" value:"1"`, `KV.Range key:"` + etcd.Prefix + `a"`,
	}, recorded(t, &r))
}

func TestZooKeeper(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	server := testenv.ZooKeeper(t)
	c, _, err := zk.Connect([]string{tap(t, &r, server.Addr, wire.ZooKeeper)}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err := c.Create(server.Prefix, []byte("1"), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Children(server.Prefix); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(server.Prefix, -1); err != nil {
		t.Fatal(err)
	}
	want(t, []string{"create " + server.Prefix, "getChildren2 " + server.Prefix, "delete " + server.Prefix}, recorded(t, &r))
}

// cutting hands a protocol what passes in pieces.
func cutting(p wire.Protocol, size int) wire.Protocol {
	cut := func(read wire.Reader) wire.Reader {
		return func(p []byte) (calls []*wire.Call) {
			for piece := range slices.Chunk(p, size) {
				calls = append(calls, read(piece)...)
			}
			return calls
		}
	}
	return func() (sent, heard wire.Reader) {
		sent, heard = p()
		return cut(sent), cut(heard)
	}
}

func TestKafka(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		size    int // of what the readers get at a time
		version *kversion.Versions
	}{
		{"topics by id", math.MaxInt, kversion.Stable()}, {"topics by name", math.MaxInt, kversion.V2_4_0()},
		{"byte by byte", 1, kversion.Stable()}, {"by seven bytes", 7, kversion.Stable()},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testKafka(t, cutting(wire.Kafka(), c.size), kgo.MaxVersions(c.version))
		})
	}
}

func testKafka(t *testing.T, p wire.Protocol, versions kgo.Opt) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var r wire.Recorder
	broker := testenv.EmbeddedKafka(t)
	addr := tap(t, &r, broker.Seeds, p)
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

// letters is a protocol whose every letter is a command, and the same letter its answer; capitals are polls.
func letters() (sent, heard wire.Reader) {
	open := map[byte]*wire.Call{}
	sent = func(p []byte) (calls []*wire.Call) {
		for _, letter := range p {
			open[letter] = &wire.Call{Text: string(letter), Poll: letter < 'a'}
			calls = append(calls, open[letter])
		}
		return calls
	}
	heard = func(p []byte) (calls []*wire.Call) {
		for _, letter := range p {
			calls = append(calls, open[letter])
		}
		return calls
	}
	return sent, heard
}

// Where answers are read, each is that of its own command; a poll is no call before it is answered, and stands there.
func TestPoll(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", tap(t, &r, l.Addr().String(), letters))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	pass := func(from, to net.Conn, letters string) {
		t.Helper()
		if _, err := from.Write([]byte(letters)); err != nil {
			t.Fatal(err)
		}
		_ = to.SetReadDeadline(time.Now().Add(time.Minute))
		got := make([]byte, len(letters))
		if _, err := io.ReadFull(to, got); err != nil || string(got) != letters {
			t.Fatalf("%s passes as %s, %v", letters, got, err)
		}
	}
	pass(client, server, "P")
	pass(client, server, "ab")
	pass(server, client, "b")
	calls := r.Between(time.Time{}, time.Now())
	if len(calls) != 2 || !calls[0].Answered.IsZero() || calls[1].Answered.IsZero() {
		t.Errorf("after an answer to b: %+v", calls)
	}
	later := time.Now()
	pass(server, client, "aP")
	want(t, []string{"a", "b", "P"}, recorded(t, &r))
	calls = r.Between(later, time.Now())
	if len(calls) != 1 || calls[0].Text != "P" || !calls[0].Sent.Before(later) {
		t.Errorf("of the time of its answer: %+v, want P, sent before", calls)
	}
}

// Whatever the network cuts, the calls are the same.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, bytes string
		protocol    wire.Protocol
		want        []string
	}{
		{
			"redis", "*1\r\n$4\r\nping\r\n*2\r\n$3\r\nget\r\n$2\r\n\r\n\r\nnonsense\r\n*1\r\n$4\r\nPING\r\n", wire.Redis,
			[]string{"PING", `GET "\r\n"`, "PING"},
		},
		{
			"mysql", "\x03\x00\x00\x01log\x09\x00\x00\x00\x03SELECT 1\x01\x00\x00\x00\x01\x01\x00\x00\x00\x0e", wire.MySQL,
			[]string{"SELECT 1", "PING"},
		},
		{
			"http", "PUT /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiGET /b HTTP/1.1\r\nHost: x\r\n\r\n", wire.HTTP,
			[]string{"PUT /a hi", "GET /b"},
		},
		{
			"zookeeper", "\x00\x00\x00\x02hi\x00\x00\x00\x0e\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x02/a" +
				"\x00\x00\x00\x08\xff\xff\xff\xfe\x00\x00\x00\x0b\x00\x00\x00\x08\x00\x00\x00\x02\x00\x00\x00\x63", wire.ZooKeeper,
			[]string{"delete /a", "request 99 (0 bytes)"},
		},
	} {
		for _, size := range []int{1, 2, 3, len(c.bytes)} {
			read, _ := c.protocol()
			var got []string
			for rest := []byte(c.bytes); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				for _, call := range read(rest[:min(size, len(rest))]) {
					got = append(got, call.Text)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s by %d bytes (-want +got):\n%s", c.name, size, diff)
			}
		}
	}
}

func TestRedisWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		`"set" "a b" "\x00\xff\"\\\n"`: {"set", "a b", "\x00\xff\"\\\n"},
		`"ping"`:                       {"ping"},
		`ping`:                         nil,
		`"ping`:                        nil,
		``:                             nil,
	} {
		got, ok := wire.RedisWords(line)
		if diff := cmp.Diff(want, got); diff != "" || ok != (want != nil) {
			t.Errorf("RedisWords(%s) = %q, %t, want %q", line, got, ok, want)
		}
	}
}

// A tap that is closed has closed both of its connections, and a server that is not there is a connection that ends.
func TestTapEnds(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	tap, err := r.Tap("server", "127.0.0.1:1", wire.Redis)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: tap.Addr, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.Ping(ctx).Err(); err == nil || ctx.Err() != nil {
		t.Errorf("a ping to nobody: %v, %v; want an error at once", err, ctx.Err())
	}
	tap.Close()
	tap.Close()
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("a ping by a tap that is closed: no error")
	}
}
