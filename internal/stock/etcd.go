package stock

import "lastitem/say/text"

// etcd puts a key under a lease that its process keeps alive; the key with the lowest creation revision holds the lock,
// and each of the others watches the one right before it. The revision is a fencing token that consensus counts. This
// mode only writes it on the order: the stock is in another store, which does not check it. The mode etcd-txn checks
// it.
//
//	A   put (rev 70) ── GET 1 ── SIGSTOP ··· (lease expired) ········ SIGCONT ── SET 0 ── order, fence 70
//	B       put (rev 71) ── watch 70 ····· 70 deleted ── GET 1 ── SET 0 ── order, fence 71
var etcd = Mode{
	Name:   "etcd",
	Title:  text.Of("etcd: a key under a lease, the lowest creation revision holds the lock"),
	Needs:  []Backend{NeedRedis, NeedEtcd},
	Stores: []Store{Redis, SQL},
	Holds:  holdsWork,
	Claims: sessionClaims,
	New:    func(d Deps) (Deductor, error) { return locked{d, d.Lockers.Etcd}, nil },
}
