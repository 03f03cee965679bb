package stock

import (
	"lastitem/internal/lock/sqllock"
	"lastitem/say/text"
)

// sqlUnique is the lock for a service that has a database and nothing else: INSERT a row under a unique index, work,
// DELETE it. It has no expiry: a holder never loses the lock to a rival, and a dead holder's lock is never freed.
//
//	A   INSERT lock row ── SELECT 1 ── UPDATE = 0 ── order ── kill -9
//	B        INSERT: duplicate ── again ── again ── again ··················· forever
var sqlUnique = Mode{
	Name:   "sql-unique",
	Title:  text.Of("A lock row under a unique index, by owner; no expiry"),
	Needs:  []Backend{NeedSQL},
	Stores: []Store{SQL},
	Holds:  holdsWork,
	Claims: map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: ".", Late: ".", Pause: ".", Crash: "X", Failover: "–", Stale: "O",
			Retry: "D", LateWrite: "O"},
	},
	New: func(d Deps) (Deductor, error) {
		l, err := sqllock.NewUnique(d.SQL.DB(), d.Steps)
		return locked{d, l}, err
	},
}
