package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// options are those of the tests' clients for a server of the test's own.
func options(t testing.TB, n *testenv.RedisNode) *redis.Options {
	t.Helper()
	o, err := redis.ParseURL(n.URL)
	testkit.Must(t, err)
	o.MaxRetries, o.ContextTimeoutEnabled = -1, true
	return o
}

func connect(t testing.TB, o *redis.Options) *redis.Client {
	c := testkit.Closing(t, redis.NewClient(o))
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
	testkit.Must(t, errors.Join(replica.ConfigSet(ctx, "masterauth", o.Password).Err(),
		replica.ReplicaOf(ctx, host, port).Err()))
	testkit.Until(t, "a replica", func() bool {
		return strings.Contains(s.Client.Info(ctx, "replication").Val(), "state=online")
	})
	for _, name := range []string{"handoff", "fair"} {
		t.Run("confirmed/"+name, func(t *testing.T) {
			contend(t, s, name, &spy{}, handoff.Options{Replicas: 1, ReplicasTimeout: 20 * time.Second})
		})
	}
	dead := handoff.KeysOf("dead first").Queue
	testkit.Must(t, s.Client.ZAdd(ctx, dead, redis.Z{Score: 1, Member: "dead.1.1.2500"}).Err())
	skipped := &metric{}
	counting := handoff.Options{Replicas: 1, ReplicasTimeout: 20 * time.Second, Metrics: handoff.Metrics{Skipped: skipped}}
	locktest.Release(t, locktest.Obtain(t, onServer(t, s, counting).Fair(), "dead first"))
	testkit.Is(t, skipped.value(), 1, "skipped")
	// Handed on by a release, within one process, just when the replica goes.
	o1 := handoff.Options{Replicas: 1, ReplicasTimeout: 10 * time.Second, Cohort: 1}
	other, own := onServer(t, s, o1).Handoff(), onServer(t, s, o1).Handoff()
	held := locktest.Obtain(t, other, "handed on")
	got := queueing(t, s, own, "handed on", 1)
	locktest.Release(t, held)
	held = served(t, "the waiter", got)
	_, failed := async(lock.WithWait(ctx, mustHappenWithin), own, "handed on")
	time.Sleep(50 * time.Millisecond) // it waits within the process, or comes a moment later: nobody may let it in
	testkit.Must(t, replica.ReplicaOf(ctx, "NO", "ONE").Err())
	locktest.Release(t, held)
	testkit.IsError(t, <-failed, handoff.ErrReplicas, "Acquire")
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
	got := queueing(t, &testenv.RedisServer{Client: admin}, l, "k", 1)
	testkit.Must(t, admin.ConfigSet(t.Context(), "requirepass", "another").Err())
	before := dialled.Load()
	testkit.Must(t, admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	time.Sleep(time.Second)
	if n := dialled.Load() - before; n > 50 {
		t.Errorf("connected %d times within a second", n)
	}
	testkit.Must(t, admin.ConfigSet(t.Context(), "requirepass", o.Password).Err())
	locktest.Release(t, held)
	released(t, served(t, "the waiter", got))
}

// sentinel is a master with a replica and a sentinel that promotes the replica when the master is gone. It returns the
// two servers, the master first, and clients that find the current master.
func sentinel(t *testing.T) (nodes []*testenv.RedisNode, client func() *redis.Client) {
	t.Helper()
	const password = "of both"
	nodes = testenv.RedisNodes(t, 2, "repl-diskless-sync-delay 0")
	master := options(t, nodes[0])
	host, port, _ := net.SplitHostPort(master.Addr)
	for i, n := range nodes {
		c := connect(t, options(t, n))
		if err := errors.Join(c.ConfigSet(t.Context(), "masterauth", password).Err(),
			c.ConfigSet(t.Context(), "requirepass", password).Err()); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			continue
		}
		testkit.Must(t, c.ReplicaOf(t.Context(), host, port).Err())
		testkit.Until(t, "a replica", func() bool {
			return strings.Contains(c.Info(t.Context(), "replication").Val(), "master_link_status:up")
		})
	}
	watch := options(t, testenv.RedisSentinel(t,
		fmt.Sprintf("sentinel monitor shop %s %s 1", host, port), fmt.Sprintf("sentinel auth-pass shop %q", password),
		"sentinel down-after-milliseconds shop 5000", "sentinel failover-timeout shop 10000"))
	watching := testkit.Closing(t, redis.NewSentinelClient(watch))
	testkit.Until(t, "a sentinel that knows the replica", func() bool {
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

// The master goes while its lock is held and waited for. What had reached the replica is as it was: the holder holds
// on, the waiter is served by the new master, and fences rise.
func TestEngineSentinelFailsOver(t *testing.T) {
	testenv.Engines(t, "has a master, a replica and a sentinel for each lock")
	t.Parallel()
	for _, name := range []string{"handoff", "fair", "rw-write"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, client := sentinel(t)
			c := client()
			o := calm(handoff.Options{TTL: 10 * time.Minute})
			a, b := pick(engine(t, c, o), name), pick(engine(t, client(), o), name)
			held := locktest.Obtain(t, a, "k")
			got := queueing(t, &testenv.RedisServer{Client: c}, b, "k", 1)
			conn := c.Conn()
			testkit.Must(t, conn.Set(t.Context(), "last", 1, 0).Err())
			if n, err := conn.Wait(t.Context(), 1, locktest.Soon).Result(); n != 1 || err != nil {
				t.Fatalf("%d replicas have it all, %v, want one", n, err)
			}
			_ = conn.Close()
			nodes[0].Kill()
			testkit.Until(t, "a new master", func() bool { return c.Set(t.Context(), "last", 2, 0).Err() == nil })
			if len(got) > 0 || held.Context().Err() != nil {
				t.Errorf("the holder has lost it: %v, or somebody else has it", held.Context().Err())
			}
			locktest.Release(t, held)
			lease := served(t, "the waiter", got)
			locktest.WantHigher(t, held, lease)
			locktest.Release(t, lease)
			next := locktest.Obtain(t, a, "k")
			locktest.WantHigher(t, lease, next)
			locktest.Release(t, next)
		})
	}
}

// fill writes to a server until its memory is full, and then lowers the limit below what is in use, so that it stays
// full.
func fill(t *testing.T, c *redis.Client) {
	t.Helper()
	ballast := strings.Repeat("x", 64<<10)
	for i := 0; ; i++ {
		err := c.Set(t.Context(), fmt.Sprint("ballast-", i), ballast, 0).Err()
		if redis.HasErrorPrefix(err, "OOM") {
			break
		}
		testkit.Must(t, err)
	}
	used := c.InfoMap(t.Context(), "memory").Item("Memory", "used_memory")
	n, err := strconv.Atoi(used)
	testkit.Mustf(t, err, "used_memory %q", used)
	testkit.Must(t, c.ConfigSet(t.Context(), "maxmemory", strconv.Itoa(n/2)).Err())
}

// On a server that is full and evicts nothing, holders can still release, waiters can leave, waiters that had queued
// get in, and readers are renewed.
func TestEngineFullRedis(t *testing.T) {
	testenv.Slow(t, "fills a server for each pair of locks")
	t.Parallel()
	for _, p := range pairs {
		t.Run(p[0]+" then "+p[1], func(t *testing.T) {
			t.Parallel()
			node := testenv.RedisNodes(t, 1, "maxmemory 16mb", "maxmemory-policy noeviction")[0]
			admin := connect(t, options(t, node))
			s := &testenv.RedisServer{URL: node.URL, Client: admin}
			process := func(kind string, ttl time.Duration) lock.Locker {
				return pick(engine(t, connect(t, options(t, node)), handoff.Options{TTL: ttl}), kind)
			}
			waiting := func(n int64) {
				t.Helper()
				testkit.Until(t, fmt.Sprint(n, " in the queue"), func() bool {
					return admin.ZCard(t.Context(), handoff.KeysOf("k").Queue).Val() == n
				})
			}
			const long = 10 * time.Minute
			held := locktest.Obtain(t, process(p[0], long), "k")
			first := queueing(t, s, process(p[1], long), "k", 1)
			queued := admin.ZCard(t.Context(), handoff.KeysOf("k").Queue).Val() // not a writer that waits for a reader
			ctx, leave := context.WithCancel(t.Context())
			_, failed := async(ctx, process(p[1], long), "k")
			waiting(queued + 1)
			last, _ := async(t.Context(), process(p[1], long), "k")
			waiting(queued + 2)
			reader := locktest.Obtain(t, process("rw-read", 5*time.Second), "read")
			fill(t, admin)
			leave()
			locktest.WantGaveUp(t, <-failed)
			waiting(queued + 1)
			released(t, held)
			lease := served(t, "the first waiter", first)
			if p[1] == "rw-read" { // they share
				released(t, served(t, "the last waiter", last))
				released(t, lease)
			} else {
				released(t, lease)
				released(t, served(t, "the last waiter", last))
			}
			expiry := func() float64 {
				all := admin.ZRangeWithScores(t.Context(), handoff.KeysOf("read").Readers, 0, -1).Val()
				if len(all) != 1 {
					t.Fatalf("%d readers, want 1; the lease's context: %v", len(all), reader.Context().Err())
				}
				return all[0].Score
			}
			before := expiry()
			testkit.Until(t, "a renewal", func() bool { return expiry() > before })
			released(t, reader)
			if err := admin.Set(t.Context(), "one more", "x", 0).Err(); !redis.HasErrorPrefix(err, "OOM") {
				t.Errorf("SET on a full server = %v, want OOM", err)
			}
		})
	}
}

// Two tenants of one Redis have the same keys, and nothing in common. Each user may touch nothing but what has its
// prefix.
func TestPrefixKeepsTenantsApart(t *testing.T) {
	testenv.Slow(t, "starts a server")
	node := testenv.RedisNodes(t, 1)[0]
	admin := connect(t, options(t, node))
	tenant := func(prefix string) *handoff.Engine {
		o := options(t, node)
		o.Username, o.Password = strings.TrimSuffix(prefix, ":"), "secret"
		rules := []any{"ACL", "SETUSER", o.Username, "on", ">secret", "~" + prefix + "*", "&" + prefix + "*",
			"+@connection", "+@read", "+@write", "+@scripting", "+@pubsub", "+time", "+wait"}
		testkit.Must(t, admin.Do(t.Context(), rules...).Err())
		return engine(t, connect(t, o), patient(handoff.Options{Prefix: prefix}))
	}
	a, b, plain := tenant("one:"), tenant("two:"), engine(t, admin, handoff.Options{})
	for _, key := range []string{"k", "{k}", "x{k}y", "a}b", "a{b", "with blank", "{}"} {
		ls := []lock.Lease{locktest.Obtain(t, a.Handoff(), key), locktest.Obtain(t, b.Fair(), key),
			locktest.Obtain(t, plain.Handoff(), key)}
		locktest.WantBusy(t, a.Fair(), key, "the same tenant")
		for _, lease := range ls {
			locktest.Release(t, lease)
		}
		locktest.Warm(t, a.ReadWrite().Read(), key)
	}
	c := tenant("one:")
	held := locktest.Obtain(t, a.Handoff(), "k")
	got, _ := async(t.Context(), c.Fair(), "k") // it may publish and listen, too
	testkit.Until(t, "a waiter", func() bool { return inspect(t, c, "k").Queue == 1 })
	locktest.Release(t, held)
	lease := served(t, "the waiter", got)
	force(t, a, "k", 1)
	testkit.Until(t, "its holder is told", func() bool { return lease.Context().Err() != nil })
	channels := strings.Join(admin.PubSubChannels(t.Context(), "*").Val(), " ")
	if !strings.HasPrefix(channels, "one:lock:engine:") || strings.Contains(channels, " lock:engine:") {
		t.Errorf("channels %s, want only those below one:", channels)
	}
	for _, key := range admin.Keys(t.Context(), "*one:*").Val() {
		if !strings.HasPrefix(key, "one:") {
			t.Errorf("key %s does not begin with its prefix", key)
		}
	}
	if k := a.KeysOf("k"); admin.Exists(t.Context(), k.Fence).Val() != 1 || k.Lock != "one:{k}." ||
		a.KeysOf("{k}").Lock != "one:{k}" || plain.KeysOf("k") != handoff.KeysOf("k") {
		t.Errorf("KeysOf = %+v, want what is in Redis", k)
	}
}

// The resource is asked for the key as its user calls it.
func TestPrefixIsNotTheResources(t *testing.T) {
	s := testenv.Miniredis(t)
	e := onServer(t, s, handoff.Options{Prefix: s.Prefix + "shop:"})
	lease := locktest.Obtain(t, e.Fenced(func(_ context.Context, key string) (uint64, error) {
		testkit.Is(t, key, "lock:{101}", "the resource is asked for")
		return 0, nil
	}), "lock:{101}")
	locktest.Release(t, locktest.Acquire(lock.WithReentry(lease.Context()), t, e.Handoff(), "lock:{101}"))
	locktest.Release(t, lease)
}

// onCluster is the engine of one more process on a cluster.
func onCluster(t *testing.T, o *redis.ClusterOptions, e handoff.Options, hooks ...redis.Hook) *handoff.Engine {
	t.Helper()
	own := *o
	c := testkit.Closing(t, redis.NewClusterClient(&own))
	for _, h := range hooks {
		c.AddHook(h)
	}
	return engine(t, c, calm(e))
}

// In a cluster messages go through the shard of their key: hand-offs, force releases and renewals over keys of all
// masters.
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
		// long enough for a busy machine: what nobody uses is left after five
		short := handoff.Options{TTL: 2500 * time.Millisecond}
		a, b := onCluster(t, o, short), onCluster(t, o, short)
		clusterHandoff(t, a.Fair(), b.Fair())
		nodes := nodesOf(t, o)
		testkit.Until(t, "a process that no longer waits or listens, and has left each connection", func() bool {
			channels, connections := shardChannels(t, nodes)
			return channels+connections == 0
		})
		clusterHandoff(t, a.Fair(), b.Fair())
	})
	// a prefix may have a hash tag, which puts all locks into one slot, or none
	for _, prefix := range []string{"shop:", "{shop}:"} {
		t.Run("prefix/"+prefix, func(t *testing.T) {
			clusterHandoff(t, onCluster(t, o, handoff.Options{Prefix: prefix}).Fair(),
				onCluster(t, o, handoff.Options{Prefix: prefix}).Fair())
		})
	}
	t.Run("force release", func(t *testing.T) { // the client repeats commands
		a, b := onCluster(t, o, handoff.Options{}), onCluster(t, o, handoff.Options{})
		for _, name := range allLocks {
			lease := locktest.Obtain(t, pick(a, name), "forced")
			got, _ := async(t.Context(), b.ReadWrite().Write(), "forced")
			testkit.Until(t, "a waiter", func() bool { return inspect(t, b, "forced").Waiting == 1 })
			forced, err := a.ForceRelease(t.Context(), "forced")
			next := <-got
			testkit.Check(t, err)
			rise(t, lease.Fence(), forced.Fence, next.Fence())
			locktest.ReleaseLost(t, lease, "Release of the evicted")
			locktest.Release(t, next)
		}
	})
	t.Run("renewal", func(t *testing.T) {
		// Beside a load of 20 a lock with a TTL of three seconds was lost.
		l := onCluster(t, o, handoff.Options{TTL: 9 * time.Second}).Handoff()
		var leases []lock.Lease
		for i := range 60 { // two with each tag, and as many without any
			leases = append(leases, locktest.Obtain(t, l, fmt.Sprintf("renewed-%d{%d}", i, i/2)),
				locktest.Obtain(t, l, fmt.Sprintf("renewed-%d", i)))
		}
		time.Sleep(12 * time.Second) // there is nothing to wait for: they must not end
		for _, lease := range leases {
			released(t, lease)
		}
	})
	// Every hash tag has its own channel. When a channel is confirmed, its own keys are polled and no others: the cost of
	// a waiter does not depend on how many there are.
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
				testkit.Until(t, "a waiter in the queue", func() bool { return e.Watches(key(i)) })
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

