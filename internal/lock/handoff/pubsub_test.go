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

// sharded is an engine that listens to shard channels. Nothing is sent to c but that.
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

// Who waits for a node that cannot be reached, for longer than an unused channel is kept, hears from it when it is back.
func TestPostsJoinOutlivesAnOutage(t *testing.T) {
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
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := e.posts.join(ctx, "k"); err != nil {
		t.Errorf("join = %v, want nil", err)
	}
}

// Two connections have missed a message, of two nodes: neither has to wait for the other to be replaced.
func TestPostsMissAtTwoNodes(t *testing.T) {
	e := sharded(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), 0)
	keys := []string{"a", "b"}
	for _, key := range keys {
		e.posts.byNode[key] = &post{channels: map[string]*channel{e.posts.channel(key): {heard: true}}}
	}
	for _, key := range keys {
		e.posts.missed(key, e.now())
		if !e.posts.byNode[key].doubted {
			t.Errorf("the connection for %s is not doubted", key)
		}
	}
	clear(e.posts.byNode)
}

// What is renewed by one command has one slot and one script, whatever its keys are called.
func TestBatchOfANameLikeAnothers(t *testing.T) {
	e := sharded(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), 0)
	reader, other := &line{key: "a", mode: reading}, &line{key: "a readers", mode: exclusive}
	if e.batch(reader) == e.batch(other) {
		t.Errorf("a read of %q and a lock of %q are both of batch %q", reader.key, other.key, e.batch(other))
	}
}
