package writeups_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// In Lua only false and nil are false. 0 is true, and so is what HEXISTS and EXISTS answer, whatever they answer.
func TestZeroIsTrueInLua(t *testing.T) {
	s, a := withA(t)
	a.eval("true", "if 0 then 'true' else 'false'", `if 0 then return 'true' else return 'false' end`, "none")
	a.eval("true", "if redis.call('HEXISTS', none, x) then 'true' else 'false'",
		`if redis.call('HEXISTS', KEYS[1], 'x') then return 'true' else return 'false' end`, "none")
	a.eval("false", "if redis.call('GET', none) then 'true' else 'false'",
		`if redis.call('GET', KEYS[1]) then return 'true' else return 'false' end`, "none")
	a.eval("false", "if redis.call('HEXISTS', none, x) == true then 'true' else 'false'",
		`if redis.call('HEXISTS', KEYS[1], 'x') == true then return 'true' else return 'false' end`, "none")
	s.note("a missing string is false in Lua, a missing field is 0, and 1 == true is false")
}

// The lock as a hash of owner to entries, as Redisson has it, with renewals as they are published.
const (
	renewIfHexists = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) then" + renew + "else return 0 end"
	renewIfNot     = "if not redis.call('HEXISTS', KEYS[1], ARGV[1]) then return 0 end" + renew
	renewUnless    = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) then return 0 end" + renew
	renewIfTrue    = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == true then" + renew + "end return 0"
	renewIfOne     = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then" + renew + "end return 0"

	renew = " return redis.call('PEXPIRE', KEYS[1], ARGV[2]) "
)

// if HEXISTS then PEXPIRE: always true, so it renews the lock of whoever has it, and its own loss is never seen.
func TestRenewalRenewsAnothersLock(t *testing.T) {
	s, a, b := withAB(t)
	a.do("1", "HSET @lock a 1")
	a.expires("lock")
	b.do("1", "HSET @lock b 1")
	b.do("1", "PEXPIRE @lock 20000")
	a.eval("1", "if HEXISTS then PEXPIRE", renewIfHexists, "lock", "a", 60000)
	a.eval("1", "if not HEXISTS then 0, else PEXPIRE", renewIfNot, "lock", "a", 60000)
	s.note("the script tells A that it still has the lock; B has it, and B's 20 s have become 60 s")
	if left := b.left("lock"); left <= 20_000 {
		t.Errorf("B's lock ends in %d ms: this exhibit no longer shows its flaw", left)
	}
	a.eval("0", "if HEXISTS == 1 then PEXPIRE", renewIfOne, "lock", "a", 60000)
	b.eval("1", "if HEXISTS == 1 then PEXPIRE", renewIfOne, "lock", "b", 60000)
}

// The other way round the same slip never renews: the guard that means "not ours" always fires, and 1 == true never
// holds.
func TestRenewalNeverRenews(t *testing.T) {
	s, a := withA(t)
	a.do("1", "HSET @lock a 1")
	a.do("1", "PEXPIRE @lock 20000")
	a.eval("0", "if HEXISTS (meant: is it another's?) then 0, else PEXPIRE", renewUnless, "lock", "a", 60000)
	a.eval("0", "if HEXISTS == true then PEXPIRE", renewIfTrue, "lock", "a", 60000)
	if left := a.left("lock"); left > 20_000 {
		t.Errorf("the lock ends in %d ms: this exhibit no longer shows its flaw", left)
	}
	s.note("A has the lock, but it ends after its first 20 s: the watchdog runs, and renews nothing")
	a.eval("1", "if HEXISTS == 1 then PEXPIRE", renewIfOne, "lock", "a", 60000)
}

// The same slip in the acquire: EXISTS answers 0, which is true, so the lock is always taken.
func TestAcquireIfExists(t *testing.T) {
	_, a := withA(t)
	const set = " then return 'taken' end redis.call('SET', KEYS[1], ARGV[1], 'PX', 30000) return 'mine'"
	const naive, right = "if redis.call('EXISTS', KEYS[1])" + set, "if redis.call('EXISTS', KEYS[1]) == 1" + set
	a.do("0", "EXISTS @lock")
	a.eval("taken", "if EXISTS then 'taken'", naive, "lock", "a")
	a.eval("mine", "if EXISTS == 1 then 'taken'", right, "lock", "a")
}

// A script is one step, but no transaction: what it did before its error stays.
func TestScriptsDoNotRollBack(t *testing.T) {
	s, a := withA(t)
	a.do("OK", "SET @stock 5")
	a.eval("(error) WRONGTYPE Operation against a key holding the wrong kind of value", "DECR stock; LPUSH stock order",
		`redis.call('DECR', KEYS[1]) return redis.call('LPUSH', KEYS[1], ARGV[1])`, "stock", "order")
	a.do("4", "GET @stock")
	s.note("atomic means that no other command runs in between; it does not mean all or nothing")
}

// WAIT in the script that takes the lock. Redis 7.0 refuses it, after what stood before it was done; Redis 8 and Valkey
// 9 let it in, where it waits for nothing: it says at once how many replicas had acknowledged what came before.
func TestWaitInsideAScript(t *testing.T) {
	s := tell(t)
	server, c := s.redis("A")
	a := c[0]
	const gist, script = "INCR fence; WAIT 1 20000", `redis.call('INCR', KEYS[1]) return redis.call('WAIT', 1, 20000)`
	name, version := about(s, server)
	begin := time.Now()
	switch {
	case name == "redis" && strings.HasPrefix(version, "7.0."):
		a.eval("(error) ERR This Redis command is not allowed from script", gist, script, "fence")
		s.note("%s %s: the error came after INCR was applied", name, version)
	default:
		a.eval("0", gist, script, "fence")
		s.note("%s %s: in a script it waits for nothing", name, version)
	}
	a.do("1", "GET @fence")
	if took := time.Since(begin); took > soon/2 {
		t.Errorf("WAIT 1 20000 in a script took %s, want at once", took)
	}
}

