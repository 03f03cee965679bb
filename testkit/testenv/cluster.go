package testenv

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"lastitem/testkit"
)

// RedisCluster starts a Redis Cluster of so many masters without replicas, which ends with the test, and returns the
// options of a client. Each master has a range of slots, in the order of the addresses.
func RedisCluster(t testing.TB, masters int) *redis.ClusterOptions {
	t.Helper()
	return redisCluster(t, masters, masters)
}

// RedisFailover starts a Redis Cluster of three masters, and then a replica for each, which takes over when its master
// has been silent for 1.5 s. It returns the options of a client of the cluster, and a client of each node. conf are
// lines for their redis.conf.
func RedisFailover(t testing.TB, conf ...string) (o *redis.ClusterOptions, nodes []*redis.Client) {
	t.Helper()
	const masters = 3
	o = redisCluster(t, masters, 2*masters, append(conf, "cluster-node-timeout 1500", "repl-diskless-sync-delay 0",
		"repl-ping-replica-period 1")...)
	for i, addr := range o.Addrs {
		c := redis.NewClient(&redis.Options{Addr: addr, Username: o.Username, Password: o.Password})
		t.Cleanup(func() { _ = c.Close() })
		nodes = append(nodes, c)
		err := c.ConfigSet(t.Context(), "masterauth", o.Password).Err()
		if i >= masters {
			err = errors.Join(err, c.ClusterReplicate(t.Context(), nodes[i-masters].ClusterMyID(t.Context()).Val()).Err())
			testkit.Until(t, "a replica that gets all writes", func() bool {
				said := nodes[i-masters].Info(t.Context(), "replication").Val()
				return strings.Contains(said, "state=online") && !strings.Contains(said, ",offset=0,")
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return o, nodes
}

func redisCluster(t testing.TB, masters, nodes int, conf ...string) *redis.ClusterOptions {
	t.Helper()
	const slots = 16384
	all := &redis.ClusterOptions{ContextTimeoutEnabled: true}
	first := "" // the port of the first node's bus
	for i := range nodes {
		// By default the bus has the port 10,000 above the server's, which an outgoing connection may have.
		_, bus, _ := net.SplitHostPort(testkit.FreePort(t))
		o, err := redis.ParseURL(RedisNodes(t, 1, append(conf, "cluster-enabled yes", "cluster-port "+bus)...)[0].URL)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			all.Username, all.Password, first = o.Username, o.Password, bus
		}
		ctx, c := t.Context(), redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		p := c.Pipeline()
		// As redis-cli --cluster create does. Nodes that all begin at epoch 0 resolve that by gossip; a slot that moves
		// before all have heard the outcome can be taken back from its new node, and then each of the two says that the other
		// has it.
		p.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < masters {
			p.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", slots*i/masters, slots*(i+1)/masters-1)
		}
		if i > 0 {
			host, number, _ := net.SplitHostPort(all.Addrs[0])
			p.Do(ctx, "CLUSTER", "MEET", host, number, first)
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
		n := strconv.Itoa(nodes)
		testkit.Until(t, "a cluster", func() bool {
			info := c.ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:"+n) &&
				strings.Contains(info, "cluster_current_epoch:"+n)
		})
	}
	return all
}
