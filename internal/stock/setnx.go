package stock

import (
	"lastitem/internal/lock/textbook"
	"lastitem/say/text"
)

// setnx is the first distributed lock of every write-up: SETNX, work, DEL, losers sleep 50 ms. Naive on purpose:
// without an expiry, one crash of a holder blocks every later sale.
//
//	replica 1   SETNX ── GET ── SET ── kill -9
//	replica 2   SETNX no ── sleep ── SETNX no ── sleep ── ...       stuck
var setnx = Mode{
	Name:   "setnx",
	Title:  text.Of("SETNX, work, DEL: no expiry"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis, SQL},
	Holds:  holdsWork,
	Claims: map[Store]Claims{
		Redis: {Threads: ".", Replicas: ".", Slow: ".", Late: ".", Pause: ".", Crash: "LX", Failover: "OLXA", Retry: "D",
			LateWrite: "OL"},
		SQL: {Threads: ".", Replicas: ".", Slow: ".", Late: ".", Pause: ".", Crash: "X", Failover: "OX", Stale: "O",
			Retry: "D", LateWrite: "O"},
	},
	New: func(d Deps) (Deductor, error) {
		return locked{d, textbook.NewSetNX(d.Lockers.Client, d.Steps)}, nil
	},
}
