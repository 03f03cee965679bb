package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/stack"
)

// takesOver is for how long a Redis server is silent before another one takes over.
const takesOver = 1500 * time.Millisecond

// node is a Redis server.
type node struct {
	*stack.Running
	*redis.Client
}

// replicating is the configuration of servers whose replicas learn everything at once.
func replicating(password string) []string {
	return []string{"masterauth " + password, "repl-diskless-sync yes", "repl-diskless-sync-delay 0",
		"repl-ping-replica-period 1"}
}

func spawn(ctx context.Context, on *stack.Stack, o stack.RedisServer) (node, error) {
	run, err := on.SpawnRedis(ctx, o)
	if err != nil {
		return node{}, err
	}
	return node{run, redis.NewClient(&redis.Options{Addr: run.Addr, Password: o.Password, MaxRetries: -1,
		ContextTimeoutEnabled: true, DialerRetries: 1, ReadTimeout: time.Second})}, nil
}

// RedisCluster is a running Redis Cluster.
type RedisCluster struct {
	// Nodes are the masters, each with a range of slots, in order; then as many replicas, in the same order, or none.
	Nodes    []*redis.Client
	Password string // of every node

	runs []*stack.Running
}

// Addrs returns the address of each node.
func (c *RedisCluster) Addrs() (all []string) {
	for _, n := range c.Nodes {
		all = append(all, n.Options().Addr)
	}
	return all
}

