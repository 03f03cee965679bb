package stock

import (
	"lastitem/internal/lock/textbook"
)

// lockInTx is mutex-in-tx with Redisson's lock in the place of the mutex: the commonest bug of published code that is called
// safe. Over however many replicas, everybody waits for the lock; but a new holder reads the data from before the last
// holder, whose transaction has not committed yet.
//
//	A   BEGIN ── lock ── SELECT 1 ── UPDATE = 0 ── order ── unlock ───────────────── COMMIT
//	B   BEGIN ── lock: waits ···························· told ── SELECT 1 ── UPDATE (waits for A's row) = 0 ── order ── ...
var lockInTx = Mode{
	Name:   "lock-in-tx",
	Title:  Text{"A Redis lock inside the transaction: unlocked before COMMIT", "分布式锁写在 @Transactional 里面：先解锁，后提交"},
	Needs:  []Backend{NeedRedis, NeedMySQL},
	Stores: []Store{SQL},
	Holds:  holdsAll,
	Claims: map[Store]Claims{SQL: {Threads: "O"}},
	New: func(d Deps) (Deductor, error) {
		return lockedInTx{d, textbook.NewWatchdog(d.Lockers.Client, d.Lockers.TTL, d.Lockers.Wakeups, d.Steps)}, nil
	},
}
