package stock

import (
	"context"

	"lastitem/internal/lock"
	"lastitem/say/text"
)

// globalLock is the lock engine with one key for all products, as a lock around a whole method is. It is as correct as
// handoff, but all products together are only as fast as one product with handoff.
//
//	product 101   A: lock all ── GET 9 ── SET 8 ── order ── release
//	product 202       B: waits, for nothing ····················· lock all ── GET 5 ── SET 4 ── order ── release
var globalLock = Mode{
	Name:   "global-lock",
	Title:  text.Of("One lock for all products: right, and slow"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis, SQL},
	Holds:  holdsAll,
	Claims: renewedLock,
	New: func(d Deps) (Deductor, error) {
		l, err := d.Lockers.handoff()
		return locked{d, oneForAll{l, d.Lockers.Prefix + "lock:global-lock:{all}"}}, err
	},
}

// oneForAll locks the same key for every request. A reset of one product does not delete it, because a request for
// another product may hold it.
type oneForAll struct {
	locker lock.Locker
	key    string
}

func (o oneForAll) Acquire(ctx context.Context, _ string) (lock.Lease, error) {
	return o.locker.Acquire(ctx, o.key)
}
