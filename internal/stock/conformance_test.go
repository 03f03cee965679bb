package stock_test

import (
	"context"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/stock/stocktest"
	"lastitem/internal/testenv"
)

// envs are the sets of backends that the suite runs on.
var envs = []struct {
	name string
	open func(*testing.T) stocktest.Env
	// whole says that the suite runs there with all that any mode needs; elsewhere it checks that those modes are unavailable.
	whole bool
}{
	{"redis+mysql", realEnv, true},
	{"redis+sqlite", func(t *testing.T) stocktest.Env { return env(testenv.Redis(t), testenv.SQLite(t)) }, false},
	{"miniredis+sqlite", embeddedEnv, false},
}

func realEnv(t *testing.T) stocktest.Env { return env(testenv.Redis(t), testenv.MySQL(t)) }

func embeddedEnv(t *testing.T) stocktest.Env { return env(testenv.Miniredis(t), testenv.SQLite(t)) }

func env(r *testenv.RedisServer, dsn string) stocktest.Env {
	return stocktest.Env{Redis: r.URL, SQL: dsn, Prefix: r.Prefix}
}

// withServices adds what locks stand on besides Redis and SQL.
func withServices(t *testing.T, e stocktest.Env) stocktest.Env {
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

// withRedlock adds five Redis masters.
func withRedlock(t *testing.T, e stocktest.Env) (stocktest.Env, []*testenv.RedisNode) {
	t.Helper()
	nodes := testenv.RedisNodes(t, 5)
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.URL)
	}
	e.Redlock = strings.Join(urls, ",")
	return e, nodes
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, e := range envs {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			env := e.open(t)
			if e.whole {
				env, _ = withRedlock(t, withServices(t, env))
				env.Kafka = testenv.KafkaOrEmbedded(t, env.Prefix)
			} else {
				env.Kafka = testenv.EmbeddedKafka(t).Seeds
			}
			stocktest.Run(t, env)
		})
	}
}
