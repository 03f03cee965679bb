package stock

import "lastitem/say/text"

// zookeeper puts an ephemeral sequential node below the lock's node: the lowest number holds the lock, and each of the
// others watches the one right before it, so that a release wakes one waiter instead of all. The nodes live as long as
// the session of their process, which the client keeps alive with pings; the ensemble survives the loss of a minority
// without losing a node.
//
//	A   create -0000000007 ── GET 1 ── SIGSTOP ··· (session expired) ········ SIGCONT ── SET 0 ── order
//	B       create -0000000008 ── watch 7 ········ 7 deleted ── GET 1 ── SET 0 ── order
var zookeeper = Mode{
	Name:   "zookeeper",
	Title:  text.Of("ZooKeeper: ephemeral sequential nodes, each waiter watches its predecessor"),
	Needs:  []Backend{NeedRedis, NeedZooKeeper},
	Stores: []Store{Redis, SQL},
	Holds:  holdsWork,
	Claims: sessionClaims,
	New:    func(d Deps) (Deductor, error) { return locked{d, d.Lockers.ZooKeeper}, nil },
}

// sessionClaims are the claims of a lock that a consensus store keeps as long as a session is alive. No failover of
// that store loses the lock. But a failover of the Redis that holds the stock loses units and orders: the count may be
// lost with the old master while the order, which is sent after it, reaches the promoted one.
var sessionClaims = map[Store]Claims{
	Redis: renewedLock[Redis],
	SQL: {Threads: ".", Replicas: ".", Slow: ".", Late: ".", Pause: "O", Crash: ".", Failover: ".", Stale: "O",
		Retry: "D", LateWrite: "O"},
}
