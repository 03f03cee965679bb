package textbook

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// Spin is the [Lua] lock without messages: its waiters poll, with exponential backoff and jitter. It follows Redisson's
// RedissonSpinLock (LockOptions.ExponentialBackOff: from 1 ms, doubling, to 128 ms), which exists because a broadcast
// per release is expensive on a cluster with many short-held locks.
//
// What breaks it: the same as Lua. And it is not fair: the waiter that has waited longest sleeps longest, a newcomer
// tries every millisecond, and the releaser may come back before any of them.
type Spin struct{ lua Lua }

// The bounds between which the sleep doubles.
const (
	spinFirst   = time.Millisecond
	spinLongest = 128 * time.Millisecond
)

// NewSpin returns the lock on c, with the given expiry (at least 10 ms).
func NewSpin(c redis.UniversalClient, ttl time.Duration, steps *step.Stream) *Spin {
	return &Spin{Lua{name: "spin", c: c, ttl: ttl, steps: steps}}
}

// Acquire tries SET NX PX, sleeping 1 ms at first and up to 128 ms later between tries.
func (l *Spin) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return l.lua.poll(ctx, key, backoff(spinFirst, spinLongest))
}

// backoff returns a function of the next sleep, which doubles from first to longest. The second half of each is random
// ("equal jitter" in AWS's "Exponential Backoff And Jitter"), so that losers of one try do not collide again at the
// next.
func backoff(first, longest time.Duration) func() time.Duration {
	next := first
	return func() time.Duration {
		d := next
		next = min(2*next, longest)
		return d/2 + rand.N(d/2+1)
	}
}
