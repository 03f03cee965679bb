package coord_test

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/lock"
	"lastitem/internal/lock/coord"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// store is a server whose locks are keys of sessions, and whose calls a test can meddle with.
type store struct {
	server func(testing.TB) *testenv.Coordination
	call   string // that acquires, and that releases
	// lock makes a process whose sessions have a TTL and whose calls pass through f.
	lock func(t *testing.T, s *testenv.Coordination, ttl time.Duration, f meddle) lock.Locker
	// keys returns what counts the keys below a prefix.
	keys func(t *testing.T, s *testenv.Coordination) func(prefix string) int
	// end ends the session that holds the key.
	end func(t *testing.T, s *testenv.Coordination, key string)
	// write writes only for the owner of the lease.
	write func(t *testing.T, s *testenv.Coordination, l lock.Lease) bool
}

var stores = map[string]store{
	"etcd": {
		server: testenv.Etcd, call: "Txn",
		lock: func(t *testing.T, s *testenv.Coordination, ttl time.Duration, f meddle) lock.Locker {
			return newEtcd(t, meddledEtcd(t, s, f), ttl, nil)
		},
		keys: func(t *testing.T, s *testenv.Coordination) func(string) int {
			c := s.EtcdClient(t)
			return func(prefix string) int { return len(etcdLeases(t, c, prefix)) }
		},
		end: func(t *testing.T, s *testenv.Coordination, key string) {
			c := s.EtcdClient(t)
			_, err := c.Revoke(t.Context(), etcdLeases(t, c, key)[0])
			testkit.Must(t, err)
		},
		write: func(t *testing.T, s *testenv.Coordination, l lock.Lease) bool {
			res, err := s.EtcdClient(t).Txn(t.Context()).If(l.(*coord.EtcdLease).IsOwner()).Then(clientv3.OpPut(s.Prefix+"stock",
				"4999")).Commit()
			testkit.Must(t, err)
			return res.Succeeded
		},
	},
	"consul": {
		server: testenv.Consul, call: "txn",
		lock: func(t *testing.T, s *testenv.Coordination, ttl time.Duration, f meddle) lock.Locker {
			return newConsul(t, meddledConsul(t, s, f), coord.ConsulOptions{LockDelay: time.Millisecond, TTL: ttl}, nil)
		},
		keys: func(t *testing.T, s *testenv.Coordination) func(string) int {
			c := s.ConsulClient(t)
			return func(prefix string) int {
				keys, _, err := c.KV().Keys(prefix, "", nil)
				testkit.Must(t, err)
				return len(keys)
			}
		},
		end: func(t *testing.T, s *testenv.Coordination, key string) { destroySession(t, s.ConsulClient(t), key) },
		write: func(t *testing.T, s *testenv.Coordination, l lock.Lease) bool {
			ok, _, _, err := s.ConsulClient(t).Txn().Txn(api.TxnOps{
				{KV: l.(*coord.ConsulLease).IsOwner()},
				{KV: &api.KVTxnOp{Verb: api.KVSet, Key: s.Prefix + "stock", Value: []byte("4999")}},
			}, nil)
			testkit.Must(t, err)
			return ok
		},
	},
}

// onStores runs a test on each store, with a server, a key, and a process that nobody meddles with.
func onStores(t *testing.T, test func(t *testing.T, of store, s *testenv.Coordination, key string, near lock.Locker)) {
	testkit.Each(t, stores, func(t *testing.T, of store) {
		s := of.server(t)
		test(t, of, s, s.Prefix+"k", of.lock(t, s, time.Minute, straight))
	})
}

// straight meddles with nothing.
func straight(ctx context.Context, _ string, send func(context.Context) error) error {
	return send(ctx)
}

// A stale holder's write is refused by the server, and so is its stale release; the owner's goes through.
func TestIsOwner(t *testing.T) {
	onStores(t, func(t *testing.T, of store, s *testenv.Coordination, key string, near lock.Locker) {
		first := locktest.Obtain(t, near, key)
		if !of.write(t, s, first) {
			t.Error("the owner's write was refused")
		}
		of.end(t, s, key)
		second := locktest.Obtain(t, of.lock(t, s, time.Minute, straight), key)
		if of.write(t, s, first) {
			t.Error("the write of a holder whose session is gone went through")
		}
		locktest.ReleaseLost(t, first, "stale Release")
		if !of.write(t, s, second) {
			t.Error("the second owner's write was refused")
		}
		locktest.Release(t, second)
		if n := of.keys(t, s)(key); n != 0 {
			t.Errorf("%d keys are left behind", n)
		}
	})
}

