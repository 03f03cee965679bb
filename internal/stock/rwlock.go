package stock

import (
	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/say/text"
)

// rwlock deducts under the write lock, and lets the product be read under the read lock: GET
// /products/{id}?mode=rwlock. Readers share the lock; none of them reads between the count and the order of a
// deduction.
//
//	writer A   lock ── GET 9 ── SET 8 ─────────── order ── release: to B and C
//	plain GET                          8 units, and no order for the ninth
//	reader B               queued ······························· told ── 8 units, and the order
//	reader C                      queued ························ told ── 8 units, and the order
var rwlock = Mode{
	Name:   "rwlock",
	Title:  text.Of("A write lock to deduct, a read lock to read the stock"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis, SQL},
	Holds:  holdsAll,
	Claims: renewedLock,
	New: func(d Deps) (Deductor, error) {
		l, err := d.Lockers.engine(func(e *handoff.Engine) lock.Locker { return e.ReadWrite().Write() })
		return locked{d, l}, err
	},
	Readers: func(d Deps) (lock.Locker, error) {
		return d.Lockers.engine(func(e *handoff.Engine) lock.Locker { return e.ReadWrite().Read() })
	},
}
