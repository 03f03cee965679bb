package handoff_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// hungNodes makes nodes of a cluster hang: a script that is sent to such a node is never answered.
type hungNodes struct {
	nodes   sync.Map     // address -> true
	scripts atomic.Int64 // scripts that will get no answer
	waiting atomic.Int64 // those whose connection is still open: they wait for an answer now
}

func (h *hungNodes) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &hungNodesConn{Conn: c, h: h, addr: addr}, nil
}

type hungNodesConn struct {
	net.Conn
	h      *hungNodes
	addr   string
	closed sync.Once
	calls  atomic.Int64 // scripts that will get no answer
}

func (c *hungNodesConn) Write(p []byte) (int, error) {
	if _, hangs := c.h.nodes.Load(c.addr); hangs && bytes.Contains(p, []byte("\r\neval")) {
		n := int64(bytes.Count(p, []byte("\r\neval")))
		c.calls.Add(n)
		c.h.waiting.Add(n)
		c.h.scripts.Add(n)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *hungNodesConn) Close() error {
	c.closed.Do(func() { c.h.waiting.Add(-c.calls.Load()) })
	return c.Conn.Close()
}

// clusterWithHungNodes is a process on a cluster whose nodes can hang, with a lock held per node, so that every connection is warm. at returns
// n keys of the node that has key.
func clusterWithHungNodes(t *testing.T, pool int) (h *hungNodes, c *redis.ClusterClient, l lock.Locker) {
	t.Helper()
	h = &hungNodes{}
	o := testenv.RedisCluster(t, 3)
	o.Dialer, o.PoolSize, o.MaxRetries = h.dial, pool, -1
	c = redis.NewClusterClient(o)
	t.Cleanup(func() { _ = c.Close() })
	l = engine(t, c, handoff.Options{}).Handoff()
	t.Cleanup(h.nodes.Clear)
	for i := range 30 { // the scripts are loaded at each node
		locktest.Warm(t, l, fmt.Sprint("warm-", i))
	}
	return h, c, l
}

// nodeOf is the address of the master that has a key.
func nodeOf(t *testing.T, c *redis.ClusterClient, key string) string {
	t.Helper()
	node, err := c.MasterForKey(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return node.Options().Addr
}

// Calls to a node that hangs do not hold up a caller that wants a lock of another node.
func TestEngineClusterHungNode(t *testing.T) {
	t.Parallel()
	const callers, cycles = 24, 5
	h, c, l := clusterWithHungNodes(t, 2*callers)
	hung := nodeOf(t, c, "warm-0")
	healthy, n := "", 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	h.nodes.Store(hung, true)
	for i := 0; n < callers || healthy == ""; i++ {
		key := fmt.Sprint("key-", i)
		switch {
		case nodeOf(t, c, key) != hung:
			healthy = key
		case n < callers:
			n++
			wg.Go(func() {
				if lease, err := l.Acquire(ctx, key); err == nil {
					_ = lease.Release(context.WithoutCancel(ctx))
				}
			})
		}
	}
	wait.Until(t, "as many calls hang as once had room", func() bool { return h.scripts.Load() >= 16 })
	var took []time.Duration
	for range cycles {
		start := time.Now()
		lease := locktest.Obtain(t, l, healthy)
		if err := lease.Release(t.Context()); err != nil {
			t.Fatalf("Release = %v", err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	if middle := took[cycles/2]; middle > 1500*time.Millisecond {
		t.Errorf("a cycle at a healthy node took %s in the middle: it waited for the node that hangs", middle)
	}
}

// In a cluster as many calls may be under way as callers want.
func TestEngineClusterCallsInFlight(t *testing.T) {
	t.Parallel()
	const callers, want = 48, 30
	h, c, l := clusterWithHungNodes(t, callers)
	for i := range 30 {
		h.nodes.Store(nodeOf(t, c, fmt.Sprint("warm-", i)), true)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for i := range callers {
		wg.Go(func() {
			if lease, err := l.Acquire(ctx, fmt.Sprint("key-", i)); err == nil {
				_ = lease.Release(context.WithoutCancel(ctx))
			}
		})
	}
	most := int64(0)
	wait.Until(t, fmt.Sprintf("%d calls under way at a time", want), func() bool {
		most = max(most, h.waiting.Load())
		return most >= want
	})
}
