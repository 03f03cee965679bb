package writeups_test

import (
	"context"
	"fmt"
	"net"
	"strings"
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

// replicas gives a master and n replicas of it, each behind a relay of its own, once all are in step.
func replicas(s *story, n int, conf ...string) (master client, all []client, wires []*locktest.Relay) {
	s.Helper()
	nodes := testenv.RedisNodes(s, n+1, append(conf, "repl-diskless-sync-delay 0")...)
	master = s.node("A", nodes[0])
	o, err := redis.ParseURL(nodes[0].URL)
	testkit.Must(s, err)
	for _, node := range nodes[1:] {
		w := locktest.NewRelay(s.T, o.Addr)
		r := s.node("B", node)
		r.follow(w.Addr().String(), o.Password)
		all, wires = append(all, r), append(wires, w)
	}
	testkit.Until(s, "the master counts its replicas", func() bool {
		return strings.Count(master.quietly("INFO replication"), "state=online") == n
	})
	return master, all, wires
}

// follow makes the server a replica, and returns when it is in step.
func (c client) follow(addr, password string) {
	c.s.Helper()
	host, port, _ := net.SplitHostPort(addr)
	for _, command := range []string{"CONFIG SET masterauth " + password, "REPLICAOF " + host + " " + port} {
		if got := c.quietly(command); got != "OK" {
			c.s.Fatalf("%s: %s", command, got)
		}
	}
	testkit.Until(c.s, "a replica in step", func() bool {
		return strings.Contains(c.quietly("INFO replication"), "master_link_status:up")
	})
}

// A lock is written to the master, the master is gone, the replica that follows it never heard of the lock.
func TestFailoverLosesTheLock(t *testing.T) {
	s := tell(t)
	master, replica, wires := replicas(s, 1)
	wires[0].Cut.Store(true)
	master.do("OK", "SET lock a NX PX 30000")
	s.note("the master dies, and the replica is promoted")
	replica[0].do("OK", "REPLICAOF NO ONE")
	replica[0].do("OK", "SET lock b NX PX 30000")
	s.note("A and B both hold the lock")
}

// A token that is drawn after the lock is replicated after it: a replica that has lost the lock has lost the token too,
// and gives the same one again. Whether both holders write is decided by how the row compares.
func TestFailoverTakesBackTheToken(t *testing.T) {
	s := tell(t)
	master, replica, wires := replicas(s, 1)
	db := s.mysql([]string{
		"CREATE TABLE product_stock (id INT PRIMARY KEY, stock INT NOT NULL, fence INT NOT NULL, writer CHAR(1))",
		"INSERT INTO product_stock VALUES (101, 10, 200, NULL)",
	}, "A", "B")
	master.do("OK", "SET fence 200")
	testkit.Until(s, "the replica has the counter", func() bool { return replica[0].quietly("GET fence") == "200" })
	wires[0].Cut.Store(true)
	master.do("OK", "SET lock a NX PX 30000")
	master.do("201", "INCR fence")
	s.note("the master dies before it has replicated, and the replica is promoted")
	replica[0].do("OK", "REPLICAOF NO ONE")
	replica[0].do("OK", "SET lock b NX PX 30000")
	replica[0].do("201", "INCR fence")
	s.note("B's token is A's. A and B have read stock 10; the row wants a higher token:")
	const write = "UPDATE product_stock SET stock = 9, fence = 201, writer = '%s' WHERE id = 101 AND fence %s 201"
	db[0].exec("1 affected", fmt.Sprintf(write, "A", "<"))
	db[1].exec("0 affected", fmt.Sprintf(write, "B", "<"))
	db[1].exec("1 affected", fmt.Sprintf(write, "B", "<="))
	s.note("where an equal token will do, B writes as well: two units sold, one taken")
}

// min-replicas-to-write looks at how old the replicas' last word is, not at whether they have this write.
func TestMinReplicasToWriteNarrows(t *testing.T) {
	s := tell(t)
	master, replica, wires := replicas(s, 2, "min-replicas-to-write 1", "min-replicas-max-lag 60")
	master.do("[min-replicas-to-write 1]", "CONFIG GET min-replicas-to-write")
	wires[0].Cut.Store(true)
	wires[1].Cut.Store(true)
	master.do("OK", "SET lock a NX PX 30000")
	s.note("the replicas are cut off, and the master still accepts the write: it heard from them less than " +
		"min-replicas-max-lag ago")
	replica[0].do("OK", "REPLICAOF NO ONE")
	o := replica[0].c.(*redis.Client).Options()
	replica[1].follow(o.Addr, o.Password)
	replica[0].do("OK", "SET lock b NX PX 30000")
	s.note("A and B both hold the lock")
	master.do("OK", "CONFIG SET min-replicas-max-lag 1")
	testkit.Until(s, "the master refuses", func() bool {
		return strings.HasPrefix(master.quietly("SET other a NX"), "(error) NOREPLICAS")
	})
	master.do("(error) NOREPLICAS Not enough good replicas to write.", "SET more a NX PX 30000")
	s.note("max-lag later the master refuses writes: the window is max-lag wide, not closed")
}

// WAIT counts replicas, not the one that will be promoted; and an answer of 0 takes nothing back.
func TestWaitNarrows(t *testing.T) {
	s := tell(t)
	master, replica, wires := replicas(s, 2)
	wires[1].Cut.Store(true)
	master.do("OK", "SET lock a NX PX 30000")
	master.do("1", "WAIT 1 20000")
	s.note("one of two replicas has the lock; the other one is promoted")
	replica[1].do("OK", "REPLICAOF NO ONE")
	replica[1].do("OK", "SET lock b NX PX 30000")
	s.note("A and B both hold the lock")
	wires[0].Cut.Store(true)
	master.do("OK", "SET late a NX PX 30000")
	master.do("0", "WAIT 1 100")
	master.do("a", "GET late")
	s.note("no replica acknowledged, but the master holds the lock: you must release it yourself")
}

// A cache that may evict anything evicts locks.
func TestEvictionTakesTheLock(t *testing.T) {
	s := tell(t)
	node := testenv.RedisNodes(t, 1, "maxmemory 4mb", "maxmemory-policy allkeys-lru", "maxmemory-samples 10")[0]
	a, b := s.node("A", node), s.node("B", node)
	a.do("[maxmemory-policy allkeys-lru]", "CONFIG GET maxmemory-policy")
	a.do("OK", "SET lock a NX PX 600000")
	page := strings.Repeat("x", 10_000)
	n := 0
	testkit.Until(s, "the lock is evicted", func() bool {
		n++
		b.quietly("SET page:" + strings.Repeat("i", n%2_000) + " " + page)
		return b.quietly("EXISTS lock") == "0"
	})
	s.note("a cache fills the memory with pages of 10 kB")
	b.do("OK", "SET lock b NX PX 600000")
	s.note("A's TTL of ten minutes is not over, and B holds the lock too")
}

// Five masters forget a holder that has stopped as surely as one does.
func TestRedlockExpiresEverywhere(t *testing.T) {
	s := tell(t)
	nodes := s.masters(testenv.RedisNodes(t, 5))
	all := func(who, command, want string) {
		t.Helper()
		n := 0
		for _, node := range nodes {
			if node.quietly(command) == want {
				n++
			}
		}
		s.is(who, "on each of five: "+command, fmt.Sprintf("%d of 5", n), "5 of 5")
	}
	all("A", "SET lock a NX PX 30000", "OK")
	s.note("A stops for longer than its TTL")
	for _, node := range nodes {
		if got := node.quietly("PEXPIRE lock 0"); got != "1" {
			t.Fatalf("PEXPIRE: %s", got)
		}
	}
	all("B", "SET lock b NX PX 30000", "OK")
	s.note("A wakes up and writes: a majority decides which client may begin, not which one has stopped")
}

// sends counts the commands that a client sends.
type sends struct {
	testenv.Hook
	atomic.Int64
}

func (n *sends) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		n.Add(1)
		return next(ctx, cmd)
	}
}

