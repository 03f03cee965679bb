package stack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lastitem/testkit"
)

// installedExtras are those that can be started here or, by SHOP_TEST_REQUIRE, must be.
func installedExtras(t *testing.T) []string {
	t.Helper()
	installed, _ := coordinationBackends(t)
	all := append([]string{Kafka}, installed...)
	if _, err := Find(Redlock); err == nil {
		all = append(all, Redlock)
	}
	return all
}

// logged collects what a stack says about itself.
type logged struct {
	sync.Mutex
	lines []string
}

func (l *logged) add(format string, args ...any) {
	l.Lock()
	defer l.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// lineOf returns the only line about a part.
func (l *logged) lineOf(t *testing.T, name string) string {
	t.Helper()
	l.Lock()
	defer l.Unlock()
	var found []string
	for _, line := range l.lines {
		if strings.HasPrefix(line, name+": ") {
			found = append(found, line)
		}
	}
	if len(found) != 1 {
		t.Errorf("%d lines about %s, want one: %q", len(found), name, found)
		return ""
	}
	return found[0]
}

// TestExtrasOfReplicas: with replicas every extra that is installed is started, each once and by itself, and the
// replicas are told of it.
func TestExtrasOfReplicas(t *testing.T) {
	testkit.Slow(t, "starts every server that is installed")
	t.Parallel()
	there := installedExtras(t)
	var log logged
	s, err := Start(t.Context(), Options{Replicas: 1, Log: log.add})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	tr := partsOf(s)
	env := askEnv(t, s.URL)
	var nodes []string
	for _, n := range s.Redlock {
		nodes = append(nodes, n.URL)
	}
	urls := map[string]string{
		Redlock: strings.Join(nodes, ","), Etcd: s.Etcd.URL, ZooKeeper: s.ZooKeeper.URL, Consul: s.Consul.URL,
		Kafka: s.Kafka.URL,
	}
	for _, b := range extras {
		line, here := log.lineOf(t, b), slices.Contains(there, b)
		switch {
		case here && (urls[b] == "" || !strings.Contains(line, " at ")):
			t.Errorf("%s was not started: %s", b, line)
		case !here && (urls[b] != "" || !strings.Contains(line, "none, because: ") ||
			!strings.Contains(line, "to install it")):
			t.Errorf("%s = %q, %q, want none and what to install", b, urls[b], line)
		}
		if name := "SHOP_" + strings.ToUpper(b); env[name] != urls[b] {
			t.Errorf("%s = %q, want %q", name, env[name], urls[b])
		}
	}
	slices.Sort(nodes)
	if slices.Contains(there, Redlock) && len(slices.Compact(nodes)) != 5 {
		t.Errorf("Redlock's nodes are %q, want five", nodes)
	}
	wantCleanEnd(t, s, tr)
}

// Extras that Only names are there, or Start fails; those that it does not name are not started.
func TestExtrasAskedFor(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{Replicas: 1, Backend: Embedded, Only: []string{Etcd}},
		{Replicas: 1, Backend: Embedded, All: true},
	} {
		if s, err := Start(t.Context(), o); err == nil {
			_ = s.Close()
			t.Errorf("Start(%s, %v, all %t) = nil, want an error", o.Backend, o.Only, o.All)
		}
	}
	s := startStack(t, Options{Replicas: 1, Backend: Embedded, Only: []string{Kafka}})
	if s.Redis.URL == "" || s.SQL.URL == "" || s.Kafka.URL == "" || s.Etcd.URL != "" {
		t.Errorf("only Kafka with a replica = %+v", s)
	}
}

// Of all extras, only those of Options.Extras are started, and only those are demanded by Options.All.
func TestExtrasNarrowed(t *testing.T) {
	t.Parallel()
	s := startStack(t, Options{Replicas: 1, Backend: Embedded, Extras: []string{}})
	if s.Redis.URL == "" || s.SQL.URL == "" || s.Kafka.URL != "" {
		t.Errorf("a stack without extras = %+v", s)
	}
	s = startStack(t, Options{Replicas: 1, Backend: Embedded, Extras: []string{Redis, Kafka}})
	if s.Kafka.URL == "" {
		t.Errorf("a stack with Kafka = %+v", s)
	}
	for _, c := range []struct {
		o    Options
		want []string
	}{
		{Options{Replicas: 1}, extras},
		{Options{Replicas: 1, Extras: []string{Redis, Etcd}}, []string{Etcd}},
		{Options{Replicas: 1, Extras: []string{}, Consul: "http://127.0.0.1:8500"}, []string{Consul}},
	} {
		if got := c.o.useful(); !slices.Equal(got, c.want) {
			t.Errorf("extras of %q = %q, want %q", c.o.Extras, got, c.want)
		}
	}
}

