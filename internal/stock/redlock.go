package stock

// redlock asks five masters that know nothing of each other, and holds the lock when three said yes before much of the TTL was
// gone. A master that dies takes no lock with it. What it does not repair is that a lease can end under its holder: there is
// no renewal, and independent masters have no common order from which to make a fencing token.
//
//	A   SET NX ×5: 5 yes ── GET 1 ──────── (TTL over) ──────────────────── SET 0 ── order
//	B                                          SET NX ×5 ── GET 1 ── SET 0 ── order ── release ×5
var redlock = Mode{
	Name:   "redlock",
	Title:  Text{"Redlock: a majority of five independent Redis masters", "红锁（Redlock）：五个独立的 Redis 主节点，过半数加锁成功才算"},
	Needs:  []Backend{NeedRedis, NeedRedlock},
	Stores: []Store{Redis, SQL},
	Claims: map[Store]Claims{
		// The lock outlives the failover of any one server. The stock in Redis does not: it goes back to what the replica had.
		Redis: {Threads: ".", Replicas: ".", Slow: "O", Late: ".", Pause: "O", Crash: "L", Failover: "LA", Retry: "D"},
		SQL:   {Threads: ".", Replicas: ".", Slow: "O", Late: ".", Pause: "O", Crash: ".", Failover: ".", Retry: "D"},
	},
	New: func(d Deps) (Deductor, error) { return locked{d, "redlock", d.Redlock}, nil },
}
