package writeups_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/testenv"
)

// A holder that is cut off hears nothing, neither of its loss nor of its failed renewals. Its own clock tells it.
func TestCutOffHolderHearsNothing(t *testing.T) {
	s := tell(t)
	server := testenv.Redis(t)
	o, err := redis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := locktest.NewRelay(t, o.Addr)
	far := *o
	far.Addr, far.MaxRetries, far.ContextTimeoutEnabled = w.Addr().String(), -1, true
	cut := redis.NewClient(&far)
	t.Cleanup(func() { _ = cut.Close() })
	const ttl = time.Second
	a, b := textbook.NewWatchdog(cut, ttl, nil, nil), textbook.NewWatchdog(server.Client, time.Minute, nil, nil)
	key := server.Prefix + "lock"
	held, err := a.Acquire(lock.WithWait(t.Context(), soon), key)
	if err != nil {
		t.Fatal(err)
	}
	s.says("A", "acquire, TTL 1 s, renewed every third of it", "held")
	w.Cut.Store(true)
	s.says("", "the network between A and Redis is cut", "")
	second, err := b.Acquire(lock.WithWait(t.Context(), soon), key)
	if err != nil {
		t.Fatal(err)
	}
	s.says("B", "acquire", "held, when A's second was over")
	select {
	case <-held.Context().Done():
	case <-time.After(soon):
		t.Fatal("A was never told")
	}
	lost := errors.Is(context.Cause(held.Context()), lock.ErrLost)
	s.is("A", "its lease's context", fmt.Sprintf("ended, lost: %t", lost), "ended, lost: true")
	s.note("no message reached A: A's own clock says that the lease has ended, counted from its last renewal")
	if err := second.Release(t.Context()); err != nil {
		t.Errorf("B's release: %v", err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(at("lock")), "=", 0)).
			Then(clientv3.OpPut(at("lock"), who, clientv3.WithLease(lease.ID))).Commit()
		if err != nil {
			t.Fatal(err)
		}
		s.is(who, "txn: if lock is not there, then put lock with my lease", fmt.Sprint(r.Succeeded), "true")
		return lease.ID, r.Header.Revision
	}
	write := func(who string, revision int64, want string) {
		t.Helper()
		r, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(at("lock")), "=", revision)).
			Then(clientv3.OpPut(at("stock"), "0")).Commit()
		if err != nil {
			t.Fatal(err)
		}
		s.is(who, "txn: if lock was created by me, then put stock 0", fmt.Sprint(r.Succeeded), want)
	}
	if _, err := c.Put(ctx, at("stock"), "1"); err != nil {
		t.Fatal(err)
	}
	lease, a := acquire("A")
	s.note("A has read stock 1 and stops; its lease ends")
	if _, err := c.Revoke(ctx, lease); err != nil {
		t.Fatal(err)
	}
	_, b := acquire("B")
	if b <= a {
		t.Errorf("B's revision %d is not above A's, %d", b, a)
	}
	write("B", b, "true")
	write("A", a, "false")
	s.note("A wakes up, and etcd refuses it; B's revision is above A's: a fencing token")
}
