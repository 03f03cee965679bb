package stock_test

import (
	"testing"

	"github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/contract/ledger"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
)

// sessionEnds ends A's session at the server, as happens when A is paused for longer than its TTL. A is not told.
var sessionEnds = map[string]func(t *testing.T, a *stocktest.Replica){
	"zookeeper": func(_ *testing.T, a *stocktest.Replica) {
		a.Set.ZooKeeper.Close()
	},
	"etcd": revokeLease,
	"consul": func(t *testing.T, a *stocktest.Replica) {
		t.Helper()
		kv, _, err := a.Set.Consul.KV().List(a.Backends.Lockers.Prefix+"lock:",
			(&api.QueryOptions{RequireConsistent: true}).WithContext(t.Context()))
		if err != nil || len(kv) != 1 || kv[0].Session == "" {
			t.Fatalf("the locks in Consul are %v, %v, want one that is held", kv, err)
		}
		_, err = a.Set.Consul.Session().Destroy(kv[0].Session, nil)
		testkit.Mustf(t, err, "destroy the session")
	},
}

func revokeLease(t *testing.T, a *stocktest.Replica) {
	t.Helper()
	res, err := a.Set.Etcd.Get(t.Context(), a.Backends.Lockers.Prefix+"lock:", clientv3.WithPrefix())
	if err != nil || len(res.Kvs) != 1 {
		t.Fatalf("the locks in etcd are %v, %v, want one", res, err)
	}
	_, err = a.Set.Etcd.Revoke(t.Context(), clientv3.LeaseID(res.Kvs[0].Lease))
	testkit.Mustf(t, err, "revoke the lease")
}

// overtaken has A stop after its read with the lock held, ends A's lock, and lets B deduct one unit.
func overtaken(t *testing.T, h *stocktest.Harness, mode string, s stock.Store, product int64, end func()) (first held) {
	t.Helper()
	a, b := h.Replicas[0], h.Replicas[1]
	first = hold(t, a, step.Read, mode, s, product, "a")
	b.Refuse(t, stock.ErrLockBusy, mode, s, product, 1, "b")
	end()
	req := stocktest.Request(product, 1, "b")
	req.Store, req.Wait = s, stocktest.Patience
	_, err := b.Shop.Deduct(t.Context(), mode, req)
	testkit.Mustf(t, err, "B's Deduct() once A's lock has ended")
	return first
}

// A holder whose session has ended sells a unit that its rival has sold: consensus does not protect a write to another
// store.
func TestSessionEndedSellsTwice(t *testing.T) {
	t.Parallel()
	for mode, end := range sessionEnds {
		for _, s := range []stock.Store{stock.Redis, stock.SQL} {
			t.Run(mode+"/"+string(s), func(t *testing.T) {
				t.Parallel()
				h := stocktest.Open(t, stocktest.Embedded(t).WithServices(t), 2, stock.Modes())
				product := h.Product(t, 1, 0)
				first := overtaken(t, h, mode, s, product, func() { end(t, h.Replicas[0]) })
				first.sells(t)
				h.WantBooks(t, product, s, soldTwice)
			})
		}
	}
}

// Redlock outlives the loss of the lock on two of five nodes, and not on three: if only three granted it, it is lost
// when one of these fails over to a replica that does not have the key. That is what the mode claims for failover.
func TestRedlockMajorityForgotSellsTwice(t *testing.T) {
	t.Parallel()
	env, _ := stocktest.Embedded(t).WithRedlock(t)
	h := stocktest.Open(t, env, 2, stock.Modes())
	a, b := h.Replicas[0], h.Replicas[1]
	for _, s := range []stock.Store{stock.Redis, stock.SQL} {
		product := h.Product(t, 1, 0)
		first := overtaken(t, h, "redlock", s, product, func() {
			everywhere(t, a)
			forget(t, a, 0, 1)
			b.Refuse(t, stock.ErrLockBusy, "redlock", s, product, 1, "b")
			forget(t, a, 2)
		})
		first.sells(t)
		h.WantBooks(t, product, s, soldTwice)
	}
}

// everywhere puts the lock on the nodes that were too slow to be among its majority: on a busy machine one may be.
func everywhere(t *testing.T, r *stocktest.Replica) {
	t.Helper()
	key, owner := "", ""
	for _, n := range r.Set.Redlock {
		keys, err := n.Client.Keys(t.Context(), r.Backends.Lockers.Prefix+"lock:redlock:*").Result()
		testkit.Mustf(t, err, "%s: KEYS", n.Name)
		if len(keys) == 1 {
			key, owner = keys[0], n.Client.Get(t.Context(), keys[0]).Val()
		}
	}
	for _, n := range r.Set.Redlock {
		testkit.Mustf(t, n.Client.SetNX(t.Context(), key, owner, r.Backends.Lockers.TTL).Err(), "%s: SET NX", n.Name)
	}
}

// forget deletes the lock on some nodes, as an expiry or a restart without data would.
func forget(t *testing.T, r *stocktest.Replica, nodes ...int) {
	t.Helper()
	for _, i := range nodes {
		c := r.Set.Redlock[i].Client
		keys, err := c.Keys(t.Context(), r.Backends.Lockers.Prefix+"lock:redlock:*").Result()
		if err != nil || len(keys) != 1 {
			t.Fatalf("node %d holds %v, %v, want one lock", i, keys, err)
		}
		testkit.Mustf(t, c.Del(t.Context(), keys...).Err(), "node %d: DEL", i)
	}
}

// A reset deletes a dead holder's keys on the Redlock nodes that can be reached.
func TestResetFreesRedlock(t *testing.T) {
	t.Parallel()
	env, nodes := stocktest.Embedded(t).WithRedlock(t)
	h := stocktest.Open(t, env, 2, stock.Modes())
	a, b := h.Replicas[0], h.Replicas[1]
	product := h.Product(t, 1, 0)
	held := hold(t, a, step.Locked, "redlock", stock.Redis, product, "a")
	nodes[4].Kill()
	err := b.SetStock(t.Context(), product, 5, ledger.Rules{})
	testkit.Is(t, err, nil, "SetStock() with one node that cannot be reached")
	b.Sell(t, "redlock", stock.Redis, product, 1, "b")
	held.sells(t)
}

// The same schedule in which etcd sells twice: the transaction asks whose the lock is, and the stale write is refused.
func TestEtcdTxnRefusesStaleWrite(t *testing.T) {
	t.Parallel()
	h := stocktest.Open(t, stocktest.Embedded(t).WithServices(t), 2, stock.Modes())
	a := h.Replicas[0]
	product := h.Product(t, 5, 0)
	first := overtaken(t, h, "etcd-txn", stock.Etcd, product, func() { revokeLease(t, a) })
	testkit.IsError(t, first.goOn(t), stock.ErrContended, "A's Deduct()")
	h.WantBooks(t, product, stock.Etcd, stocktest.Books{Initial: 5, Stock: 4, Sold: 1, Orders: 1})
}
