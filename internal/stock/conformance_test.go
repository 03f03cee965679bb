package stock_test

import (
	"slices"
	"testing"

	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
	"lastitem/internal/testenv"
)

// The embedded servers in the first tier, the real ones in the next, where the race detector would make the embedded ones slow.
func TestConformance(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Run("miniredis+sqlite", embedded)
	} else {
		t.Run("redis+mysql", func(t *testing.T) { shared(t, stocktest.Real) })
	}
}

func embedded(t *testing.T) {
	t.Parallel()
	stocktest.RunApart(t, func(t *testing.T) stocktest.Env { return withKafka(t, stocktest.Embedded(t)) }, stock.Modes())
}

// shared runs the suite on one set of servers for all modes.
func shared(t *testing.T, open func(*testing.T) stocktest.Env) {
	t.Parallel()
	stocktest.Run(t, withKafka(t, open(t)), stock.Modes())
}

func withKafka(t *testing.T, e stocktest.Env) stocktest.Env {
	t.Helper()
	e.Kafka = testenv.EmbeddedKafka(t).Seeds
	return e
}

// The modes that need more than Redis and SQL.
func TestConformanceOnServices(t *testing.T) {
	testenv.Slow(t, "starts etcd, ZooKeeper, Consul, Kafka and five masters of Redis")
	t.Parallel()
	services := []stock.Backend{stock.NeedRedlock, stock.NeedZooKeeper, stock.NeedEtcd, stock.NeedConsul, stock.NeedKafka}
	modes := slices.DeleteFunc(stock.Modes(), func(m stock.Mode) bool {
		return !slices.ContainsFunc(services, func(b stock.Backend) bool { return slices.Contains(m.Needs, b) })
	})
	env, _ := stocktest.Real(t).WithServices(t).WithRedlock(t)
	env.Kafka = testenv.KafkaOrEmbedded(t, env.Prefix)
	stocktest.Run(t, env, modes)
}

// On a Redis Cluster the products, and the segments of one, lie in several slots.
func TestConformanceElsewhere(t *testing.T) {
	testenv.Slow(t, "all modes on three more sets of servers")
	t.Parallel()
	t.Run("miniredis+sqlite", embedded)
	t.Run("redis+sqlite", func(t *testing.T) {
		shared(t, func(t *testing.T) stocktest.Env { return stocktest.On(testenv.Redis(t), testenv.SQLite(t)) })
	})
	t.Run("cluster", func(t *testing.T) { shared(t, stocktest.Cluster) })
}
