package main

import (
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/hashicorp/consul/api"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/backend"
	"lastitem/internal/cli"
	"lastitem/internal/guest"
	"lastitem/internal/lock"
	"lastitem/internal/lock/coord"
	"lastitem/internal/lock/textbook"
	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

const guestTTL = 30 * time.Second

// userServers are servers of the user's, on which something of the user's is.
type userServers struct {
	t         *testing.T
	own       guest.OwnServers
	nodes     []*testenv.RedisNode
	etcd      *testenv.Coordination
	zookeeper *testenv.Coordination
	consul    *testenv.Coordination
}

func newUserServers(t *testing.T) userServers {
	t.Helper()
	u := userServers{
		t: t, nodes: testenv.RedisNodes(t, 3), etcd: testenv.Etcd(t), zookeeper: testenv.ZooKeeper(t),
		consul: testenv.Consul(t),
	}
	u.own = guest.OwnServers{
		Redlock: u.nodes[0].URL + ", " + u.nodes[1].URL + "," + u.nodes[2].URL,
		Etcd:    "http://" + u.etcd.Addr, ZooKeeper: u.zookeeper.Addr, Consul: "http://" + u.consul.Addr,
	}
	return u
}

// hold takes a lock of the prefix on each of the extras, as a replica does, and does not release it.
func (u userServers) hold(prefix string) {
	u.t.Helper()
	set, err := backend.Open(backend.Config{
		Redlock: u.own.Redlock, Etcd: u.own.Etcd, ZooKeeper: u.own.ZooKeeper, Consul: u.own.Consul, Session: guestTTL,
		Conns: 2,
	})
	testkit.Must(u.t, err)
	u.t.Cleanup(func() { _ = set.Close() })
	o := textbook.RedlockOptions{TTL: 10 * time.Minute}
	for _, n := range set.Redlock {
		o.Nodes = append(o.Nodes, textbook.RedlockNode{Name: n.Name, Client: n.Client})
	}
	etcd, zookeeper := coord.NewEtcd(set.Etcd, guestTTL, nil), coord.NewZooKeeper(set.ZooKeeper, backend.ZooKeeperRoot,
		guestTTL, nil)
	consul := coord.NewConsul(set.Consul, coord.ConsulOptions{TTL: guestTTL}, nil)
	u.t.Cleanup(func() {
		_ = errors.Join(etcd.Close(), zookeeper.Close(), consul.Close())
	})
	for _, l := range []lock.Locker{textbook.NewRedlock(o, nil), etcd, zookeeper, consul} {
		_, err := l.Acquire(u.t.Context(), prefix+"lock:{101}")
		testkit.Mustf(u.t, err, "%T", l)
	}
}

// holds counts what is there under a prefix: keys on the first Redis node, etcd and Consul, locks in ZooKeeper.
func (u userServers) holds(prefix string) map[string]int {
	u.t.Helper()
	count := map[string]int{}
	note := func(what string, n int, err error) {
		testkit.Is(u.t, err, nil, "%s", what)
		count[what] = n
	}
	o, err := redis.ParseURL(u.nodes[0].URL)
	testkit.Must(u.t, err)
	node := redis.NewClient(o)
	defer func() { _ = node.Close() }()
	keys, err := node.Keys(u.t.Context(), prefix+"*").Result()
	if locks := slices.DeleteFunc(slices.Clone(keys), func(k string) bool {
		return strings.HasPrefix(k, prefix+"health:")
	}); len(locks) > 0 {
		// the mark of the health probes is there while somebody uses the node, and counts where nothing else is left
		keys = locks
	}
	note("redlock", len(keys), err)
	res, err := u.etcd.EtcdClient(u.t).Get(u.t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	note("etcd", int(res.Count), err)
	names, _, err := u.consul.ConsulClient(u.t).KV().Keys(prefix, "", (&api.QueryOptions{}).WithContext(u.t.Context()))
	note("consul", len(names), err)
	locks, _, err := u.zookeeper.ZooKeeperConn(u.t, guestTTL).Children(backend.ZooKeeperRoot)
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	ours := 0
	for _, name := range locks {
		if strings.HasPrefix(name, prefix) {
			ours++
		}
	}
	note("zookeeper", ours, err)
	return count
}

func (u userServers) wantHolds(prefix string, want int) {
	u.t.Helper()
	for what, n := range u.holds(prefix) {
		if n != want {
			u.t.Errorf("%d locks of %s on %s, want %d", n, prefix, what, want)
		}
	}
}

// A guest takes away what its locks left on the user's servers, held or not, and nothing else. It is the last command
// that does it here, which knows what it is told by its environment only.
func TestGuestLeavesNothing(t *testing.T) {
	u := newUserServers(t)
	zookeeper := u.zookeeper.ZooKeeperConn(t, guestTTL)
	g, err := newGuest(t.Context(), u.own)
	testkit.Must(t, err)
	other, err := newGuest(t.Context(), u.own)
	testkit.Must(t, err)
	u.hold(g.Prefix)
	u.hold(other.Prefix)
	u.wantHolds(g.Prefix, 1)
	u.nodes[2].Kill() // a minority
	text, err := json.Marshal(g)
	testkit.Must(t, err)
	t.Setenv(guest.Env, string(text))
	if code, _, errOut := commandLine(t.Context(), newGuestLeave()); code != cli.ExitOK {
		t.Fatalf("guest-leave: exit code %d, %s", code, errOut)
	}
	u.wantHolds(g.Prefix, 0)
	u.wantHolds(other.Prefix, 1)
	testkit.Check(t, other.Leave(t.Context()))
	testkit.Is(t, other.Leave(t.Context()), nil, "leave again")
	if there, _, err := zookeeper.Exists(backend.ZooKeeperRoot); there || err != nil {
		t.Errorf("%s in ZooKeeper is still there (%v)", backend.ZooKeeperRoot, err)
	}
}

// A root that was there before stays.
func TestGuestLeavesTheRoot(t *testing.T) {
	z := testenv.ZooKeeper(t)
	c := z.ZooKeeperConn(t, guestTTL)
	if _, err := c.Create(backend.ZooKeeperRoot, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil &&
		!errors.Is(err, zk.ErrNodeExists) {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(backend.ZooKeeperRoot, -1) })
	g, err := newGuest(t.Context(), guest.OwnServers{ZooKeeper: z.Addr})
	testkit.Must(t, err)
	if _, err := c.Create(path.Join(backend.ZooKeeperRoot, g.Prefix+"lock:{101}"), nil, zk.FlagPersistent,
		zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	testkit.Check(t, g.Leave(t.Context()))
	left, _, err := c.Children(backend.ZooKeeperRoot)
	if err != nil || len(left) > 0 {
		t.Errorf("below %s there is %q, %v, want it empty and there", backend.ZooKeeperRoot, left, err)
	}
}

// Topics and consumer groups of the run go, others stay.
func TestGuestLeavesKafka(t *testing.T) {
	t.Parallel()
	broker, err := stack.StartKfake("127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(broker.Close)
	g, err := newGuest(t.Context(), guest.OwnServers{Kafka: broker.ListenAddrs()[0]})
	testkit.Must(t, err)
	ctx := testkit.Within(t, testenv.Still)
	for _, name := range []string{backend.KafkaPrefix(g.Prefix) + "orders", "theirs"} {
		c, err := backend.OpenKafka(g.Own.Kafka, kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics(name),
			kgo.ConsumerGroup(name),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		testkit.Must(t, err)
		testkit.Must(t, c.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte("1")}).FirstErr())
		testkit.Must(t, c.PollFetches(ctx).Err())
		testkit.Must(t, c.CommitUncommittedOffsets(ctx))
		c.Close()
	}
	for range 2 { // the demo's own, and the keeper's last command
		testkit.Check(t, g.Leave(ctx))
	}
	c, err := backend.OpenKafka(g.Own.Kafka)
	testkit.Must(t, err)
	defer c.Close()
	admin := kadm.NewClient(c)
	topics, err := admin.ListTopics(ctx)
	if names := topics.Names(); err != nil || len(names) != 1 || names[0] != "theirs" {
		t.Errorf("topics left: %q, %v, want theirs", names, err)
	}
	groups, err := admin.ListGroups(ctx)
	if names := groups.Groups(); err != nil || len(names) != 1 || names[0] != "theirs" {
		t.Errorf("groups left: %q, %v, want theirs", names, err)
	}
}

// Servers that do not answer, and addresses that are none, are told before anything is started.
func TestGuestRefuses(t *testing.T) {
	t.Parallel()
	for want, own := range map[string]guest.OwnServers{
		"etcd address \"here:2379\": want http://": {Etcd: "here:2379"},
		"--redlock: backend: Redlock: want three":  {Redlock: "redis://127.0.0.1:1"},
		"Kafka address \"here\"":                   {Kafka: "here"},
		"ZooKeeper address":                        {ZooKeeper: "http://127.0.0.1:2181"},
	} {
		_, err := newGuest(t.Context(), own)
		var e *cli.Error
		if !errors.As(err, &e) || e.Code != cli.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("newGuest(%+v) = %v, want a usage error with %q", own, err, want)
		}
	}
	// An address that cannot be read is named by its flag.
	for backend, own := range map[string]guest.OwnServers{
		"redis": {Redis: "x"}, "sql": {SQL: "sqlite:/nowhere/shop.db"}, "redlock": {Redlock: "redis://a"},
		"zookeeper": {ZooKeeper: "x"},
		"etcd":      {Etcd: "x"}, "consul": {Consul: "x"}, "kafka": {Kafka: "x"},
	} {
		var e *cli.Error
		if _, err := newGuest(t.Context(), own); !errors.As(err, &e) || e.Code != cli.ExitUsage ||
			!strings.HasPrefix(err.Error(), "--"+backend+": ") {
			t.Errorf("newGuest(%+v) = %v, want a usage error of --%s", own, err, backend)
		}
	}
	for want, own := range map[string]guest.OwnServers{
		"--consul http://127.0.0.1:1: ": {Consul: "http://127.0.0.1:1"}, "--kafka 127.0.0.1:1: ": {Kafka: "127.0.0.1:1"},
	} {
		if _, err := newGuest(t.Context(), own); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("newGuest without a server = %v, want the flag and the address", err)
		}
	}
}
