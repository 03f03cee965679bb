package stock

import (
	"lastitem/internal/lock/handoff"
	"lastitem/say/text"
)

// fair is the lock engine without the shortcut of handoff: every request queues in Redis, and the requests of all
// replicas are served in the order of their arrival. That order costs a round trip per request.
//
//	replica 1   A: lock ── GET 9 ── SET 8 ── order ── release: to B              C: queued ··············· told ── GET 7 ── ...
//	replica 2         B: queued ·························· told ── GET 8 ── SET 7 ── order ── release: to C
var fair = Mode{
	Name:   "fair",
	Title:  text.Of("The lock engine, strictly first come first served"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis, SQL},
	Holds:  holdsAll,
	Claims: renewedLock,
	New: func(d Deps) (Deductor, error) {
		l, err := d.Lockers.engine((*handoff.Engine).Fair)
		return locked{d, l}, err
	},
}
