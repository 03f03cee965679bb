package writeups_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// replicas gives a master and n replicas of it, each behind a relay of its own, once all are in step.
func replicas(s *story, n int, conf ...string) (master client, all []client, wires []*locktest.Relay) {
	s.Helper()
	nodes := testenv.RedisNodes(s, n+1, append(conf, "repl-diskless-sync-delay 0")...)
	master = s.node("A", nodes[0])
	o, err := redis.ParseURL(nodes[0].URL)
	if err != nil {
		s.Fatal(err)
	}
	for _, node := range nodes[1:] {
		w := locktest.NewRelay(s.T, o.Addr)
		r := s.node("B", node)
		r.follow(w.Addr().String(), o.Password)
		all, wires = append(all, r), append(wires, w)
	}
	wait.Until(s, "the master counts its replicas", func() bool {
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
	wait.Until(c.s, "a replica in step", func() bool {
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

// min-replicas-to-write looks at how old the replicas' last word is, not at whether they have this write.
func TestMinReplicasToWriteNarrows(t *testing.T) {
	s := tell(t)
	master, replica, wires := replicas(s, 2, "min-replicas-to-write 1", "min-replicas-max-lag 60")
	master.do("[min-replicas-to-write 1]", "CONFIG GET min-replicas-to-write")
	wires[0].Cut.Store(true)
	wires[1].Cut.Store(true)
	master.do("OK", "SET lock a NX PX 30000")
	s.note("the replicas are cut off, and the master still accepts the write: it heard from them less than min-replicas-max-lag ago")
	replica[0].do("OK", "REPLICAOF NO ONE")
	o := replica[0].c.(*redis.Client).Options()
	replica[1].follow(o.Addr, o.Password)
	replica[0].do("OK", "SET lock b NX PX 30000")
	s.note("A and B both hold the lock")
	master.do("OK", "CONFIG SET min-replicas-max-lag 1")
	wait.Until(s, "the master refuses", func() bool {
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
	wait.Until(s, "the lock is evicted", func() bool {
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
