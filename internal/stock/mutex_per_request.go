package stock

import (
	"context"

	"lastitem/internal/lock"
	"lastitem/internal/step"
	"lastitem/say/text"
)

// mutexPerRequest locks a mutex that was made for the request, as the field of a prototype-scoped bean is. Every
// request gets its lock at once, and none excludes another.
//
//	A   new mutex ── lock ── GET 1 ───────── SET 0 ── order ── unlock
//	B       new mutex ── lock ── GET 1 ───────── SET 0 ── order ── unlock       another mutex
var mutexPerRequest = Mode{
	Name:   "mutex-per-request",
	Title:  text.Of("A new mutex for each request: every request locks its own"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis},
	Holds:  holdsWork,
	Claims: map[Store]Claims{Redis: {Threads: "O"}},
	New: func(d Deps) (Deductor, error) {
		return locked{d, perRequest{d.Steps}}, nil
	},
}

// perRequest makes a mutex for each Acquire.
type perRequest struct{ steps *step.Stream }

// Acquire never waits: the lock did not exist before, so nobody else can hold it.
func (p perRequest) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return lock.NewMutex(p.steps).Acquire(ctx, key)
}
