package coord_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/lock"
	"lastitem/internal/lock/coord"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/step"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

func newEtcd(t *testing.T, c *clientv3.Client, ttl time.Duration, s *step.Stream) *coord.Etcd {
	t.Helper()
	l := coord.NewEtcd(c, ttl, s)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	s := testenv.Etcd(t)
	locktest.Run(t, locktest.Kind{
		Name: "etcd", Key: locktest.KeysUnder(s.Prefix),
		Process: func(t *testing.T, st *step.Stream) lock.Locker {
			return newEtcd(t, s.EtcdClient(t), 30*time.Second, st)
		},
		Late: &locktest.Late{TTL: time.Second, Process: func(t *testing.T, through func(string) string) lock.Locker {
			far := *s
			far.Addr = through(s.Addr)
			return newEtcd(t, far.EtcdClient(t), time.Second, nil)
		}},
	})
}

// etcdLeases returns the leases of the keys below a prefix, by age.
func etcdLeases(t *testing.T, c *clientv3.Client, prefix string) []clientv3.LeaseID {
	t.Helper()
	res, err := c.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		t.Fatal(err)
	}
	var all []clientv3.LeaseID
	for _, kv := range res.Kvs {
		all = append(all, clientv3.LeaseID(kv.Lease))
	}
	return all
}

func TestEtcdLeaseRevoked(t *testing.T) {
	t.Parallel()
	s := testenv.Etcd(t)
	c := s.EtcdClient(t)
	const ttl = 20 * time.Second
	holder, rival := newEtcd(t, c, ttl, nil), newEtcd(t, s.EtcdClient(t), time.Minute, nil)
	locktest.SessionEnds(t, holder, rival, s.Prefix+"k", ttl, func() {
		if _, err := c.Revoke(t.Context(), etcdLeases(t, c, s.Prefix)[0]); err != nil {
			t.Fatal(err)
		}
	})
}

func TestEtcdFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	s := testenv.Etcd(t)
	c := s.EtcdClient(t)
	key := s.Prefix + "k"
	order := fifo(t, newEtcd(t, c, 10*time.Second, nil), key, 8, func(n int) {
		wait.Until(t, "another key in the queue", func() bool { return len(etcdLeases(t, c, s.Prefix)) == n })
	})
	if !slices.IsSorted(order) {
		t.Errorf("served in the order %v", order)
	}
	if left := etcdLeases(t, c, s.Prefix); len(left) != 0 {
		t.Errorf("%d keys left behind", len(left))
	}
}

// Close frees all locks at once, and tells the holders.
func TestEtcdClose(t *testing.T) {
	t.Parallel()
	s := testenv.Etcd(t)
	l := newEtcd(t, s.EtcdClient(t), time.Minute, nil)
	lease := locktest.Obtain(t, l, s.Prefix+"k")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	locktest.WantLost(t, lease, 0)
	locktest.Warm(t, newEtcd(t, s.EtcdClient(t), time.Minute, nil), s.Prefix+"k")
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Release = %v, want ErrLost", err)
	}
}

// The server refuses the put, so there is nothing to undo. If it refuses the delete of a holder's key, the key goes with its lease: as soon as
// the process's other holds have ended.
func TestEtcdPermissionDenied(t *testing.T) {
	t.Parallel()
	s := testenv.Etcd(t)
	var denied atomic.Bool
	var deletes atomic.Int64
	c := s.EtcdClient(t)
	l := newEtcd(t, meddledEtcd(t, s, func(ctx context.Context, call string, send func(context.Context) error) error {
		if call == "DeleteRange" {
			deletes.Add(1)
		}
		if denied.Load() && (call == "Txn" || call == "DeleteRange") {
			return rpctypes.ErrGRPCPermissionDenied
		}
		return send(ctx)
	}), time.Minute, nil)
	locktest.Warm(t, l, s.Prefix+"k")
	lease, other := locktest.Obtain(t, l, s.Prefix+"k"), locktest.Obtain(t, l, s.Prefix+"other")
	denied.Store(true)
	if _, err := l.Acquire(t.Context(), s.Prefix+"k2"); !errors.Is(err, lock.ErrUnavailable) || !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("Acquire = %v, want ErrUnavailable with the reason", err)
	}
	time.Sleep(time.Second) // five turns of a cleanup
	if n := deletes.Load(); n != 0 {
		t.Errorf("%d deletes of a key that was never put", n)
	}
	if err := lease.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
		t.Errorf("Release = %v, want unknown", err)
	}
	denied.Store(false)
	locktest.Release(t, other)
	wait.Until(t, "no key is left", func() bool { return len(etcdLeases(t, c, s.Prefix)) == 0 })
}
