package stock

import "lastitem/say/text"

// consul gives a key to one session at a time. A session that is not renewed ends, and then nobody can acquire its keys
// during the lock-delay. So a holder that is merely slow learns of the loss before a rival enters. That narrows the
// window of a stale write but does not close it: a process that stops for longer still writes.
//
//	A   acquire (index 70) ── GET 1 ── SIGSTOP ··· (session over, lock-delay over) ········ SIGCONT ── SET 0 ── order
//	B       blocking query ·············································· acquire (index 90) ── GET 1 ── SET 0 ── order
var consul = Mode{
	Name:   "consul",
	Title:  text.Of("Consul: a key held by a session, shut for the lock-delay after its end"),
	Needs:  []Backend{NeedRedis, NeedConsul},
	Stores: []Store{Redis, SQL},
	Holds:  holdsWork,
	Claims: sessionClaims,
	New:    func(d Deps) (Deductor, error) { return locked{d, d.Lockers.Consul}, nil },
}
