package handoff_test

import (
	"context"
	"errors"
	"net"
	"strings"
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

// options are those of the tests' clients for a server of the test's own.
func options(t testing.TB, n *testenv.RedisNode) *redis.Options {
	t.Helper()
	o, err := redis.ParseURL(n.URL)
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries, o.ContextTimeoutEnabled = -1, true
	return o
}

func connect(t testing.TB, o *redis.Options) *redis.Client {
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A real replica confirms what is acquired; without it nothing is.
func TestEngineReplica(t *testing.T) {
	testenv.Slow(t, "starts two servers")
	t.Parallel()
	nodes := testenv.RedisNodes(t, 2, "repl-diskless-sync-delay 0")
	o := options(t, nodes[0])
	s := &testenv.RedisServer{URL: nodes[0].URL, Client: connect(t, o)}
	ctx, replica := t.Context(), connect(t, options(t, nodes[1]))
	host, port, _ := net.SplitHostPort(o.Addr)
	if err := errors.Join(replica.ConfigSet(ctx, "masterauth", o.Password).Err(), replica.ReplicaOf(ctx, host, port).Err()); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "a replica", func() bool {
		return strings.Contains(s.Client.Info(ctx, "replication").Val(), "state=online")
	})
	for _, name := range []string{"handoff", "fair"} {
		t.Run("confirmed/"+name, func(t *testing.T) {
			contend(t, s, name, func() *redis.Client { return locktest.RedisClient(t, s) }, handoff.Options{Replicas: 1, ReplicasTimeout: 20 * time.Second})
		})
	}
	dead := handoff.KeysOf("dead first").Queue
	if err := s.Client.ZAdd(ctx, dead, redis.Z{Score: 1, Member: "dead.1.1.2500"}).Err(); err != nil {
		t.Fatal(err)
	}
	skipped := &metric{}
	counting := handoff.Options{Replicas: 1, ReplicasTimeout: 20 * time.Second, Metrics: handoff.Metrics{Skipped: skipped}}
	locktest.Release(t, locktest.Obtain(t, onServer(t, s, counting).Fair(), "dead first"))
	if got := skipped.value(); got != 1 {
		t.Errorf("%v skipped, want the one that was", got)
	}
	// Handed on by a release, within one process, just when the replica goes.
	o1 := handoff.Options{Replicas: 1, ReplicasTimeout: 10 * time.Second, Cohort: 1}
	other, own := onServer(t, s, o1).Handoff(), onServer(t, s, o1).Handoff()
	held := locktest.Obtain(t, other, "handed on")
	got := make(chan lock.Lease, 1)
	acquire := func() error {
		lease, err := own.Acquire(lock.WithWait(ctx, mustHappenWithin), "handed on")
		got <- lease
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- acquire() }()
	wait.Until(t, "a waiter", func() bool { return s.Client.ZCard(ctx, handoff.KeysOf("handed on").Queue).Val() == 1 })
	locktest.Release(t, held)
	held = <-got
	go func() { failed <- acquire() }()
	time.Sleep(50 * time.Millisecond) // it waits within the process, or comes a moment later: nobody may let it in
	if err := replica.ReplicaOf(ctx, "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	locktest.Release(t, held)
	if <-got; <-failed != nil {
		t.Fatal("no lock while the replica was there")
	}
	if err := <-failed; !errors.Is(err, handoff.ErrReplicas) {
		t.Errorf("Acquire = %v, want ErrReplicas", err)
	}
	for _, name := range []string{"handoff", "fair"} {
		t.Run("cut off/"+name, func(t *testing.T) {
			key := "alone-" + name
			l := pick(onServer(t, s, handoff.Options{Replicas: 1, ReplicasTimeout: 50 * time.Millisecond}), name)
			if _, err := l.Acquire(ctx, key); !errors.Is(err, handoff.ErrReplicas) {
				t.Errorf("Acquire = %v, want ErrReplicas", err)
			}
			nothingLeftOn(t, s, key)
		})
	}
}

// A server that refuses subscribers is not tried again at once.
func TestEngineSubscriberIsRefused(t *testing.T) {
	testenv.Slow(t, "starts a server, and watches the engine for seconds")
	t.Parallel()
	node := testenv.RedisNodes(t, 1)[0]
	admin := connect(t, options(t, node))
	o := options(t, node)
	var dialled atomic.Int64
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialled.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	l := engine(t, connect(t, o), handoff.Options{}).Fair()
	other := engine(t, connect(t, options(t, node)), handoff.Options{}).Fair()
	held := locktest.Obtain(t, other, "k")
	got := make(chan error, 1)
	go func() {
		lease, err := l.Acquire(lock.WithWait(t.Context(), mustHappenWithin), "k")
		if err == nil {
			err = lease.Release(t.Context())
		}
		got <- err
	}()
	wait.Until(t, "a waiter", func() bool { return admin.ZCard(t.Context(), handoff.KeysOf("k").Queue).Val() == 1 })
	if err := admin.ConfigSet(t.Context(), "requirepass", "another").Err(); err != nil {
		t.Fatal(err)
	}
	before := dialled.Load()
	if err := admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if n := dialled.Load() - before; n > 50 {
		t.Errorf("connected %d times within a second", n)
	}
	if err := admin.ConfigSet(t.Context(), "requirepass", o.Password).Err(); err != nil {
		t.Fatal(err)
	}
	locktest.Release(t, held)
	if err := <-got; err != nil {
		t.Error(err)
	}
}