// nodesOf are clients of a cluster's nodes.
func nodesOf(t *testing.T, o *redis.ClusterOptions) (nodes []*redis.Client) {
	for _, addr := range o.Addrs {
		nodes = append(nodes, connect(t, &redis.Options{Addr: addr, Username: o.Username, Password: o.Password}))
	}
	return nodes
}

// shardChannels counts the shard channels that have subscribers, and the connections that are subscribed.
func shardChannels(t *testing.T, nodes []*redis.Client) (channels, connections int) {
	t.Helper()
	for _, c := range nodes {
		all, err := c.PubSubShardChannels(t.Context(), "").Result()
		list, failed := c.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text()
		testkit.Must(t, errors.Join(err, failed))
		channels, connections = channels+len(all), connections+strings.Count(list, "\n")
	}
	return channels, connections
}

// clusterHandoff passes locks from a to b, by messages: by polls alone it would take two seconds each time.
func clusterHandoff(t *testing.T, a, b lock.Locker) {
	const keys, rounds = 6, 5
	var took []time.Duration
	for k := range keys {
		key := fmt.Sprintf("handed-%d", k)
		for range rounds {
			held := locktest.Obtain(t, a, key)
			got := locktest.Waiter(t, b, key)
			_, err := a.Acquire(lock.WithWait(t.Context(), 20*time.Millisecond), key)
			testkit.IsError(t, err, lock.ErrBusy, "Acquire of a held lock")
			start := time.Now()
			released(t, held)
			locktest.Release(t, <-got)
			took = append(took, time.Since(start))
		}
	}
	locktest.WantTold(t, took)
}

