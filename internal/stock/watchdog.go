package stock

import (
	"lastitem/internal/lock/textbook"
	"lastitem/say/text"
)

// watchdog is Redisson's lock: reentrant, renewed every third of its TTL for as long as the work takes, with waiters
// woken by a broadcast. Slow work is safe with it. A process that stops as a whole is not: its watchdog stops too.
//
//	A   lock ── GET 1 ── SIGSTOP ··········(TTL over)·················· SIGCONT ── SET 0 ── order
//	B                                  lock ── GET 1 ── SET 0 ── order
var watchdog = Mode{
	Name:   "watchdog",
	Title:  text.Of("Redisson's way: reentrant, renewed by a watchdog, woken by broadcast"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis, SQL},
	Holds:  holdsAll,
	Claims: renewedLock,
	New: func(d Deps) (Deductor, error) {
		return locked{d, textbook.NewWatchdog(d.Lockers.Client, d.Lockers.TTL, d.Lockers.Wakeups, d.Steps)}, nil
	},
}
