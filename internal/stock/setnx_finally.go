package stock

import (
	"lastitem/internal/lock/textbook"
	"lastitem/say/text"
)

// setnxFinally moves the DEL into a finally, so that no return path forgets it. A request that did not get the lock
// passes the finally too, and deletes the holder's key.
//
//	A   SETNX 1 ── GET 1 ──────────────────────────────────────── SET 0 ── order ── DEL
//	B                 SETNX 0 ── finally: DEL
//	C                                  SETNX 1 ── GET 1 ── SET 0 ── order ── DEL
var setnxFinally = Mode{
	Name:   "setnx-finally",
	Title:  text.Of("SETNX with the DEL in a finally that losers reach too"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis},
	Holds:  holdsWork,
	Claims: map[Store]Claims{Redis: {Threads: "O"}},
	New: func(d Deps) (Deductor, error) {
		return locked{d, textbook.NewSetNXFinally(d.Lockers.Client, d.Steps)}, nil
	},
}
