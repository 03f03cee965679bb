package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/bench/machine"
	"lastitem/stack"
	"lastitem/stack/wire"
)

// nodes are private redis-servers with one password.
type nodes struct {
	stacks  []*stack.Stack
	clients []*redis.Client // of each node
}

// startNodes starts n servers with these lines at the end of their redis.conf. The caller closes them.
func (b *bench) startNodes(ctx context.Context, n int, conf ...string) (*nodes, error) {
	all := &nodes{}
	for range n {
		s, err := stack.Start(ctx, stack.Options{Backend: stack.Local, Only: []string{stack.Redis},
			RedisConf: conf})
		if err != nil {
			return nil, errors.Join(err, all.close())
		}
		all.stacks = append(all.stacks, s)
		o, err := redis.ParseURL(s.Redis.URL)
		if err != nil {
			return nil, errors.Join(err, all.close())
		}
		all.clients = append(all.clients, redis.NewClient(o))
	}
	for _, c := range all.clients {
		if err := c.ConfigSet(ctx, "requirepass", all.password()).Err(); err != nil {
			return nil, errors.Join(err, all.close())
		}
		c.Options().Password = all.password()
	}
	if b.pin {
		machine.PinServers(all.pids()...)
	}
	return all, nil
}

func (n *nodes) addr(i int) string { return n.stacks[i].Redis.Addr }

func (n *nodes) password() string { return n.clients[0].Options().Password }

func (n *nodes) pids() []int {
	var all []int
	for _, s := range n.stacks {
		all = append(all, s.Redis.PID)
	}
	return all
}

func (n *nodes) close() error {
	var err error
	for _, c := range n.clients {
		err = errors.Join(err, c.Close())
	}
	for _, s := range n.stacks {
		err = errors.Join(err, s.Close())
	}
	return err
}

// startCluster makes a Redis Cluster of three masters without replicas.
func (b *bench) startCluster(ctx context.Context) (*nodes, error) {
	const masters, slots = 3, 16384
	all, err := b.startNodes(ctx, masters, "cluster-enabled yes")
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(all.addr(0))
	for i, c := range all.clients {
		err = errors.Join(err, c.ClusterAddSlotsRange(ctx, slots*i/masters, slots*(i+1)/masters-1).Err())
		if i > 0 {
			err = errors.Join(err, c.ClusterMeet(ctx, host, port).Err())
		}
	}
	for _, c := range all.clients {
		err = errors.Join(err, until(ctx, "the cluster", func() bool {
			info := c.ClusterInfo(ctx).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info,
				fmt.Sprintf("cluster_known_nodes:%d", masters))
		}))
	}
	if err != nil {
		return nil, errors.Join(err, all.close())
	}
	return all, nil
}

// pair is a master with a replica, behind a proxy that leads clients to the current master.
type pair struct {
	*nodes
	proxy *wire.Proxy
}

func (b *bench) startPair(ctx context.Context) (*pair, error) {
	all, err := b.startNodes(ctx, 2, "repl-diskless-sync-delay 0")
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(all.addr(0))
	replica := all.clients[1]
	err = errors.Join(replica.ConfigSet(ctx, "masterauth", all.password()).Err(),
		replica.Do(ctx, "REPLICAOF", host, port).Err())
	if err == nil {
		err = until(ctx, "the replica", func() bool {
			return strings.Contains(replica.Info(ctx, "replication").Val(), "master_link_status:up")
		})
	}
	p := &pair{nodes: all}
	if err == nil {
		p.proxy, err = wire.NewProxy("redis", all.addr(0), wire.Raw)
	}
	if err != nil {
		return nil, errors.Join(err, all.close())
	}
	return p, nil
}

func (p *pair) close() error {
	p.proxy.Close()
	return p.nodes.close()
}

// url returns the URL of the proxy.
func (p *pair) url() string {
	u := url.URL{Scheme: "redis", User: url.UserPassword("default", p.password()), Host: p.proxy.Addr, Path: "/0"}
	return u.String()
}

// detection is how long the replica waits before it is promoted: a monitor must first notice that the master is gone.
const detection = 500 * time.Millisecond

// failOver kills the master, which may not have replicated everything, promotes the replica, and returns when clients
// reach the replica.
func (p *pair) failOver(ctx context.Context) error {
	if err := syscall.Kill(p.stacks[0].Redis.PID, syscall.SIGKILL); err != nil {
		return err
	}
	p.proxy.Turn(p.addr(1)) // until the promotion, writes are refused: READONLY
	time.Sleep(detection)
	return p.clients[1].Do(ctx, "REPLICAOF", "NO", "ONE").Err()
}

// until waits for a condition; what names it in the error.
func until(ctx context.Context, what string, is func() bool) error {
	for end := time.Now().Add(patience); !is(); {
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s is not there after %s", what, patience)
		}
	}
	return nil
}
