package writeups_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/testenv"
)

// The comment of a listing says that SET NX answers 1 or 0. That is SETNX; SET NX answers OK or nil.
func TestSetNXAnswersOK(t *testing.T) {
	s, a, b := withAB(t)
	a.do("OK", "SET @lock a NX PX 30000")
	b.do("(nil)", "SET @lock b NX PX 30000")
	s.note("a client that expects 1 never sees it, and believes that somebody else has the lock that it holds")
	a.do("1", "DEL @lock")
	a.do("1", "SETNX @lock a")
	b.do("0", "SETNX @lock b")
	a.do("-1", "TTL @lock")
	s.note("SETNX answers 1 or 0, and takes no TTL")
}

// A reentrant lock's release script whose last branch deletes the key and returns nothing: the caller gets nil for the release that worked.
func TestReleaseReturnsNothing(t *testing.T) {
	s, a, b := withAB(t)
	const release = `if (redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0) then return 0; end
local lockCount = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if (lockCount > 0) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1; else redis.call('DEL', KEYS[1]) end`
	a.do("2", "HINCRBY @lock a 2")
	b.eval("0", "unlock(), not B's lock", release, "lock", "b", 30000)
	a.eval("1", "unlock(), one entry is left", release, "lock", "a", 30000)
	a.eval("(nil)", "unlock(), the last entry", release, "lock", "a", 30000)
	a.do("0", "EXISTS @lock")
	s.note("the lock is free, but a caller that expects 1 reports a failed release: `return 1` is missing after the DEL")
}

// The time-line of a TTL of 10 s: each request takes longer than its lock lives, and deletes the lock of the next one.
func TestThreeRequestsDeleteEachOther(t *testing.T) {
	s := tell(t)
	_, c := s.redis("1", "2", "3", "4")
	at := func(seconds int) { s.says("", fmt.Sprintf("t = %d s", seconds), "") }
	at(0)
	c[0].do("OK", "SET @lock wangcp NX EX 10")
	at(10)
	c[0].expires("lock")
	c[1].do("OK", "SET @lock wangcp NX EX 10")
	at(15)
	c[0].do("1", "DEL @lock")
	s.note("request 1 has worked for 15 s; it deletes the lock of request 2, which has worked for 5 s")
	c[2].do("OK", "SET @lock wangcp NX EX 10")
	at(18)
	c[1].do("1", "DEL @lock")
	s.note("request 2 ends, and deletes the lock of request 3, which has worked for 3 s")
	c[3].do("OK", "SET @lock wangcp NX EX 10")
	s.note("from now on two requests are always inside: the lock excludes nobody. Compare the value before the DEL")
}

// etcd's revision counts transactions: the keys that one transaction writes have the same. The keys of one lease go together.
func TestEtcdRevisionOfATransaction(t *testing.T) {
	s := tell(t)
	server := testenv.Etcd(t)
	c, ctx := server.EtcdClient(t), t.Context()
	lease, err := c.Grant(ctx, 60)
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string) clientv3.Op {
		return clientv3.OpPut(server.Prefix+key, "", clientv3.WithLease(lease.ID))
	}
	wrote, err := c.Txn(ctx).Then(put("a"), put("b")).Commit()
	if err != nil {
		t.Fatal(err)
	}
	s.says("A", "Txn: put a, put b, both with A's lease", "ok")
	next, err := c.Do(ctx, put("c"))
	if err != nil {
		t.Fatal(err)
	}
	s.says("A", "put c, with A's lease", "ok")
	revisions := func(want ...int64) {
		t.Helper()
		got, err := c.Get(ctx, server.Prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
		if err != nil {
			t.Fatal(err)
		}
		above := []int64{}
		for _, kv := range got.Kvs {
			above = append(above, kv.CreateRevision-wrote.Header.Revision)
		}
		s.is("", "revisions of a, b and c, counted from the transaction's", fmt.Sprint(above), fmt.Sprint(want))
	}
	above := next.Put().Header.Revision - wrote.Header.Revision // other tests write meanwhile
	if above < 1 {
		t.Fatalf("the next transaction's revision is %d above the last one's", above)
	}
	revisions(0, 0, above)
	s.note("a revision is not unique to a key: two keys of one transaction share it. A lock writes one key in each transaction, so its order holds")
	if _, err := c.Revoke(ctx, lease.ID); err != nil {
		t.Fatal(err)
	}
	s.says("A", "revoke the lease", "ok")
	revisions()
}

// A lock row with host and thread, so that its owner may enter again: without a count the first release is everybody's.
func TestReentrantRowWithoutACount(t *testing.T) {
	s, a, b := onMySQL(t, "CREATE TABLE method_lock (name VARCHAR(64) PRIMARY KEY, owner VARCHAR(64) NOT NULL) ENGINE = InnoDB")
	a.exec("1 affected", "INSERT INTO method_lock VALUES ('stock', 'host1:27')")
	a.value("host1:27", "SELECT owner FROM method_lock WHERE name = 'stock'")
	s.note("the row has A's host and thread, so A enters again")
	a.exec("1 affected", "DELETE FROM method_lock WHERE name = 'stock'")
	s.note("the inner method has released the lock, and the outer method still works")
	b.exec("1 affected", "INSERT INTO method_lock VALUES ('stock', 'host2:27')")
	s.note("B is inside too. The row needs a count, and an owner value that is new for each hold: a thread serves many requests")
}

// handled is how often a node has run SET, or a script.
var handled = regexp.MustCompile(`cmdstat_(?:set|eval):calls=(\d+)`)

// More nodes cost more commands, and survive more failures: with three, two that are down stop everybody.
func TestRedlockCostsANodeEach(t *testing.T) {
	s := tell(t)
	servers := testenv.RedisNodes(t, 7)
	nodes := s.masters(servers)
	take := func(n int) (granted int) {
		t.Helper()
		for _, node := range nodes[:n] {
			if node.quietly("SET lock A NX PX 30000") == "OK" {
				granted++
			}
		}
		for _, node := range nodes[:n] {
			_ = node.c.Eval(t.Context(), releaseMine, []string{"lock"}, "A")
		}
		return granted
	}
	sent := func(n int) string {
		t.Helper()
		processed := func() (sum int) {
			for _, node := range nodes[:n] {
				for _, stat := range handled.FindAllStringSubmatch(node.quietly("INFO commandstats"), -1) {
					calls, err := strconv.Atoi(stat[1])
					if err != nil {
						t.Fatal(err)
					}
					sum += calls
				}
			}
			return sum
		}
		before := processed()
		take(n)
		return fmt.Sprintf("%d commands", processed()-before)
	}
	for _, n := range []int{3, 5, 7} {
		s.is("A", fmt.Sprintf("acquire and release on %d nodes", n), sent(n), fmt.Sprintf("%d commands", 2*n))
	}
	servers[0].Kill()
	servers[1].Kill()
	s.says("", "two nodes are down", "")
	s.is("A", "acquire on three nodes, of which two are needed", fmt.Sprintf("%d granted", take(3)), "1 granted")
	s.is("A", "acquire on five nodes, of which three are needed", fmt.Sprintf("%d granted", take(5)), "3 granted")
	s.note("two more nodes cost four more commands for each hold, and one more node may fail")
}
