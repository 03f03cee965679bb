package stock

import "lastitem/say/text"

// redlock asks five independent masters, and holds the lock if three grant it soon enough within the TTL. A master that
// dies loses no lock. A master that forgets its grant does, if that grant was part of a bare majority. Redlock does not
// prevent a lease from ending while its holder works: there is no renewal, and independent masters have no common order
// for fencing tokens.
//
//	A   SET NX ×5: 5 yes ── GET 1 ──────── (TTL over) ──────────────────── SET 0 ── order
//	B                                          SET NX ×5 ── GET 1 ── SET 0 ── order ── release ×5
var redlock = Mode{
	Name:   "redlock",
	Title:  text.Of("Redlock: a majority of five independent Redis masters"),
	Needs:  []Backend{NeedRedis, NeedRedlock},
	Stores: []Store{Redis, SQL},
	Holds:  holdsLease,
	// The lock survives the failover of one node only if more than a bare majority granted it. If three of five did, the
	// promoted replica of one of them and the remaining two nodes form a majority for a rival.
	Claims: expiringLock,
	New:    func(d Deps) (Deductor, error) { return locked{d, d.Lockers.Redlock}, nil },
}
