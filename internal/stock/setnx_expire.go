package stock

import (
	"lastitem/internal/lock/textbook"
	"lastitem/say/text"
)

// setnxExpire is the first repair of setnx: an expiry, by a second command. A holder that dies no longer blocks the
// product for ever, unless it dies between the two. But now the key can expire too early.
//
//	A   SETNX ── kill -9                                                            stuck, as before
//	A   SETNX ── PEXPIRE ── GET 1 ──── (TTL over) ─────────────── SET 0 ── order    oversold, which is new
//	B                                      SETNX ── GET 1 ── SET 0 ── order
var setnxExpire = Mode{
	Name:   "setnx-expire",
	Title:  text.Of("SETNX, then EXPIRE as a second command"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis, SQL},
	Holds:  holdsWork,
	Claims: map[Store]Claims{
		Redis: {Threads: ".", Replicas: ".", Slow: "O", Late: "O", Pause: "O", Crash: "LX", Failover: "OLA", Retry: "D",
			LateWrite: "OL"},
		SQL: {Threads: ".", Replicas: ".", Slow: "O", Late: "O", Pause: "O", Crash: "X", Failover: "O", Stale: "O",
			Retry: "D", LateWrite: "O"},
	},
	New: func(d Deps) (Deductor, error) {
		return locked{d, textbook.NewSetNXExpire(d.Lockers.Client, d.Lockers.TTL, d.Steps)}, nil
	},
}
