package testenv

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/testenv/wait"
)

// RedisCluster starts a Redis Cluster of so many masters without replicas, which ends with the test, and returns the options of a client.
// Each master has a range of slots, in the order of the addresses.
func RedisCluster(t testing.TB, masters int) *redis.ClusterOptions {
	t.Helper()
	nodes := RedisNodes(t, masters, "cluster-enabled yes")
	const slots = 16384
	all := &redis.ClusterOptions{ContextTimeoutEnabled: true}
	for i, n := range nodes {
		o, err := redis.ParseURL(n.URL)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			all.Username, all.Password = o.Username, o.Password
		}
		ctx, c := t.Context(), redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		p := c.Pipeline()
		p.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", slots*i/masters, slots*(i+1)/masters-1)
		if i > 0 {
			host, port, _ := net.SplitHostPort(all.Addrs[0])
			p.ClusterMeet(ctx, host, port)
		}
		p.ConfigSet(ctx, "requirepass", all.Password) // a client of a cluster has one for all
		if _, err := p.Exec(ctx); err != nil {
			t.Fatalf("node %d: %v", i, err)
		}
		all.Addrs = append(all.Addrs, o.Addr)
	}
	for _, addr := range all.Addrs {
		c := redis.NewClient(&redis.Options{Addr: addr, Username: all.Username, Password: all.Password})
		t.Cleanup(func() { _ = c.Close() })
		known := "cluster_known_nodes:" + strconv.Itoa(masters)
		wait.Until(t, "a cluster", func() bool {
			info := c.ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, known)
		})
	}
	return all
}