func TestFencesRise(t *testing.T) {
	onStores(t, func(t *testing.T, of store, s *testenv.Coordination, key string, near lock.Locker) {
		locktest.FencesRise(t, key, near, of.lock(t, s, time.Minute, straight))
	})
}

// The answer to the acquire is lost: the key is deleted, although its session stays alive. The answer to the release is
// lost: repeating it returns nil.
func TestLostAnswers(t *testing.T) {
	onStores(t, func(t *testing.T, of store, s *testenv.Coordination, key string, near lock.Locker) {
		lost := &locktest.LostAnswers{Name: of.call}
		l, keys := of.lock(t, s, time.Minute, losingTo(lost)), of.keys(t, s)
		locktest.Warm(t, l, key)
		lost.Left.Store(1)
		locktest.WantUnavailable(t.Context(), t, l, key, "Acquire")
		testkit.Until(t, "no key is left", func() bool { return keys(s.Prefix) == 0 })
		lease := locktest.Obtain(t, l, key)
		lost.Left.Store(1)
		locktest.ReleaseUnknown(t, lease, "Release")
		locktest.Release(t, lease)
		locktest.Warm(t, near, key)
	})
}

// The acquire arrives after its caller has left: the delete of the key must come after it, or the session holds the key
// without a holder.
func TestLateAcquire(t *testing.T) {
	onStores(t, func(t *testing.T, of store, s *testenv.Coordination, key string, near lock.Locker) {
		late, keys := newDetained(of.call), of.keys(t, s)
		l := of.lock(t, s, time.Minute, late.meddle)
		locktest.Warm(t, l, key)
		late.leavesTooEarly(t, l, key)
		testkit.Until(t, "no key is left", func() bool { return keys(s.Prefix) == 0 })
		locktest.Warm(t, near, key)
		locktest.Warm(t, l, key)
	})
}

// The acquire arrives after its process, which is still alive, has undone it: the key must not stay for as long as the
// process lives.
func TestAcquireAfterCleanup(t *testing.T) {
	for name, holds := range map[string]bool{"idle process": false, "process that holds another lock": true} {
		t.Run(name, func(t *testing.T) {
			onStores(t, func(t *testing.T, of store, s *testenv.Coordination, key string, near lock.Locker) {
				late := newDetained(of.call)
				l := of.lock(t, s, 10*time.Second, late.meddle)
				locktest.Warm(t, l, key)
				if holds {
					other := locktest.Obtain(t, l, s.Prefix+"other")
					defer locktest.Release(t, other)
				}
				late.arrivesAfterCleanup(t, l, key)
				locktest.Warm(t, near, key)
				locktest.Warm(t, l, key)
			})
		})
	}
}

// If the server does not answer, neither the caller nor its cleanup may hang forever (etcd issue 18082). What the
// attempts have left is deleted once the server can be reached again, although the session stays alive.
func TestUnreachable(t *testing.T) {
	testenv.Slow(t, "waits for the bound of a call")
	onStores(t, func(t *testing.T, of store, s *testenv.Coordination, key string, near lock.Locker) {
		far, r := relayed(t, s)
		l := of.lock(t, far, time.Minute, straight)
		locktest.Warm(t, l, key)
		lease := locktest.Obtain(t, l, s.Prefix+"held")
		r.Cut.Store(true)
		start := time.Now()
		locktest.WantUnavailable(t.Context(), t, l, key, "Acquire")
		if took := time.Since(start); took > locktest.Soon {
			t.Errorf("Acquire took %s", took)
		}
		locktest.ReleaseUnknown(t, lease, "Release")
		r.Heal()
		locktest.Warm(t, near, key)
		locktest.Warm(t, near, s.Prefix+"held") // released in the background
	})
}

// relayed returns a server that is reached through a relay.
func relayed(t *testing.T, s *testenv.Coordination) (far *testenv.Coordination, r *locktest.Relay) {
	t.Helper()
	r = locktest.NewRelay(t, s.Addr)
	through := *s
	through.Addr = r.Addr().String()
	return &through, r
}