// about asks a server for its name and version. Valkey also tells the version of the Redis that it began as.
func about(s *story, server *redis.Client) (name, version string) {
	s.Helper()
	info, err := server.InfoMap(s.Context(), "server").Result()
	testkit.Must(s, err)
	if version := info["Server"]["valkey_version"]; version != "" {
		return "valkey", version
	}
	return "redis", info["Server"]["redis_version"]
}

// WAIT in the transaction that takes the lock: it cannot wait, and counts who had acknowledged what came before the
// transaction.
func TestWaitInsideMulti(t *testing.T) {
	s := tell(t)
	master, replica, wires := replicas(s, 1)
	conn := testkit.Closing(t, master.c.(*redis.Client).Conn())
	a := client{s, "A", conn}
	a.do("OK", "SET stock 5")
	a.do("1", "WAIT 1 20000")
	acknowledged := regexp.MustCompile(`(?s)offset=(\d+),.*master_repl_offset:(\d+)`)
	testkit.Until(s, "the replica has acknowledged all, also what WAIT itself sent", func() bool {
		m := acknowledged.FindStringSubmatch(master.quietly("INFO replication"))
		return len(m) == 3 && m[1] == m[2]
	})
	wires[0].Cut.Store(true)
	s.note("the replica no longer receives anything")
	a.do("OK", "MULTI")
	a.do("QUEUED", "INCR fence")
	a.do("QUEUED", "WAIT 1 20000")
	a.do("[1 1]", "EXEC")
	s.note("the 1 of WAIT counts SET stock: WAIT answered at once, and no replica has the INCR")
	a.do("0", "WAIT 1 100")
	replica[0].do("(nil)", "GET fence")
}

// A count that the script adds to is one too high when it is sent twice: an answer was lost, the client sent again.
func TestReentrySentTwice(t *testing.T) {
	s, a, b := withAB(t)
	const enter = "if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then " +
		"redis.call('PEXPIRE', KEYS[1], 30000) return redis.call('HINCRBY', KEYS[1], ARGV[1], 1) end return 'busy'"
	const leave = "local n = redis.call('HINCRBY', KEYS[1], ARGV[1], -1) if n == 0 then redis.call('DEL', KEYS[1]) end " +
		"return n"
	a.eval("1", "enter: HINCRBY lock a 1", enter, "lock", "a")
	a.eval("2", "enter, once more: reentrant", enter, "lock", "a")
	a.eval("1", "leave: HINCRBY lock a -1", leave, "lock", "a")
	b.eval("busy", "enter", enter, "lock", "b")
	a.eval("0", "leave", leave, "lock", "a")
	s.note("right so far. Now A enters and the answer is lost, so the client sends the command again")
	testkit.Must(t, a.c.Eval(t.Context(), enter, []string{s.prefix + "lock"}, "a").Err())
	s.says("A", "enter", "(no answer)")
	a.eval("2", "enter", enter, "lock", "a")
	a.eval("1", "leave", leave, "lock", "a")
	b.eval("busy", "enter", enter, "lock", "b")
	s.note("A has released, and its lock is still there. Let the caller send the number of the entry: HSET lock a 1")
}

// The comment of a listing says that SET NX answers 1 or 0. That is SETNX; SET NX answers OK or nil.
func TestSetNXAnswersOK(t *testing.T) { play(t) }

// A reentrant lock's release script whose last branch deletes the key and returns nothing: the caller gets nil for the
// release that worked.
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

// etcd's revision counts transactions: the keys that one transaction writes have the same. The keys of one lease go
// together.
func TestEtcdRevisionOfATransaction(t *testing.T) {
	s := tell(t)
	server := testenv.Etcd(t)
	c, ctx := server.EtcdClient(t), t.Context()
	lease, err := c.Grant(ctx, 60)
	testkit.Must(t, err)
	put := func(key string) clientv3.Op {
		return clientv3.OpPut(server.Prefix+key, "", clientv3.WithLease(lease.ID))
	}
	wrote, err := c.Txn(ctx).Then(put("a"), put("b")).Commit()
	testkit.Must(t, err)
	s.says("A", "Txn: put a, put b, both with A's lease", "ok")
	next, err := c.Do(ctx, put("c"))
	testkit.Must(t, err)
	s.says("A", "put c, with A's lease", "ok")
	revisions := func(want ...int64) {
		t.Helper()
		got, err := c.Get(ctx, server.Prefix, clientv3.WithPrefix(),
			clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
		testkit.Must(t, err)
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
	s.note("a revision is not unique to a key: two keys of one transaction share it. A lock writes one key in each " +
		"transaction, so its order holds")
	_, err = c.Revoke(ctx, lease.ID)
	testkit.Must(t, err)
	s.says("A", "revoke the lease", "ok")
	revisions()
}

// A lock row with host and thread, so that its owner may enter again: without a count the first release is everybody's.
func TestReentrantRowWithoutACount(t *testing.T) { play(t) }

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
					testkit.Must(t, err)
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
