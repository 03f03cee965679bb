package stock

import (
	"lastitem/internal/lock/textbook"
)

// setnxFinally moves the DEL into a finally, so that no way out of the work forgets it. The way out of those who did not get
// the lock leads through it too, and deletes the key of the one who did.
//
//	A   SETNX 1 ── GET 1 ──────────────────────────────────────── SET 0 ── order ── DEL
//	B                 SETNX 0 ── finally: DEL
//	C                                  SETNX 1 ── GET 1 ── SET 0 ── order ── DEL
var setnxFinally = Mode{
	Name:   "setnx-finally",
	Title:  Text{"SETNX with the DEL in a finally that losers reach too", "SETNX，DEL 写在 finally 里：没抢到的也会执行"},
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis},
	Holds:  holdsWork,
	Claims: map[Store]Claims{Redis: {Threads: "O"}},
	New: func(d Deps) (Deductor, error) {
		return locked{d, textbook.NewSetNXFinally(d.Lockers.Client, d.Steps)}, nil
	},
}