// StartRedisCluster starts a Redis Cluster on a stack, with or without a replica for each master, and returns when all
// nodes are in it and each replica has what its master has. A replica takes over when its master has been silent for
// 1.5 s. conf are lines for redis.conf.
func StartRedisCluster(ctx context.Context, on *stack.Stack, masters int, replicas bool, conf ...string) (*RedisCluster,
	error) {
	const slots = 16384
	n := masters
	c := &RedisCluster{Password: rand.Text()}
	if replicas {
		n *= 2
		conf = append(conf, replicating(c.Password)...)
		conf = append(conf, "cluster-node-timeout "+strconv.FormatInt(takesOver.Milliseconds(), 10))
	}
	c.Nodes, c.runs = make([]*redis.Client, n), make([]*stack.Running, n)
	buses := make([]string, n)
	err := together(n, func(i int) (err error) {
		// By default the bus has the port 10,000 above the server's, which an outgoing connection may have.
		if buses[i], err = on.FreePort(); err != nil {
			return err
		}
		started, err := spawn(ctx, on, stack.RedisServer{Name: fmt.Sprintf("cluster node %d", i+1), Password: c.Password,
			Conf: append([]string{"cluster-enabled yes", "cluster-port " + buses[i]}, conf...)})
		c.Nodes[i], c.runs[i] = started.Client, started.Running
		return err
	})
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(c.runs[0].Addr)
	for i, at := range c.Nodes {
		p := at.Pipeline()
		// As redis-cli --cluster create does. Nodes that all begin at epoch 0 resolve that by gossip; a slot that moves
		// before all have heard the outcome can be taken back from its new node, and then each of the two says that the other
		// has it.
		p.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < masters {
			p.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", slots*i/masters, slots*(i+1)/masters-1)
		}
		if i > 0 {
			p.Do(ctx, "CLUSTER", "MEET", host, port, buses[0])
		}
		if _, err := p.Exec(ctx); err != nil {
			return nil, fmt.Errorf("engine: node %d of the cluster: %w", i+1, err)
		}
	}
	for _, at := range c.Nodes {
		err := until(ctx, "a cluster", func() bool {
			info := at.ClusterInfo(ctx).Val()
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", n)) &&
				strings.Contains(info, fmt.Sprintf("cluster_current_epoch:%d", n))
		})
		if err != nil {
			return nil, err
		}
	}
	for i := masters; i < n; i++ {
		master := c.Nodes[i-masters]
		if err := c.Nodes[i].ClusterReplicate(ctx, master.ClusterMyID(ctx).Val()).Err(); err != nil {
			return nil, fmt.Errorf("engine: a replica of the cluster: %w", err)
		}
		err := until(ctx, "a replica that gets all writes", func() bool {
			said := master.Info(ctx, "replication").Val()
			return strings.Contains(said, "state=online") && !strings.Contains(said, ",offset=0,")
		})
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// startCluster makes the victim the master of the first third of the slots.
func (e *Engine) startCluster(ctx context.Context) error {
	const masters = 3
	c, err := StartRedisCluster(ctx, e.servers, masters, true, "cluster-require-full-coverage no")
	if err != nil {
		return err
	}
	e.Redis = "redis://default:" + c.Password + "@" + strings.Join(c.Addrs(), ",redis://default:"+c.Password+"@")
	for _, n := range c.Nodes {
		e.clients = append(e.clients, n)
	}
	e.victim = c.runs[0]
	e.replicates(c.Nodes[0], c.Nodes[masters])
	e.mine = func(ctx context.Context, product int64) (bool, error) {
		slot, err := c.Nodes[1].ClusterKeySlot(ctx, fmt.Sprintf("{%d}", product)).Result()
		return slot < 16384/masters, err
	}
	e.takeover = func(ctx context.Context) error {
		return until(ctx, "the replica to take over, and cluster_state:ok", func() bool {
			return strings.Contains(c.Nodes[masters].Info(ctx, "replication").Val(), "role:master") &&
				strings.Contains(c.Nodes[masters].ClusterInfo(ctx).Val(), "cluster_state:ok")
		})
	}
	for i, run := range c.runs {
		e.started(fmt.Sprintf("cluster node %d", i+1), run)
	}
	e.options.Log("cluster: %d masters, each with a replica; node-timeout %v", masters, takesOver)
	return nil
}

// replicates counts what no replica has in bytes of the master's stream.
func (e *Engine) replicates(master *redis.Client, replicas ...*redis.Client) {
	e.Unit = "bytes"
	e.behind = func(ctx context.Context) (int64, error) {
		has, err := offset(ctx, master, "master_repl_offset")
		if err != nil {
			return 0, err
		}
		var most int64
		for _, r := range replicas {
			at, err := offset(ctx, r, "slave_repl_offset")
			if err != nil {
				return 0, err
			}
			most = max(most, at)
		}
		return max(0, has-most), nil
	}
}

func offset(ctx context.Context, c *redis.Client, field string) (int64, error) {
	said, err := c.Info(ctx, "replication").Result()
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(said, field+":")
	if !found {
		return 0, fmt.Errorf("engine: INFO has no %s", field)
	}
	value, _, _ := strings.Cut(rest, "\r\n")
	return strconv.ParseInt(value, 10, 64)
}

// watched is the name of a master that sentinels watch, and of a group of Galera.
const watched = "lastitem"

// startSentinel makes the victim the master.
func (e *Engine) startSentinel(ctx context.Context) error {
	const replicas, sentinels = 2, 3
	password := rand.Text()
	conf := append(replicating(password), "min-replicas-to-write 1")
	master, err := spawn(ctx, e.servers, stack.RedisServer{Name: "master", Password: password, Conf: conf})
	if err != nil {
		return err
	}
	at := master.Addr
	if e.options.Cut {
		p, err := e.proxy("master", at, 0)
		if err != nil {
			return err
		}
		at, e.links = p.Addr, append(e.links, p)
	}
	host, port, _ := net.SplitHostPort(at)
	e.started("master", master.Running)
	e.clients = append(e.clients, master.Client)
	followers := make([]*redis.Client, replicas)
	err = together(replicas, func(i int) error {
		n, err := spawn(ctx, e.servers, stack.RedisServer{Name: fmt.Sprintf("replica %d", i+1), Password: password,
			Conf: append([]string{"replicaof " + host + " " + port}, conf...)})
		if err == nil {
			e.started(fmt.Sprintf("replica %d of the master", i+1), n.Running)
		}
		followers[i] = n.Client
		return err
	})
	if err != nil {
		return err
	}
	for _, f := range followers {
		e.clients = append(e.clients, f)
	}
	complete := func() bool {
		return strings.Count(master.Info(ctx, "replication").Val(), "state=online") == replicas
	}
	if err := until(ctx, "the replicas", complete); err != nil {
		return err
	}
	watchers, addrs := make([]*redis.Client, sentinels), make([]string, sentinels)
	err = together(sentinels, func(i int) error {
		n, err := spawn(ctx, e.servers, stack.RedisServer{Name: fmt.Sprintf("sentinel %d", i+1), Password: password,
			Args: []string{"--sentinel"}, Conf: []string{
				fmt.Sprintf("sentinel monitor %s %s %s %d", watched, host, port, sentinels/2+1),
				"sentinel auth-pass " + watched + " " + password, "sentinel sentinel-pass " + password,
				fmt.Sprintf("sentinel down-after-milliseconds %s %d", watched, takesOver.Milliseconds()),
				"sentinel failover-timeout " + watched + " 5000"}})
		if err == nil {
			watchers[i], addrs[i] = n.Client, n.Addr
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, w := range watchers {
		e.clients = append(e.clients, w)
	}
	err = until(ctx, "the sentinels to know all", func() bool {
		for _, w := range watchers {
			known := fmt.Sprint(w.Do(ctx, "SENTINEL", "MASTER", watched).Val())
			if !strings.Contains(known, fmt.Sprintf("num-slaves:%d", replicas)) ||
				!strings.Contains(known, fmt.Sprintf("num-other-sentinels:%d", sentinels-1)) {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	e.Redis = fmt.Sprintf("redis+sentinel://default:%s@%s/%s/0?sentinel_password=%s", password, strings.Join(addrs, ","),
		watched, password)
	e.victim = master.Running
	e.replicates(master.Client, followers...)
	if e.options.Lag > 0 {
		e.prepare = func(ctx context.Context) error { return e.lag(ctx, master, followers, complete) }
	}
	e.takeover = func(ctx context.Context) error {
		return until(ctx, "Sentinel to promote a replica", func() bool {
			return slices.ContainsFunc(watchers, func(w *redis.Client) bool { // a client may ask any of them
				now, err := w.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", watched).StringSlice()
				return err == nil && len(now) == 2 && net.JoinHostPort(now[0], now[1]) != at
			})
		})
	}
	e.options.Log("sentinel: a master, %d replicas, %d sentinels; down-after %v", replicas, sentinels, takesOver)
	return nil
}

// lag makes the replicas follow their master by a slow link. Sentinel makes a replica follow the master directly
// again, ten seconds later or so: the strike has to come before.
func (e *Engine) lag(ctx context.Context, master node, followers []*redis.Client, complete func() bool) error {
	link, err := e.proxy("replication", master.Addr, e.options.Lag)
	if err != nil {
		return err
	}
	e.links = append(e.links, link)
	host, port, _ := net.SplitHostPort(link.Addr)
	for _, f := range followers {
		err = errors.Join(err, f.ReplicaOf(ctx, host, port).Err())
	}
	return errors.Join(err, until(ctx, "the replicas behind the slow link", complete))
}
