package stock

// unsafeSQL is SELECT, check, UPDATE to the computed value: unsafe with a database under it. The order is in the same transaction as the
// UPDATE, which does not help: the read came before it and may be outdated.
//
//	A   SELECT 1 ──────────────── BEGIN ── UPDATE = 0 ── INSERT order ── COMMIT
//	B        SELECT 1 ──────────────── BEGIN ── UPDATE = 0 (waits for A's row) ······ ── INSERT order ── COMMIT
var unsafeSQL = Mode{
	Name:   "unsafe-sql",
	Title:  Text{"SELECT, check, UPDATE to the computed value: a transaction is no lock", "SELECT、判断、UPDATE 成算好的值：事务不是锁"},
	Needs:  []Backend{NeedSQL},
	Stores: []Store{SQL},
	Claims: map[Store]Claims{SQL: {Threads: "O"}},
	New:    func(d Deps) (Deductor, error) { return trusting{d}, nil },
}
