package stock

import (
	"lastitem/internal/lock"
	"lastitem/say/text"
)

// mutex is readCheckWrite under a process-local mutex. One replica: exact. Three: three mutexes, and they oversell.
//
//	replica 1   lock ── GET 1 ── SET 0 ── order ── unlock
//	replica 2   lock ────── GET 1 ── SET 0 ── order ── unlock       its own mutex, its own "first"
var mutex = Mode{
	Name:   "mutex",
	Title:  text.Of("The same under a process-local mutex"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis, SQL},
	Holds:  holdsWork,
	Claims: map[Store]Claims{
		Redis: {Threads: ".", Replicas: "O"},
		SQL:   {Threads: ".", Replicas: "O"},
	},
	New: func(d Deps) (Deductor, error) {
		return locked{d, lock.NewMutex(d.Steps)}, nil
	},
}