// Replicas are told why a backend is missing, with what works for whoever started them.
func TestMissingIsTold(t *testing.T) {
	t.Parallel()
	advice := func(backend string) string { return "bring " + backend }
	want := map[string]string{
		MySQL: "the embedded database is SQLite: bring mysql", Redlock: "there is no embedded redlock: bring redlock",
		Etcd: "there is no embedded etcd: bring etcd", ZooKeeper: "there is no embedded zookeeper: bring zookeeper",
		Consul: "there is no embedded consul: bring consul",
	}
	told := func(o Options) (got map[string]string) {
		o.Replicas, o.Backend, o.Advice = 1, Embedded, advice
		testkit.Must(t, json.Unmarshal([]byte(askEnv(t, startStack(t, o).URL)["SHOP_MISSING"]), &got))
		return got
	}
	testkit.Same(t, told(Options{}), want, "SHOP_MISSING")
	delete(want, Etcd)
	want[MySQL] = "the database given is SQLite: bring mysql"
	testkit.Same(t, told(Options{Etcd: "http://e:5", SQL: "sqlite:" + t.TempDir() + "/own.db"}), want,
		"SHOP_MISSING beside an etcd and an SQLite of the user's own")
	o := Options{Replicas: 1, Backend: Embedded, Only: []string{Etcd}, Advice: advice}
	if s, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no embedded etcd: bring etcd") {
		if err == nil {
			_ = s.Close()
		}
		t.Errorf("Start() with an extra that is missing = %v, want the advice", err)
	}
	notFound := fmt.Errorf("etcd %w; to install it: pray", errNotInstalled)
	testkit.Is(t, (&Options{Advice: advice}).advised(Etcd, notFound).Error(),
		"etcd not found; to install it: pray; or bring etcd", "advised()")
}

// Extras of the user's own are passed on as they are, and neither started nor looked for.
func TestGivenExtras(t *testing.T) {
	t.Parallel()
	o := Options{
		Replicas: 1, Backend: Embedded, All: true, SQL: "sqlite:" + t.TempDir() + "/own.db",
		Redlock: "redis://:secret@a:1,redis://b:2,redis://c:3", Etcd: "http://d:4,http://e:5", ZooKeeper: "f:6",
		Consul: "http://g:7", Kafka: "h:8",
	}
	var log logged
	o.Log = log.add
	s, err := Start(t.Context(), o)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	env := askEnv(t, s.URL)
	for name, want := range map[string]string{
		"SHOP_REDLOCK": o.Redlock, "SHOP_ETCD": o.Etcd, "SHOP_ZOOKEEPER": o.ZooKeeper, "SHOP_CONSUL": o.Consul,
		"SHOP_KAFKA": o.Kafka,
	} {
		testkit.Is(t, env[name], want, "%s", name)
	}
	if len(s.Redlock) != 3 || s.Redlock[1] != given("redlock 2", "redis://b:2") || s.Etcd != given(Etcd, o.Etcd) {
		t.Errorf("services = %+v and %+v, want the given ones", s.Redlock, s.Etcd)
	}
	if got, want := log.lineOf(t, Redlock), "redlock: redis://:***@a:1,redis://b:2,redis://c:3, as given"; got != want {
		t.Errorf("the log says %q, want %q", got, want)
	}
}

// The embedded broker takes a record and gives it back, and listens where it was told to.
func TestKfake(t *testing.T) {
	t.Parallel()
	if c, err := StartKfake("0.0.0.0:0"); err == nil {
		c.Close()
		t.Error("StartKfake(0.0.0.0) = nil, want an error: it listens on 127.0.0.1 only")
	}
	s := startStack(t, Options{Backend: Embedded, Only: []string{Kafka}})
	wantRecords(t, s.Kafka, 1)
}

// A real broker does so too, also after it was killed: what it had taken is there.
func TestKafkaBroker(t *testing.T) {
	testkit.Engines(t, "starts a real Kafka three times")
	t.Parallel()
	wants(t, Kafka)
	s := startStack(t, Options{Backend: Local, Only: []string{Kafka}, Restart: true})
	if s.Kafka.PID == 0 || versionNumber.FindString(s.Kafka.Kind) == "" {
		t.Errorf("Kafka = %+v, want a version and a process", s.Kafka)
	}
	wantRecords(t, s.Kafka, 1)
	pid := s.Kafka.PID
	testkit.Must(t, syscall.Kill(pid, syscall.SIGKILL))
	for begun := time.Now(); s.PID(Kafka) == pid; time.Sleep(readyPolling) {
		if time.Since(begun) > 2*readyWithin {
			t.Fatal("the broker was not started again")
		}
	}
	wantRecords(t, s.Kafka, 2)
}

// wantRecords produces a record, and fetches the n that there are then, from the one broker.
func wantRecords(t *testing.T, sv Service, n int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(sv.URL), kgo.ConsumeTopics("t"), kgo.AllowAutoTopicCreation(),
		kgo.UnknownTopicRetries(-1)) // on a busy machine the new topic may not be there for seconds
	testkit.Must(t, err)
	defer client.Close()
	if err := client.ProduceSync(t.Context(), kgo.StringRecord("sold")).FirstErr(); err == nil {
		t.Error("a record without a topic was taken")
	}
	ctx := testkit.Within(t, readyWithin)
	testkit.Must(t, client.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("sold")}).FirstErr())
	for got := range n {
		fetches := client.PollRecords(ctx, 1)
		if records := fetches.Records(); fetches.Err() != nil || len(records) != 1 || string(records[0].Value) != "sold" {
			t.Fatalf("fetched %v, %v after %d, want a record", records, fetches.Err(), got)
		}
	}
	meta, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
	testkit.Must(t, err)
	if at := fmt.Sprintf("%s:%d", meta.Brokers[0].Host, meta.Brokers[0].Port); len(meta.Brokers) != 1 || at != sv.Addr {
		t.Errorf("%d brokers, the first at %s, want one at %s", len(meta.Brokers), at, sv.Addr)
	}
}
