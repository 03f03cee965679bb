package redisbatch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/redisbatch"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// clusterClient returns a client on a cluster of two masters, and the round trips of its nodes.
func clusterClient(t *testing.T) (*redis.ClusterClient, *trips) {
	t.Helper()
	c := testkit.Closing(t, redis.NewClusterClient(testenv.RedisCluster(t, 2)))
	h := &trips{}
	c.OnNewNode(func(node *redis.Client) { node.AddHook(h) })
	return c, h
}

// callAll sends calls with these keys at the same time, one half by Do, and waits for their answers.
func callAll(b *redisbatch.Batcher, keys []string) []*redisbatch.Call {
	all := make([]*redisbatch.Call, len(keys))
	var wg sync.WaitGroup
	for i, key := range keys {
		all[i] = &redisbatch.Call{Script: echo, Keys: []string{key}, Args: []any{i}}
		if i%2 == 0 {
			wg.Go(func() { b.Do(all[i]) })
		} else {
			b.Go(all[i], func() {})
		}
	}
	wg.Wait()
	b.Wait()
	return all
}

// In a cluster the calls for one node share writes.
func TestClusterBatches(t *testing.T) {
	t.Parallel()
	c, h := clusterClient(t)
	b := redisbatch.New(c, time.Minute)
	// by itself: the client does not know the cluster yet
	first := &redisbatch.Call{Script: echo, Keys: []string{"k"}, Args: []any{0}}
	b.Do(first)
	check(t, first, "k0")
	keys := make([]string, 2000)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	for i, call := range callAll(b, keys) {
		check(t, call, fmt.Sprint(keys[i], i))
	}
	for _, trip := range h.all {
		if len(trip) > redisbatch.Size {
			t.Errorf("a batch of %d, want at most %d", len(trip), redisbatch.Size)
		}
	}
	if n := len(h.all); n > len(keys)/2 {
		t.Errorf("%d calls took %d round trips, want batches", len(keys), n)
	}
}

// A call whose slot has moved to another node is sent there, and the calls beside it are not sent again.
func TestClusterSlotMoves(t *testing.T) {
	t.Parallel()
	c, h := clusterClient(t)
	b := redisbatch.New(c, time.Minute)
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprintf("{%d}", i%10)
	}
	callAll(b, append(keys, keys...)) // each node has the script, and each lane has sent
	slot := c.ClusterKeySlot(t.Context(), "{0}").Val()
	from, err := c.MasterForKey(t.Context(), "{0}")
	testkit.Must(t, err)
	err = c.ForEachMaster(t.Context(), func(ctx context.Context, to *redis.Client) error {
		if to.Options().Addr == from.Options().Addr {
			return nil
		}
		id := to.ClusterMyID(ctx).Val()
		for _, node := range []*redis.Client{to, from} {
			if err := node.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", id).Err(); err != nil {
				return err
			}
		}
		return nil
	})
	testkit.Must(t, err)
	h.all = nil
	for i, call := range callAll(b, keys) {
		check(t, call, fmt.Sprint(keys[i], i))
	}
	sent := 0
	for _, trip := range h.all {
		sent += len(trip)
	}
	if most := len(keys) + len(keys)/10; sent <= len(keys) || sent > most {
		t.Errorf("%d calls were sent %d times, want more, but at most %d times", len(keys), sent, most)
	}
}