func (n *sends) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// waiting is a client that waits for a lock of its own that somebody else holds.
type waiting struct {
	name    string
	sent    sends
	c       *redis.Client
	acquire func(ctx context.Context, key string) error
	release func(key string) error // by its holder
	got     chan time.Time
}

// pollEvery waits as the listings do: SET NX, and after each refusal a sleep.
func (w *waiting) pollEvery(sleep time.Duration) {
	w.acquire = func(ctx context.Context, key string) error {
		for ctx.Err() == nil {
			if ok, err := w.c.SetNX(ctx, key, "waiter", time.Minute).Result(); ok || err != nil {
				return err
			}
			time.Sleep(sleep)
		}
		return ctx.Err()
	}
}

// A busy loop without a sleep, sleeps of 50 and 100 ms, and a queue that is told: what waiting costs the server, and
// how long the lock is free before the waiter has it. The second depends on the machine and is only told.
func TestBusyLoop(t *testing.T) {
	s := tell(t)
	server := testenv.Redis(t)
	o, err := redis.ParseURL(server.URL)
	testkit.Must(t, err)
	kinds := []*waiting{{name: "no sleep"}, {name: "sleep 50 ms"}, {name: "sleep 100 ms"}, {name: "handoff"}}
	for i, w := range kinds {
		w.c, w.got = redis.NewClient(o), make(chan time.Time, 1)
		w.c.AddHook(&w.sent)
		t.Cleanup(func() { _ = w.c.Close() })
		w.pollEvery([]time.Duration{0, 50 * time.Millisecond, 100 * time.Millisecond, 0}[i])
		key := server.Prefix + w.name
		w.release = func(key string) error { return server.Client.Del(context.Background(), key).Err() }
		if w.name == "handoff" {
			w.queue(t, server.Client, key)
		} else if err := server.Client.Set(t.Context(), key, "holder", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	for _, w := range kinds {
		go func() {
			testkit.Is(t, w.acquire(t.Context(), server.Prefix+w.name), nil, "%s", w.name)
			w.got <- time.Now()
		}()
	}
	busy := kinds[0]
	testkit.Until(s, "the busy loop has sent 2000 commands in 400 ms or more", func() bool {
		return busy.sent.Load() >= 2000 && time.Since(began) > 400*time.Millisecond
	})
	took := time.Since(began)
	for _, w := range kinds {
		sent := w.sent.Load()
		released := time.Now()
		testkit.Must(t, w.release(server.Prefix+w.name))
		late := (<-w.got).Sub(released)
		s.says("", fmt.Sprintf("%-12s waits %3d ms", w.name, took.Milliseconds()),
			fmt.Sprintf("%6d commands, in after %6.2f ms", sent, late.Seconds()*1000))
		if w != busy && sent*3 > busy.sent.Load() {
			t.Errorf("%s sent %d commands, and the busy loop %d: this exhibit no longer shows its flaw", w.name, sent,
				busy.sent.Load())
		}
	}
	s.note("a waiter without a sleep keeps its connection and the server busy; with a sleep it gets the lock late; a " +
		"queue avoids both")
}

// queue waits in the engine's queue, where another engine holds the lock.
func (w *waiting) queue(t *testing.T, holder *redis.Client, key string) {
	t.Helper()
	var engines []*handoff.Engine
	for _, c := range []*redis.Client{holder, w.c} {
		e, err := handoff.New(c, handoff.Options{CallTimeout: testenv.Still, GrantTimeout: testenv.Still, TTL: testenv.Still})
		testkit.Must(t, err)
		t.Cleanup(func() { _ = e.Close(context.Background()) })
		engines = append(engines, e)
	}
	held, err := engines[0].Handoff().Acquire(t.Context(), key)
	testkit.Must(t, err)
	w.release = func(string) error { return held.Release(context.Background()) }
	var l lock.Lease
	w.acquire = func(ctx context.Context, key string) (err error) {
		l, err = engines[1].Handoff().Acquire(ctx, key)
		return err
	}
	t.Cleanup(func() {
		if l != nil {
			_ = l.Release(context.Background())
		}
	})
}

// Redlock with a split vote: the clients ask at the same moment, each is first on some nodes, and nobody has a
// majority. If they all try again at the same moment, it happens again.
func TestRedlockSplitVote(t *testing.T) {
	s := tell(t)
	nodes := s.masters(testenv.RedisNodes(t, 5))
	set := func(node int, who string) bool { return nodes[node].quietly("SET lock "+who+" NX PX 30000") == "OK" }
	release := func(who string) {
		t.Helper()
		for _, node := range nodes {
			testkit.Must(t, node.c.Eval(t.Context(), releaseMine, []string{"lock"}, who).Err())
		}
	}
	first := []string{"A", "A", "B", "B", "C"} // on each node
	for range 2 {
		granted := map[string]int{}
		for node := range nodes {
			for _, who := range []string{first[node], "A", "B", "C"} {
				if set(node, who) {
					granted[who]++
				}
			}
		}
		for _, who := range []string{"A", "B", "C"} {
			s.is(who, "asks five nodes, while the others ask as well", fmt.Sprintf("%d of 5", granted[who]),
				fmt.Sprintf("%d of 5", strings.Count(strings.Join(first, ""), who)))
		}
		s.note("three are needed: all release, and try again after the same delay")
		for _, who := range []string{"A", "B", "C"} {
			release(who)
		}
	}
	s.note("now each draws a random delay, and B's is the shortest")
	granted := 0
	for node := range nodes {
		if set(node, "B") {
			granted++
		}
	}
	s.is("B", "asks five nodes, before the others wake up", fmt.Sprintf("%d of 5", granted), "5 of 5")
}
