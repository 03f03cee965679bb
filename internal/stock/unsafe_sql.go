package stock

import "lastitem/say/text"

// unsafeSQL is SELECT, check, UPDATE to the computed value: unsafe with a database under it. The order is in the same
// transaction as the UPDATE, which does not help: the read came before it and may be outdated.
//
//	A   SELECT 1 ──────────────── BEGIN ── UPDATE = 0 ── INSERT order ── COMMIT
//	B        SELECT 1 ──────────────── BEGIN ── UPDATE = 0 (waits for A's row) ······ ── INSERT order ── COMMIT
var unsafeSQL = Mode{
	Name:   "unsafe-sql",
	Title:  text.Of("SELECT, check, UPDATE to the computed value: a transaction is no lock"),
	Needs:  []Backend{NeedSQL},
	Stores: []Store{SQL},
	Claims: map[Store]Claims{SQL: {Threads: "O"}},
	New:    func(d Deps) (Deductor, error) { return trusting{d}, nil },
}
