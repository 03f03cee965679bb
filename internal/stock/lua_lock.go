package stock

import (
	"lastitem/internal/lock/textbook"
	"lastitem/say/text"
)

// luaLock is the textbook lock: SET NX PX with a random owner, and a script that deletes only the owner's own key. It
// never releases another holder's lock, but it cannot know that its own has expired while it worked.
//
//	A   SET NX ── GET 1 ──────── (TTL over) ──────────────── SET 0 ── order
//	B                                  SET NX ── GET 1 ── SET 0 ── order ── DEL
var luaLock = Mode{
	Name:   "lua-lock",
	Title:  text.Of("SET NX PX with an owner; compare-and-delete in one Lua script"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis, SQL},
	Holds:  holdsLease,
	Claims: expiringLock,
	New: func(d Deps) (Deductor, error) {
		return locked{d, textbook.NewLua(d.Lockers.Client, d.Lockers.TTL, d.Steps)}, nil
	},
}