// A cluster that does not answer delays no caller for longer than the caller's context lasts.
func TestEngineClusterDoesNotAnswer(t *testing.T) {
	t.Parallel()
	l := testkit.Listen(t) // whose connections nobody accepts
	const never = 10 * time.Minute
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{l.Addr().String()}, MaxRetries: -1,
		ReadTimeout: never})
	e, err := handoff.New(c, handoff.Options{})
	testkit.Must(t, err)
	ctx := testkit.Within(t, 10*time.Millisecond)
	err = failedAcquire(ctx, t, e.Fair(), "k", locktest.Soon)
	testkit.IsError(t, err, context.DeadlineExceeded, "Acquire")
	_ = l.Close()
	testkit.Check(t, errors.Join(e.Close(t.Context()), c.Close()))
}

// clusterPair are two processes on a cluster, its nodes, and keys of several slots of the first one.
type clusterPair struct {
	a, b  lock.Locker
	nodes []*redis.Client
	keys  []string
}

func newClusterPair(t *testing.T, o *redis.ClusterOptions) clusterPair {
	t.Helper()
	p := clusterPair{nodes: nodesOf(t, o), a: onCluster(t, o, handoff.Options{}).Fair(),
		b: onCluster(t, o, handoff.Options{}).Fair()}
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
	testkit.Must(t, err)
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
	testkit.Until(t, "a waiter", func() bool {
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
		testkit.Is(t, <-released, nil, "%s: the waiter's Acquire and Release", key)
	}
}

// A subscriber's connection with channels of several slots is lost and replaced, with all its channels. Then a slot
// moves to another node while a lock of it is held and waited for: its waiter subscribes there, and the waiters of
// other locks are not disturbed, although the old node refuses the moved channel.
func TestEngineClusterSlotMoves(t *testing.T) {
	testenv.Slow(t, "starts a cluster")
	t.Parallel()
	o := testenv.RedisCluster(t, 3)
	o.MaxRedirects = -1 // so that the engine alone repeats
	p := newClusterPair(t, o)
	p.handOff(t, 0, p.keys...)
	testkit.Must(t, p.nodes[0].Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	for range 2 {
		p.handOff(t, 0, p.keys...)
	}
	p.hangs(t)
	moved := p.keys[0]
	held, released := p.waits(t, 0, moved)
	near := "near{" + moved + "}" // a lock in the same slot
	nearby := locktest.Obtain(t, p.a, near)
	var done sync.WaitGroup
	p.move(t, o, moved, func() {
		done.Go(func() { locktest.Release(t, nearby) })
		done.Go(func() { locktest.Warm(t, p.b, "free{"+moved+"}") })
		refusals := regexp.MustCompile(`errorstat_(ASK|TRYAGAIN):count=\d\d`)
		testkit.Until(t, "both are asked again and again", func() bool {
			return len(refusals.FindAllString(p.nodes[0].Info(t.Context(), "errorstats").Val(), -1)) == 2
		})
	})
	done.Wait()
	locktest.Warm(t, p.b, near)
	locktest.Release(t, held)
	testkit.Is(t, <-released, nil, "Acquire and Release of the waiter whose slot moved")
	for range 2 {
		p.handOff(t, 0, p.keys[1:]...)
		p.handOff(t, 1, moved)
	}
}

// hangs has the first node hang: that holds up its own locks only.
func (p clusterPair) hangs(t *testing.T) {
	t.Helper()
	healthy := 0
	for p.slot(t, fmt.Sprint("healthy-", healthy)) < 6000 {
		healthy++
	}
	locktest.Warm(t, p.a, fmt.Sprint("healthy-", healthy))
	testkit.Must(t, p.nodes[0].Do(t.Context(), "CLIENT", "PAUSE", time.Minute.Milliseconds(), "WRITE").Err())
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 24 { // more than one node has batches
		wg.Go(func() { _, _ = p.a.Acquire(ctx, fmt.Sprintf("hung-%d{%s}", i, p.keys[0])) })
		time.Sleep(20 * time.Millisecond)
	}
	start := time.Now()
	locktest.Warm(t, p.a, fmt.Sprint("healthy-", healthy))
	if took := time.Since(start); took > 1500*time.Millisecond {
		t.Errorf("a cycle at a healthy node took %s: it waited for the node that hangs", took)
	}
	testkit.Must(t, p.nodes[0].Do(t.Context(), "CLIENT", "UNPAUSE").Err())
	cancel()
	wg.Wait()
}

// move brings the slot of key from the first node to the second, and calls during when it is on its way.
func (p clusterPair) move(t *testing.T, o *redis.ClusterOptions, key string, during func()) {
	t.Helper()
	slot, ids := p.slot(t, key), make([]string, len(p.nodes))
	do := func(n int, args ...any) {
		t.Helper()
		testkit.Must(t, p.nodes[n].Do(t.Context(), args...).Err())
	}
	for i, n := range p.nodes {
		ids[i] = n.ClusterMyID(t.Context()).Val()
	}
	do(1, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
	do(0, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
	during()
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

// The engine can be taken away, from any directory: a program of another module, which uses only the packages that the
// script copies, builds, and locks on a real server.
func TestEngineCanBeTakenAway(t *testing.T) {
	testenv.Slow(t, "compiles a module")
	t.Parallel()
	s := testenv.Redis(t)
	script, err := filepath.Abs("../../../scripts/take-lock")
	testkit.Must(t, err)
	elsewhere := t.TempDir()
	dir := filepath.Join(elsewhere, "locks")
	run := func(in, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = in
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run(elsewhere, script, "locks", "example.com/locks") // from a directory of the user's
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "main.go"), testkit.Read(t, "testdata/taken.go.txt"), 0o600))
	want := "acquired: <nil>\na rival: lock: busy\nreleased: <nil> <nil>\n"
	if got := run(dir, "go", "run", ".", s.URL, s.Prefix+"taken"); got != want {
		t.Errorf("the program printed\n%swant\n%s", got, want)
	}
}
