package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// onCluster is the engine of one more process on a cluster.
func onCluster(t *testing.T, o *redis.ClusterOptions, e handoff.Options, hooks ...redis.Hook) *handoff.Engine {
	t.Helper()
	own := *o
	c := redis.NewClusterClient(&own)
	t.Cleanup(func() { _ = c.Close() })
	for _, h := range hooks {
		c.AddHook(h)
	}
	return engine(t, c, calm(e))
}

// In a cluster messages go through the shard of their key: hand-offs, force releases and renewals over keys of all masters.
func TestEngineCluster(t *testing.T) {
	testenv.Slow(t, "starts a cluster, and waits for what the engine does after several TTLs")
	t.Parallel()
	o := testenv.RedisCluster(t, 3)
	for _, name := range []string{"handoff", "fair"} {
		t.Run("hand-off/"+name, func(t *testing.T) {
			clusterHandoff(t, pick(onCluster(t, o, handoff.Options{}), name), pick(onCluster(t, o, handoff.Options{}), name))
		})
	}
	t.Run("channels", func(t *testing.T) {
		short := handoff.Options{TTL: 2500 * time.Millisecond} // long enough for a busy machine: what nobody uses is left after five
		a, b := onCluster(t, o, short), onCluster(t, o, short)
		clusterHandoff(t, a.Fair(), b.Fair())
		wait.Until(t, "a process that no longer waits, and does not listen", func() bool { return shardChannels(t, o) == 0 })
		wait.Until(t, "a connection to each master that has been left", func() bool { return pubSubConnections(t, o) == 0 })
		clusterHandoff(t, a.Fair(), b.Fair())
	})
	for _, prefix := range []string{"shop:", "{shop}:"} { // a prefix may have a hash tag, which puts all locks into one slot, or none
		t.Run("prefix/"+prefix, func(t *testing.T) {
			clusterHandoff(t, onCluster(t, o, handoff.Options{Prefix: prefix}).Fair(), onCluster(t, o, handoff.Options{Prefix: prefix}).Fair())
		})
	}
	t.Run("force release", func(t *testing.T) { // the client repeats commands
		a, b := onCluster(t, o, handoff.Options{}), onCluster(t, o, handoff.Options{})
		for _, name := range allLocks {
			lease := locktest.Obtain(t, pick(a, name), "forced")
			got, _ := async(t.Context(), b.ReadWrite().Write(), "forced")
			wait.Until(t, "a waiter", func() bool { return inspect(t, b, "forced").Waiting == 1 })
			forced, err := a.ForceRelease(t.Context(), "forced")
			next := <-got
			if err != nil || lease.Fence() >= forced.Fence || forced.Fence >= next.Fence() {
				t.Errorf("%v, fences %d, %d, %d, want them to rise", err, lease.Fence(), forced.Fence, next.Fence())
			}
			wantReleaseLost(t, lease)
			locktest.Release(t, next)
		}
	})
	t.Run("renewal", func(t *testing.T) {
		// Beside a load of 20 a lock with a TTL of three seconds was lost.
		l := onCluster(t, o, handoff.Options{TTL: 9 * time.Second}).Handoff()
		var leases []lock.Lease
		for i := range 60 { // two with each tag, and as many without any
			leases = append(leases, locktest.Obtain(t, l, fmt.Sprintf("renewed-%d{%d}", i, i/2)), locktest.Obtain(t, l, fmt.Sprintf("renewed-%d", i)))
		}
		time.Sleep(12 * time.Second) // there is nothing to wait for: they must not end
		for _, lease := range leases {
			if err := lease.Release(t.Context()); err != nil {
				t.Fatalf("Release = %v", err)
			}
		}
	})
	// Every hash tag has its own channel. When a channel is confirmed, its own keys are polled and no others: the cost of a waiter does not
	// depend on how many there are.
	t.Run("waiters", func(t *testing.T) {
		holder := onCluster(t, o, handoff.Options{}).Handoff()
		for _, n := range []int{50, 200} {
			counted := &spy{}
			e := onCluster(t, o, handoff.Options{}, counted)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			key := func(i int) string { return fmt.Sprintf("of-%d{%d}", n, i) }
			for i := range n {
				held := locktest.Obtain(t, holder, key(i))
				t.Cleanup(func() { _ = held.Release(context.Background()) })
			}
			start := time.Now()
			for i := range n {
				wg.Go(func() { _, _ = e.Handoff().Acquire(ctx, key(i)) })
				time.Sleep(time.Millisecond) // so that their channels are confirmed one after the other
			}
			for i := range n {
				wait.Until(t, "a waiter in the queue", func() bool { return e.Watches(key(i)) })
			}
			each := float64(counted.scripts.Load()) / float64(n)
			polls := time.Since(start).Seconds() // a slow machine's waiters are polled meanwhile, less than once a second
			if each < 1 || each > 4+polls {
				t.Errorf("%d waiters: %.1f scripts each in %.1f s, want 1 at least, 4 at most, and a poll a second", n, each, polls)
			}
			cancel()
			wg.Wait()
		}
	})
}

