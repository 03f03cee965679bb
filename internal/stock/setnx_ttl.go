package stock

import (
	"lastitem/internal/lock/textbook"
	"lastitem/say/text"
)

// setnxTTL takes key and expiry in one command, so that no death leaves a key forever. Its DEL does not check the
// owner: a late holder deletes the lock of its rival, and a third request enters while the rival is inside.
//
//	A   SET NX PX ── work done ──── (TTL over) ──────── DEL
//	B                                   SET NX PX ── GET 1 ───────────────────────── SET 0 ── order
//	C                                                      SET NX PX ── GET 1 ── SET 0 ── order
var setnxTTL = Mode{
	Name:   "setnx-ttl",
	Title:  text.Of("SET NX PX in one command; DEL without asking whose"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis, SQL},
	Holds:  holdsWork,
	Claims: carelessRelease,
	New: func(d Deps) (Deductor, error) {
		return locked{d, textbook.NewSetNXTTL(d.Lockers.Client, d.Lockers.TTL, d.Steps)}, nil
	},
}
