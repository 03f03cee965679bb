package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	consul "github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/backend"
	"lastitem/say/redact"
	"lastitem/stack"
)

// extrasPatience is how long a guest waits for the user's servers to answer.
const extrasPatience = 5 * time.Second

// openExtras connects to the user's own extras and waits until they answer; a nil set where there are none.
func (g *Guest) openExtras(ctx context.Context) (*backend.Set, error) {
	own := map[string]string{
		stack.Redlock: g.Own.Redlock, stack.Etcd: g.Own.Etcd, stack.ZooKeeper: g.Own.ZooKeeper, stack.Consul: g.Own.Consul,
	}
	if cmp.Or(g.Own.Redlock, g.Own.Etcd, g.Own.ZooKeeper, g.Own.Consul) == "" {
		return nil, nil //nolint:nilnil // there is nothing to open, and that is no error
	}
	set, err := backend.Open(backend.Config{
		Redlock: g.Own.Redlock, Etcd: g.Own.Etcd, ZooKeeper: g.Own.ZooKeeper, Consul: g.Own.Consul, Prefix: g.Prefix,
		Conns: 2,
		Name:  func(name string) string { return "--" + name },
	})
	if err != nil {
		return nil, badAddress("%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, extrasPatience)
	defer cancel()
	for name, address := range own {
		for err := set.Check(name); err != nil; err = set.Check(name) {
			select {
			case <-ctx.Done():
				return nil, errors.Join(fmt.Errorf("--%s %s: %w", name, redact.Address(address), err), set.Close())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return set, nil
}

// lookAtExtras makes sure that the user's own extras answer, before anything is started on them.
func (g *Guest) lookAtExtras(ctx context.Context) error {
	set, err := g.openExtras(ctx)
	if set == nil {
		return err
	}
	if set.ZooKeeper != nil {
		var there bool
		there, _, err = set.ZooKeeper.Exists(backend.ZooKeeperRoot)
		g.Root = !there
	}
	return errors.Join(err, set.Close())
}

// leaveExtras removes what locks left on the user's extras. Orderly replicas leave little: ZooKeeper's containers,
// which the server would delete too, minutes later.
func (g *Guest) leaveExtras(ctx context.Context) error {
	set, err := g.openExtras(ctx)
	if set == nil {
		return err
	}
	set.StopProbes() // they would write their key again
	var errs []error
	for _, node := range set.Redlock {
		// Ignore errors: a Redlock is made for nodes that are down, and their keys expire by themselves.
		_ = g.dropKeys(ctx, node.Client)
	}
	if set.Etcd != nil {
		_, err := set.Etcd.Delete(ctx, g.Prefix, clientv3.WithPrefix())
		errs = append(errs, err)
	}
	if set.Consul != nil {
		_, err := set.Consul.KV().DeleteTree(g.Prefix, (&consul.WriteOptions{}).WithContext(ctx))
		errs = append(errs, err)
	}
	if set.ZooKeeper != nil {
		errs = append(errs, g.dropNodes(set.ZooKeeper))
	}
	return errors.Join(append(errs, set.Close())...)
}

// dropNodes deletes the locks of the prefix, and their root if it was made for them and no other shop has locks there
// now.
func (g *Guest) dropNodes(c *zk.Conn) error {
	locks, _, err := c.Children(backend.ZooKeeperRoot)
	for _, name := range locks {
		if strings.HasPrefix(name, g.Prefix) {
			err = errors.Join(err, deleteTree(c, path.Join(backend.ZooKeeperRoot, name)))
		}
	}
	if err == nil && g.Root {
		err = c.Delete(backend.ZooKeeperRoot, -1)
	}
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNotEmpty) {
		return nil
	}
	return err
}

// deleteTree deletes a node and what is below it; what others delete meanwhile is no error.
func deleteTree(c *zk.Conn, node string) error {
	children, _, err := c.Children(node)
	for _, child := range children {
		err = errors.Join(err, deleteTree(c, path.Join(node, child)))
	}
	if err == nil {
		err = c.Delete(node, -1)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// lookAtKafka makes sure that the user's own brokers answer.
func (g *Guest) lookAtKafka(ctx context.Context) error {
	if g.Own.Kafka == "" {
		return nil
	}
	c, err := backend.OpenKafka(g.Own.Kafka)
	if err != nil {
		return badAddress("--kafka: %w", err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, extrasPatience)
	defer cancel()
	if err := c.Ping(ctx); err != nil {
		return fmt.Errorf("--kafka %s: %w", g.Own.Kafka, err)
	}
	return nil
}

// leaveKafka deletes the topics and consumer groups of the prefix on the user's own brokers.
func (g *Guest) leaveKafka(ctx context.Context) error {
	if g.Own.Kafka == "" {
		return nil
	}
	c, err := backend.OpenKafka(g.Own.Kafka)
	if err != nil {
		return err
	}
	defer c.Close()
	return backend.ForgetKafka(ctx, c, g.Prefix)
}
