package handoff_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// sentinel is a master with a replica and a sentinel that promotes the replica when the master is gone. It returns the two servers, the
// master first, and clients that find the current master.
func sentinel(t *testing.T) (nodes []*testenv.RedisNode, client func() *redis.Client) {
	t.Helper()
	const password = "of both"
	nodes = testenv.RedisNodes(t, 2, "repl-diskless-sync-delay 0")
	master := options(t, nodes[0])
	host, port, _ := net.SplitHostPort(master.Addr)
	for i, n := range nodes {
		c := connect(t, options(t, n))
		if err := errors.Join(c.ConfigSet(t.Context(), "masterauth", password).Err(), c.ConfigSet(t.Context(), "requirepass", password).Err()); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			continue
		}
		if err := c.ReplicaOf(t.Context(), host, port).Err(); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "a replica", func() bool {
			return strings.Contains(c.Info(t.Context(), "replication").Val(), "master_link_status:up")
		})
	}
	watch := options(t, testenv.RedisSentinel(t,
		fmt.Sprintf("sentinel monitor shop %s %s 1", host, port), fmt.Sprintf("sentinel auth-pass shop %q", password),
		"sentinel down-after-milliseconds shop 5000", "sentinel failover-timeout shop 10000"))
	watching := redis.NewSentinelClient(watch)
	t.Cleanup(func() { _ = watching.Close() })
	wait.Until(t, "a sentinel that knows the replica", func() bool {
		replicas, err := watching.Replicas(t.Context(), "shop").Result()
		return err == nil && len(replicas) == 1 && replicas[0]["flags"] == "slave"
	})
	return nodes, func() *redis.Client {
		c := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "shop", SentinelAddrs: []string{watch.Addr}, SentinelPassword: watch.Password, Password: password,
			MaxRetries: -1, ContextTimeoutEnabled: true,
		})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// The master goes while its lock is held and waited for. What had reached the replica is as it was: the holder holds on, the
// waiter is served by the new master, and fences rise.
func TestEngineSentinelFailsOver(t *testing.T) {
	testenv.Slow(t, "has a master, a replica and a sentinel for each lock")
	t.Parallel()
	for _, name := range []string{"handoff", "fair", "rw-write"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, client := sentinel(t)
			c := client()
			o := calm(handoff.Options{TTL: 10 * time.Minute})
			a, b := pick(engine(t, c, o), name), pick(engine(t, client(), o), name)
			held := locktest.Obtain(t, a, "k")
			got := make(chan lock.Lease, 1)
			go func() {
				if lease, err := b.Acquire(lock.WithWait(t.Context(), mustHappenWithin), "k"); err == nil {
					got <- lease
				} else {
					t.Errorf("Acquire = %v", err)
				}
			}()
			wait.Until(t, "a waiter", func() bool { return c.ZCard(t.Context(), handoff.KeysOf("k").Queue).Val() == 1 })
			conn := c.Conn()
			if err := conn.Set(t.Context(), "last", 1, 0).Err(); err != nil {
				t.Fatal(err)
			}
			if n, err := conn.Wait(t.Context(), 1, locktest.Soon).Result(); n != 1 || err != nil {
				t.Fatalf("%d replicas have it all, %v, want one", n, err)
			}
			_ = conn.Close()
			nodes[0].Kill()
			wait.Until(t, "a new master", func() bool { return c.Set(t.Context(), "last", 2, 0).Err() == nil })
			if len(got) > 0 || held.Context().Err() != nil {
				t.Errorf("the holder has lost it: %v, or somebody else has it", held.Context().Err())
			}
			locktest.Release(t, held)
			lease := served(t, "the waiter", got)
			if lease.Fence() <= held.Fence() {
				t.Errorf("fence %d after %d, want it to rise", lease.Fence(), held.Fence())
			}
			locktest.Release(t, lease)
			next := locktest.Obtain(t, a, "k")
			if next.Fence() <= lease.Fence() {
				t.Errorf("fence %d after %d, want it to rise", next.Fence(), lease.Fence())
			}
			locktest.Release(t, next)
		})
	}
}