// shardChannels counts the shard channels that have subscribers.
func shardChannels(t *testing.T, o *redis.ClusterOptions) (n int) {
	t.Helper()
	for _, addr := range o.Addrs {
		c := redis.NewClient(&redis.Options{Addr: addr, Username: o.Username, Password: o.Password})
		all, err := c.PubSubShardChannels(t.Context(), "").Result()
		if err = errors.Join(err, c.Close()); err != nil {
			t.Fatal(err)
		}
		n += len(all)
	}
	return n
}

// pubSubConnections counts the connections that are subscribed.
func pubSubConnections(t *testing.T, o *redis.ClusterOptions) (n int) {
	t.Helper()
	for _, addr := range o.Addrs {
		c := redis.NewClient(&redis.Options{Addr: addr, Username: o.Username, Password: o.Password})
		all, err := c.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text()
		if err = errors.Join(err, c.Close()); err != nil {
			t.Fatal(err)
		}
		n += strings.Count(all, "\n")
	}
	return n
}

// clusterHandoff passes locks from a to b, by messages: by polls alone it would take two seconds each time.
func clusterHandoff(t *testing.T, a, b lock.Locker) {
	const keys, rounds = 6, 5
	var took []time.Duration
	for k := range keys {
		key := fmt.Sprintf("handed-%d", k)
		for range rounds {
			held := locktest.Obtain(t, a, key)
			got := make(chan error, 1)
			waiting := make(chan struct{})
			go func() {
				close(waiting)
				lease, err := b.Acquire(t.Context(), key)
				if err == nil {
					err = lease.Release(context.Background())
				}
				got <- err
			}()
			<-waiting
			if _, err := a.Acquire(lock.WithWait(t.Context(), 20*time.Millisecond), key); !errors.Is(err, lock.ErrBusy) {
				t.Fatalf("Acquire of a held lock = %v, want ErrBusy", err)
			}
			start := time.Now()
			if err := held.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-got; err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(start))
		}
	}
	locktest.WantTold(t, took)
}

// A cluster that does not answer delays no caller for longer than the caller's context lasts.
func TestEngineClusterDoesNotAnswer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // whose connections nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	const never = 10 * time.Minute
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{l.Addr().String()}, MaxRetries: -1, ReadTimeout: never})
	e, err := handoff.New(c, handoff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := e.Fair().Acquire(ctx, "k")
		failed <- err
	}()
	select {
	case err := <-failed:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire = %v, want DeadlineExceeded", err)
		}
	case <-time.After(testenv.Still):
		t.Error("Acquire outlived its context")
	}
	_ = l.Close()
	if err := errors.Join(e.Close(t.Context()), c.Close()); err != nil {
		t.Error(err)
	}
}

