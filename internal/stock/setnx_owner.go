package stock

import (
	"lastitem/internal/lock/textbook"
	"lastitem/say/text"
)

// setnxOwner stores the owner in the key, and compares before it deletes. The comparison and the DEL are two commands,
// and the key may change hands between them.
//
//	A   SET NX PX a ── work done ── GET a: mine ──── (TTL over) ──────── DEL
//	B                                                    SET NX PX b ── GET 1 ───────────────────────── SET 0 ── order
//	C                                                                       SET NX PX c ── GET 1 ── SET 0 ── order
var setnxOwner = Mode{
	Name:   "setnx-owner",
	Title:  text.Of("An owner value; GET, compare, DEL as separate commands"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis, SQL},
	Holds:  holdsWork,
	Claims: carelessRelease,
	New: func(d Deps) (Deductor, error) {
		return locked{d, textbook.NewSetNXOwner(d.Lockers.Client, d.Lockers.TTL, d.Steps)}, nil
	},
}
