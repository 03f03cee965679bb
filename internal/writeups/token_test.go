package writeups_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/lock"
	"lastitem/internal/lock/textbook"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// A client that sends a command again when its answer does not come.
func TestClientSendsAgain(t *testing.T) {
	s := tell(t)
	server := testenv.Redis(t)
	s.prefix = server.Prefix
	o, err := redis.ParseURL(server.URL)
	testkit.Must(t, err)
	for _, c := range []struct {
		name, came, left string
		retries          int
	}{
		{"retries: 3, the default", "8", "8", 3},
		{"retries: none", "(error) EOF", "9", -1},
	} {
		relay := locktest.NewRelay(t, o.Addr)
		relay.Losing(false, func(sent []byte) func([]byte) bool { // Redis has done the DECR
			if !bytes.Contains(bytes.ToLower(sent), []byte("decr")) {
				return nil
			}
			return func([]byte) bool { return true }
		})
		own := *o
		own.Addr, own.MaxRetries = relay.Addr().String(), c.retries
		unlucky := testkit.Closing(t, redis.NewClient(&own))
		a := client{s, "A", unlucky}
		s.note("%s", c.name)
		a.do("OK", "SET @stock 10")
		a.do(c.came, "DECR @stock")
		a.do(c.left, "GET @stock")
	}
	s.note("one order; the first client took two units, the second does not know whether it took one")
}

// A message comes at least once: its consumer did the work and died before it said so.
func TestRedeliveryDeductsTwice(t *testing.T) {
	s, a, b := withAB(t)
	a.do("OK", "SET @stock 10")
	a.do("OK", "XGROUP CREATE @orders workers 0 MKSTREAM")
	a.do("1-1", "XADD @orders 1-1 order 4711")
	got := a.quietly("XREADGROUP GROUP workers a COUNT 1 STREAMS @orders >")
	if !strings.Contains(got, "4711") {
		t.Fatalf("A was given %s", got)
	}
	s.says("A", "XREADGROUP GROUP workers a STREAMS orders >", "order 4711")
	a.do("9", "DECR @stock")
	s.note("A is killed before XACK")
	got = b.quietly("XAUTOCLAIM @orders workers b 0 0")
	if !strings.Contains(got, "4711") {
		t.Fatalf("B was given %s", got)
	}
	s.says("B", "XAUTOCLAIM orders workers b 0 0", "order 4711")
	b.do("8", "DECR @stock")
	b.do("1", "XACK @orders workers 1-1")
	s.note("one order, two units taken: the deduction needs an idempotency row in its own transaction")
}

// A fencing token that is drawn beside the lock, not with it: the order of the tokens is not the order of the holders.
func TestTokenFromASeparateIncr(t *testing.T) { play(t) }

// Drawn before the lock it is the other way round: the right holder is refused.
func TestTokenBeforeTheLock(t *testing.T) { play(t) }

// The token is read when it is needed: whoever asks late is told the number of somebody else.
func TestTokenReadLater(t *testing.T) {
	s, a, b := withAB(t)
	const acquire = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 30000) " +
		"then return redis.call('INCR', KEYS[1] .. ':fence') end return 0"
	a.eval("1", "SET NX and INCR in one script", acquire, "lock", "a")
	a.expires("lock")
	b.eval("2", "SET NX and INCR in one script", acquire, "lock", "b")
	a.do("2", "GET @lock:fence")
	s.note("A asks for its token and gets B's: the acquire itself must return the token")
}

// The fence is checked on the write only. Both reads are of old, the tokens rise, and every write is accepted.
func TestFenceOnTheWriteOnly(t *testing.T) { play(t) }

// A counter that went back, as after a failover, gives a token twice. Not older is not enough: it must be newer.
func TestSameTokenTwice(t *testing.T) { play(t) }

// A holder that writes twice with one token. Where the row wants a higher token for each write, its second write is
// refused although nobody else has the lock; where the same token will do, the second write passes also when a rival
// has the lock, until the rival has shown its own.
func TestHolderWritesTwice(t *testing.T) { play(t) }

// A holder that is cut off hears nothing, neither of its loss nor of its failed renewals. Its own clock tells it.
func TestCutOffHolderHearsNothing(t *testing.T) {
	s := tell(t)
	server := testenv.Redis(t)
	o, err := redis.ParseURL(server.URL)
	testkit.Must(t, err)
	w := locktest.NewRelay(t, o.Addr)
	far := *o
	far.Addr, far.MaxRetries, far.ContextTimeoutEnabled = w.Addr().String(), -1, true
	cut := testkit.Closing(t, redis.NewClient(&far))
	const ttl = time.Second
	a, b := textbook.NewWatchdog(cut, ttl, nil, nil), textbook.NewWatchdog(server.Client, time.Minute, nil, nil)
	key := server.Prefix + "lock"
	held := locktest.Acquire(lock.WithWait(t.Context(), soon), t, a, key)
	s.says("A", "acquire, TTL 1 s, renewed every third of it", "held")
	w.Cut.Store(true)
	s.says("", "the network between A and Redis is cut", "")
	second := locktest.Acquire(lock.WithWait(t.Context(), soon), t, b, key)
	s.says("B", "acquire", "held, when A's second was over")
	select {
	case <-held.Context().Done():
	case <-time.After(soon):
		t.Fatal("A was never told")
	}
	lost := errors.Is(context.Cause(held.Context()), lock.ErrLost)
	s.is("A", "its lease's context", fmt.Sprintf("ended, lost: %t", lost), "ended, lost: true")
	s.note("no message reached A: A's own clock says that the lease has ended, counted from its last renewal")
	locktest.Release(t, second)
}

// Lock and data in one etcd: the write asks for the lock's revision in the same transaction.
func TestEtcdGuardsTheWrite(t *testing.T) {
	s := tell(t)
	server := testenv.Etcd(t)
	c, ctx := server.EtcdClient(t), t.Context()
	at := func(key string) string { return server.Prefix + key }
	acquire := func(who string) (clientv3.LeaseID, int64) {
		t.Helper()
		lease, err := c.Grant(ctx, 60)
		testkit.Must(t, err)
		r, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(at("lock")), "=", 0)).
			Then(clientv3.OpPut(at("lock"), who, clientv3.WithLease(lease.ID))).Commit()
		testkit.Must(t, err)
		s.is(who, "txn: if lock is not there, then put lock with my lease", fmt.Sprint(r.Succeeded), "true")
		return lease.ID, r.Header.Revision
	}
	write := func(who string, revision int64, want string) {
		t.Helper()
		r, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(at("lock")), "=", revision)).
			Then(clientv3.OpPut(at("stock"), "0")).Commit()
		testkit.Must(t, err)
		s.is(who, "txn: if lock was created by me, then put stock 0", fmt.Sprint(r.Succeeded), want)
	}
	_, err := c.Put(ctx, at("stock"), "1")
	testkit.Must(t, err)
	lease, a := acquire("A")
	s.note("A has read stock 1 and stops; its lease ends")
	_, err = c.Revoke(ctx, lease)
	testkit.Must(t, err)
	_, b := acquire("B")
	if b <= a {
		t.Errorf("B's revision %d is not above A's, %d", b, a)
	}
	write("B", b, "true")
	write("A", a, "false")
	s.note("A wakes up, and etcd refuses it; B's revision is above A's: a fencing token")
}
