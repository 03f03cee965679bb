package testenv

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"lastitem/stack"
	"lastitem/stack/engine"
)

// RedisCluster starts a Redis Cluster of so many masters without replicas, which ends with the test, and returns the
// options of a client. Each master has a range of slots, in the order of the addresses.
func RedisCluster(t testing.TB, masters int) *redis.ClusterOptions {
	t.Helper()
	o, _ := redisCluster(t, masters, false)
	return o
}

// RedisFailover starts a Redis Cluster of three masters, each with a replica that takes over when its master has been
// silent for 1.5 s. It returns the options of a client of the cluster, and a client of each node. conf are lines for
// their redis.conf.
func RedisFailover(t testing.TB, conf ...string) (*redis.ClusterOptions, []*redis.Client) {
	t.Helper()
	return redisCluster(t, 3, true, conf...)
}

func redisCluster(t testing.TB, masters int, replicas bool, conf ...string) (*redis.ClusterOptions, []*redis.Client) {
	t.Helper()
	Installed(t, stack.Redis)
	c, err := engine.StartRedisCluster(t.Context(), Own(t, []string{}...), masters, replicas, conf...)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	for _, n := range c.Nodes {
		t.Cleanup(func() { _ = n.Close() })
	}
	return &redis.ClusterOptions{Addrs: c.Addrs(), Username: "default", Password: c.Password, ContextTimeoutEnabled: true},
		c.Nodes
}
