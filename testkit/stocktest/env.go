package stocktest

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/backend"
	"lastitem/internal/stock"
	"lastitem/testkit/testenv"
)

// Env is one set of backends, private to the test.
type Env struct {
	Redis  string // URL
	SQL    string // DSN
	Prefix string // of every Redis key
	// Cluster says that Redis is a cluster, where no script reaches several products: a mode may refuse a cart.
	Cluster bool

	// Backends that only some modes need, see backend.Config; "" makes these modes unavailable.
	Redlock, ZooKeeper, Etcd, Consul, Kafka string
	// Unready says that Kafka's broker will not answer; then Open does not wait until the mode can be used.
	Unready bool
	Log     *slog.Logger // of every replica; nil = none

	// Work is [shop.Options.Work]; 0 = so long that a test which holds a deduction does not meet it. With Health, requests
	// fail at once while a backend is down.
	Work   time.Duration
	Health backend.Health

	// Idle is how many replicas, the first ones, consume no tickets. If there are any, the others take over at once what
	// somebody has had for 50 ms, twenty tickets may be in flight, and the two looks of a repair are 5 ms apart.
	Idle int

	// Patience is how long the clients wait for the servers. If it says nothing about Redis, they and the lock engine wait
	// longer than by default: on a busy machine a server, and an embedded one most of all, may wait seconds for a
	// processor.
	Patience backend.Patience
}

// has says whether there is a backend.
func (e Env) has(b stock.Backend) bool {
	switch b {
	case stock.NeedMySQL:
		return !strings.HasPrefix(e.SQL, "sqlite:")
	case stock.NeedRedlock:
		return e.Redlock != ""
	case stock.NeedZooKeeper:
		return e.ZooKeeper != ""
	case stock.NeedEtcd:
		return e.Etcd != ""
	case stock.NeedConsul:
		return e.Consul != ""
	case stock.NeedKafka:
		return e.Kafka != ""
	default:
		return true
	}
}

// Envs are the sets of backends that the tests of single modes run on: each server once.
var Envs = []struct {
	Name string
	Open func(*testing.T) Env
}{
	{"redis+mysql", Real}, {"miniredis+sqlite", Embedded},
}

// Real returns a real Redis and a real MySQL.
func Real(t *testing.T) Env { return On(testenv.Redis(t), testenv.MySQL(t)) }

// Embedded returns embedded backends, which need no server.
func Embedded(t *testing.T) Env { return On(testenv.Miniredis(t), testenv.SQLite(t)) }

// Cluster returns a Redis Cluster of three masters and an embedded database.
func Cluster(t *testing.T) Env {
	t.Helper()
	o := testenv.RedisCluster(t, 3)
	var urls []string
	for _, addr := range o.Addrs {
		node := url.URL{Scheme: "redis", User: url.UserPassword(o.Username, o.Password), Host: addr}
		urls = append(urls, node.String())
	}
	return Env{Redis: strings.Join(urls, ","), SQL: testenv.SQLite(t), Prefix: "conformance:", Cluster: true}
}

// On returns an Env of a Redis and a database.
func On(r *testenv.RedisServer, dsn string) Env {
	return Env{Redis: r.URL, SQL: dsn, Prefix: r.Prefix}
}

// OnEach runs a test on each of [Envs], with three replicas.
func OnEach(t *testing.T, test func(*testing.T, *Harness)) {
	t.Parallel()
	for _, e := range Envs {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			test(t, Open(t, e.Open(t), 3, stock.Modes()))
		})
	}
}

// WithServices adds the servers of locks that need more than Redis and SQL.
func (e Env) WithServices(t *testing.T) Env {
	t.Helper()
	etcd := testenv.Etcd(t)
	client := etcd.EtcdClient(t)
	t.Cleanup(func() { // of the stock, which ends with no session
		if _, err := client.Delete(context.Background(), e.Prefix, clientv3.WithPrefix()); err != nil {
			t.Errorf("delete the keys under %s: %v", e.Prefix, err)
		}
	})
	e.ZooKeeper = testenv.ZooKeeper(t).Addr
	e.Etcd = "http://" + etcd.Addr
	e.Consul = "http://" + testenv.Consul(t).Addr
	return e
}

// WithRedlock adds five Redis masters.
func (e Env) WithRedlock(t *testing.T) (Env, []*testenv.RedisNode) {
	t.Helper()
	nodes := testenv.RedisNodes(t, 5)
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.URL)
	}
	e.Redlock = strings.Join(urls, ",")
	return e, nodes
}
