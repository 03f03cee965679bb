package handoff_test

import (
	"context"
	"errors"
	"fmt"
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
			contendAndCheck(t, s, name, func() *redis.Client { return locktest.RedisClient(t, s) }, handoff.Options{Replicas: 1, ReplicasTimeout: 20 * time.Second})
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

// A process's pub/sub connection stays at a master that was made a replica. The new master knows no subscriber of that process and skips it.
// The process notices, and subscribes at the new master soon.
func TestEngineSubscribedAtAFormerMaster(t *testing.T) {
	t.Parallel()
	nodes := testenv.RedisNodes(t, 2, "repl-diskless-sync-delay 0")
	all := []*redis.Options{options(t, nodes[0]), options(t, nodes[1])}
	servers := []*redis.Client{connect(t, options(t, nodes[0])), connect(t, options(t, nodes[1]))}
	var master atomic.Int64
	follow := func(replica, of int) {
		host, port, _ := net.SplitHostPort(all[of].Addr)
		c := servers[replica]
		if err := errors.Join(c.ConfigSet(t.Context(), "masterauth", all[of].Password).Err(), c.ReplicaOf(t.Context(), host, port).Err()); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "a replica", func() bool {
			return strings.Contains(c.Info(t.Context(), "replication").Val(), "master_link_status:up")
		})
	}
	process := func() lock.Locker { // which finds the master as by its name
		o := options(t, nodes[0])
		o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", all[master.Load()].Addr)
		}
		o.CredentialsProvider = func() (string, string) { return all[master.Load()].Username, all[master.Load()].Password }
		return engine(t, connect(t, o), handoff.Options{}).Fair()
	}
	queue := func(l lock.Locker, key string, place int64) chan lock.Lease {
		got := make(chan lock.Lease, 1)
		go func() {
			if lease, err := l.Acquire(lock.WithWait(t.Context(), mustHappenWithin), key); err == nil {
				got <- lease
			} else {
				t.Errorf("Acquire = %v", err)
			}
		}()
		wait.Until(t, "a waiter", func() bool {
			return servers[master.Load()].ZCard(t.Context(), handoff.KeysOf(key).Queue).Val() == place
		})
		return got
	}
	follow(1, 0)
	stays := process()
	held := locktest.Obtain(t, process(), "before")
	got := queue(stays, "before", 1)
	locktest.Release(t, held)
	locktest.Release(t, served(t, "the waiter", got))
	if err := servers[1].ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	master.Store(1)
	follow(0, 1)
	held = locktest.Obtain(t, process(), "after")
	first, second := queue(stays, "after", 1), queue(process(), "after", 2)
	locktest.Release(t, held)
	held = served(t, "the waiter that is subscribed", second)
	select {
	case lease := <-first:
		t.Fatalf("fence %d was let in beside %d", lease.Fence(), held.Fence())
	case <-time.After(300 * time.Millisecond): // what must not happen
	}
	locktest.Release(t, held)
	locktest.Release(t, served(t, "the waiter that is subscribed again", first))
}

// The server's scripts are flushed again and again, also between two requests of one batch.
func TestEngineScriptsAreFlushed(t *testing.T) {
	t.Parallel()
	node := testenv.RedisNodes(t, 1)[0]
	admin := connect(t, options(t, node))
	s := &testenv.RedisServer{URL: node.URL, Client: admin}
	ended, flushed := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-ended:
				flushed <- n
				return
			case <-time.After(time.Millisecond):
				_ = admin.ScriptFlush(context.Background())
			}
		}
	}()
	for _, name := range []string{"handoff", "fair", "rw-write"} {
		contendAndCheck(t, s, name, func() *redis.Client { return connect(t, options(t, node)) }, handoff.Options{})
	}
	close(ended)
	if n := <-flushed; n < 10 {
		t.Errorf("flushed %d times, want enough to tell", n)
	}
}

// A server that refuses subscribers is not tried again at once.
func TestEngineSubscriberIsRefused(t *testing.T) {
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

// A Redis user with only the permissions that [handoff.New] lists.
func TestEngineUnderACL(t *testing.T) {
	t.Parallel()
	node := testenv.RedisNodes(t, 1)[0]
	admin := connect(t, options(t, node))
	rules := []any{
		"ACL", "SETUSER", "shop", "on", ">secret", "~{lock}*", "&lock:engine:*",
		"+@connection", "+@read", "+@write", "+@scripting", "+@pubsub", "+time", "+wait",
	}
	if err := admin.Do(t.Context(), rules...).Err(); err != nil {
		t.Fatal(err)
	}
	s := &testenv.RedisServer{URL: node.URL, Client: admin, Prefix: "{lock}"}
	for _, name := range []string{"handoff", "fair", "rw-write"} {
		contendAndCheck(t, s, name, func() *redis.Client {
			o := options(t, node)
			o.Username, o.Password = "shop", "secret"
			return connect(t, o)
		}, handoff.Options{})
	}
}

// A server comes back with its data from disk: a lease that has not expired meanwhile is still its holder's. If it comes back empty, the
// fence rises all the same (invariant 3).
func TestEngineServerRestarts(t *testing.T) {
	t.Parallel()
	for disk, conf := range map[string][]string{
		"AOF":     {"appendonly yes", "appendfsync always"},
		"RDB":     {"dbfilename lock.rdb"},
		"nothing": {"appendonly no", `save ""`},
	} {
		for _, name := range []string{"handoff", "fair"} {
			t.Run(disk+"/"+name, func(t *testing.T) {
				t.Parallel()
				node := testenv.RedisNodes(t, 1, append(conf, fmt.Sprintf("dir %q", t.TempDir()))...)[0]
				restarts(t, node, name, disk)
			})
		}
	}
}

func restarts(t *testing.T, node *testenv.RedisNode, name, disk string) {
	var now atomic.Pointer[redis.Options]
	now.Store(options(t, node))
	o := options(t, node)
	o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", now.Load().Addr)
	}
	o.CredentialsProvider = func() (string, string) { return now.Load().Username, now.Load().Password }
	c := connect(t, o)
	l := pick(engine(t, c, handoff.Options{}), name)
	locktest.Warm(t, l, "k")
	held := locktest.Obtain(t, l, "held")
	last := locktest.Obtain(t, l, "k")
	if err := last.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if disk == "RDB" {
			if err := c.Save(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		node.Kill()
		node.Start()
		now.Store(options(t, node))
		wait.Until(t, "a server", func() bool { return c.Ping(t.Context()).Err() == nil })
		next := locktest.Obtain(t, l, "k")
		if next.Fence() <= last.Fence() {
			t.Errorf("fence %d after %d and a restart, want it to rise", next.Fence(), last.Fence())
		}
		if err := next.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		last = next
	}
	if disk == "nothing" {
		if err := held.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release of what a restart wiped out = %v, want ErrLost", err)
		}
		return
	}
	if _, err := l.Acquire(lock.WithWait(t.Context(), 0), "held"); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("Acquire of what is held = %v, want ErrBusy", err)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Errorf("Release of what was held over the restarts = %v, want nil", err)
	}
}
