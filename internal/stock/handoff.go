package stock

import (
	"errors"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/say/text"
)

// handoffMode is the lock engine: waiters stand in a queue in Redis and send nothing; the script that releases the lock
// makes the first in the queue the owner and notifies its process. Requests of one replica share one place in that
// queue, and pass the lock on among themselves, sixteen in a row at most. The lock is renewed as in watchdog, and
// broken by the same fault: a process that stops.
//
//	replica 1   A: lock ── GET 9 ── SET 8 ── order ── B, without a command: GET 8 ── SET 7 ── order ── release: to C
//	replica 2   C: queued ··································································· told ── GET 7 ── ...
var handoffMode = Mode{
	Name:   "handoff",
	Title:  text.Of("Our lock engine: a queue, ownership handed over by the release"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis, SQL},
	Holds:  holdsAll,
	Claims: renewedLock,
	New: func(d Deps) (Deductor, error) {
		l, err := d.Lockers.handoff()
		return locked{d, l}, err
	},
}

// handoff is the lock of this mode, and of the modes whose lesson is not the lock.
func (l Lockers) handoff() (lock.Locker, error) { return l.engine((*handoff.Engine).Handoff) }

// engine is one of the locks of the engine.
func (l Lockers) engine(pick func(*handoff.Engine) lock.Locker) (lock.Locker, error) {
	if l.Engine == nil {
		return nil, errors.New("no lock engine: Lockers has none")
	}
	return pick(l.Engine), nil
}