// clusterPair are two processes on a cluster, its nodes, and keys of several slots of the first one.
type clusterPair struct {
	a, b  lock.Locker
	nodes []*redis.Client
	keys  []string
}

func newClusterPair(t *testing.T, o *redis.ClusterOptions) clusterPair {
	t.Helper()
	p := clusterPair{a: onCluster(t, o, handoff.Options{}).Fair(), b: onCluster(t, o, handoff.Options{}).Fair()}
	for _, addr := range o.Addrs {
		p.nodes = append(p.nodes, connect(t, &redis.Options{Addr: addr, Username: o.Username, Password: o.Password}))
	}
	for i := 0; len(p.keys) < 3; i++ {
		if key := fmt.Sprintf("of-the-first-%d", i); p.slot(t, key) < 5000 {
			p.keys = append(p.keys, key)
		}
	}
	return p
}

func (p clusterPair) slot(t *testing.T, key string) int64 {
	t.Helper()
	slot, err := p.nodes[0].ClusterKeySlot(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// waits has b wait for what a holds; n is the node that has the key.
func (p clusterPair) waits(t *testing.T, n int, key string) (held lock.Lease, released chan error) {
	t.Helper()
	held, released = locktest.Obtain(t, p.a, key), make(chan error, 1)
	go func() {
		lease, err := p.b.Acquire(lock.WithWait(t.Context(), mustHappenWithin), key)
		if err == nil {
			err = lease.Release(t.Context())
		}
		released <- err
	}()
	wait.Until(t, "a waiter", func() bool {
		return len(released) > 0 || p.nodes[n].ZCard(t.Context(), handoff.KeysOf(key).Queue).Val() == 1
	})
	return held, released
}

// handOff passes every key from a to b.
func (p clusterPair) handOff(t *testing.T, n int, keys ...string) {
	t.Helper()
	for _, key := range keys {
		held, released := p.waits(t, n, key)
		locktest.Release(t, held)
		if err := <-released; err != nil {
			t.Errorf("%s: the waiter got %v", key, err)
		}
	}
}

// A subscriber's connection with channels of several slots is lost and replaced, with all its channels. Then a slot moves to another node
// while a lock of it is held and waited for: its waiter subscribes there, and the waiters of other locks are not disturbed, although the old
// node refuses the moved channel.
func TestEngineClusterSlotMoves(t *testing.T) {
	testenv.Slow(t, "starts a cluster")
	t.Parallel()
	o := testenv.RedisCluster(t, 3)
	p := newClusterPair(t, o)
	p.handOff(t, 0, p.keys...)
	if err := p.nodes[0].Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p.handOff(t, 0, p.keys...)
	}
	moved := p.keys[0]
	held, released := p.waits(t, 0, moved)
	p.move(t, o, moved)
	locktest.Release(t, held)
	if err := <-released; err != nil {
		t.Errorf("whose slot moved got %v", err)
	}
	for range 2 {
		p.handOff(t, 0, p.keys[1:]...)
		p.handOff(t, 1, moved)
	}
}

// move brings the slot of key from the first node to the second.
func (p clusterPair) move(t *testing.T, o *redis.ClusterOptions, key string) {
	t.Helper()
	slot, ids := p.slot(t, key), make([]string, len(p.nodes))
	do := func(n int, args ...any) {
		t.Helper()
		if err := p.nodes[n].Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range p.nodes {
		ids[i] = n.ClusterMyID(t.Context()).Val()
	}
	do(1, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
	do(0, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
	host, port, _ := net.SplitHostPort(o.Addrs[1])
	migrate := []any{"MIGRATE", host, port, "", 0, (10 * time.Second).Milliseconds(), "AUTH", o.Password, "KEYS"}
	for _, k := range p.nodes[0].ClusterGetKeysInSlot(t.Context(), int(slot), 100).Val() {
		migrate = append(migrate, k)
	}
	do(0, migrate...)
	for _, n := range []int{1, 0, 2} {
		do(n, "CLUSTER", "SETSLOT", slot, "NODE", ids[1])
	}
}
