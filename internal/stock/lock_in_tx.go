package stock

import (
	"lastitem/internal/lock/textbook"
	"lastitem/say/text"
)

// lockInTx is mutex-in-tx with Redisson's lock instead of the mutex: the most common bug in published code that looks
// safe. The requests of all replicas wait for the lock, but a new holder reads old data, because the transaction of the
// previous holder has not committed yet.
//
//	A   BEGIN ── lock ── SELECT 1 ── UPDATE = 0 ── order ── unlock ───────────────── COMMIT
//	B   BEGIN ── lock: waits ···························· told ── SELECT 1 ── UPDATE (waits for A's row) = 0 ── order ── ...
var lockInTx = Mode{
	Name:   "lock-in-tx",
	Title:  text.Of("A Redis lock inside the transaction: unlocked before COMMIT"),
	Needs:  []Backend{NeedRedis, NeedMySQL},
	Stores: []Store{SQL},
	Holds:  holdsAll,
	Claims: map[Store]Claims{SQL: {Threads: "O"}},
	New: func(d Deps) (Deductor, error) {
		return lockedInTx{d, textbook.NewWatchdog(d.Lockers.Client, d.Lockers.TTL, d.Lockers.Wakeups, d.Steps)}, nil
	},
}
