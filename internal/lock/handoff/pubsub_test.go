package handoff

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/testenv"
)

// The engine is tested from outside; here is what only a cluster has, whose nodes fail one by one.

// sharded is an engine that subscribes to shard channels through c, and sends c nothing else.
func sharded(t *testing.T, c *redis.Client, ttl time.Duration) *Engine {
	t.Helper()
	e, err := New(c, Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	e.publish = "SPUBLISH"
	t.Cleanup(func() {
		if err := errors.Join(e.Close(context.Background()), c.Close()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// A node is out of reach for longer than an unused channel is kept: a waiter of its locks is subscribed again when it is back.
func TestSubscriptionOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	o := *testenv.Redis(t).Client.Options()
	var up atomic.Bool
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !up.Load() {
			time.Sleep(200 * time.Millisecond)
			return nil, errors.New("down")
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	e := sharded(t, redis.NewClient(&o), minTTL)
	time.AfterFunc(time.Second, func() { up.Store(true) })
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Still)
	defer cancel()
	if err := e.subscriber.awaitSubscribed(ctx, "k"); err != nil {
		t.Errorf("awaitSubscribed = %v, want nil", err)
	}
}

// The connections to two nodes have each missed a message: neither has to wait until the other has been replaced.
func TestSubscriberMissesAtTwoNodes(t *testing.T) {
	e := sharded(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), 0)
	keys := []string{"a", "b"}
	for _, key := range keys {
		e.subscriber.byNode[key] = &nodeSubscriber{channels: map[string]*channel{e.subscriber.channel(key): {confirmed: true}}}
	}
	for _, key := range keys {
		e.subscriber.missed(key, e.now())
		if !e.subscriber.byNode[key].suspect {
			t.Errorf("the connection for %s is not suspect", key)
		}
	}
	clear(e.subscriber.byNode)
}

// The locks that one command renews have one slot and one script, whatever their keys are.
func TestRenewalGroupOfSimilarNames(t *testing.T) {
	e := sharded(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), 0)
	reader, other := &contender{key: "a", mode: reading}, &contender{key: "a readers", mode: exclusive}
	if e.renewalGroup(reader) == e.renewalGroup(other) {
		t.Errorf("a read of %q and a lock of %q are both of batch %q", reader.key, other.key, e.renewalGroup(other))
	}
}
