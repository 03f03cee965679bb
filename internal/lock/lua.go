package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/step"
)

//go:embed lua/release.lua
var luaReleaseSource string

var luaRelease = redis.NewScript(luaReleaseSource)

// Lua is the textbook lock: SET NX PX with a random owner value, and a script that deletes the key only if it is still
// the owner's. It is the pattern that Redis documents under SET.
//
// What breaks it: work that takes longer than the TTL. The key expires, a rival enters, and both write.
type Lua struct {
	name  string
	c     redis.UniversalClient
	ttl   time.Duration
	steps *step.Stream
}

// NewLua returns the lock on c, with the given expiry (at least 10 ms).
func NewLua(c redis.UniversalClient, ttl time.Duration, steps *step.Stream) *Lua {
	return &Lua{"lua", c, ttl, steps}
}

// luaRetry is the longest sleep between two tries; each sleep is random, so that losers do not march in step.
const luaRetry = 50 * time.Millisecond

// Acquire tries SET NX PX, sleeping 1 to 50 ms between tries.
func (l *Lua) Acquire(ctx context.Context, key string) (Lease, error) {
	return l.poll(ctx, key, func() time.Duration { return time.Millisecond + rand.N(luaRetry) })
}

// poll tries until it has the lock, sleeping between tries as long as sleep says.
func (l *Lua) poll(ctx context.Context, key string, sleep func() time.Duration) (Lease, error) {
	l.steps.At(ctx, step.Waiting, key)
	owner := newOwner()
	for {
		sent := time.Now()
		ok, err := l.try(ctx, key, owner)
		if err != nil {
			return nil, err
		}
		if ok {
			l.steps.At(ctx, step.Locked, key)
			return &luaLease{l: l, key: key, owner: owner, expiry: newExpiry(ctx, sent, l.ttl)}, nil
		}
		if err := pause(ctx, sleep(), nil); err != nil {
			return nil, err
		}
	}
}

// try sends one SET NX PX. When its answer is lost the key may hold our owner value all the same: it is taken back.
func (l *Lua) try(ctx context.Context, key, owner string) (bool, error) {
	err := l.c.SetArgs(ctx, key, owner, redis.SetArgs{Mode: "NX", TTL: l.ttl}).Err()
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, redis.Nil):
		return false, nil
	}
	if !notSent(err) {
		back, cancel := detached(ctx)
		defer cancel()
		luaRelease.Run(back, l.c, []string{key}, owner) // where this fails too, the key expires
	}
	if ended(ctx) {
		return false, gaveUp(ctx)
	}
	return false, fmt.Errorf("%w: %s: %w", ErrUnavailable, l.name, err)
}

type luaLease struct {
	l          *Lua
	key, owner string
	expiry     *expiry
	done       settled
	sent       bool // a release was sent whose answer was lost
}

// Context ends with ErrLost shortly before the key can expire.
func (s *luaLease) Context() context.Context { return s.expiry.ctx }

// Fence is 0: this lock issues no fencing token.
func (s *luaLease) Fence() uint64 { return 0 }

// Release deletes the key if it is still ours. ErrLost when it is not.
func (s *luaLease) Release(ctx context.Context) error {
	s.expiry.stop()
	return s.done.settle(func() error {
		s.l.steps.At(ctx, step.Releasing, s.key)
		ctx, cancel := detached(ctx)
		defer cancel()
		n, err := luaRelease.Run(ctx, s.l.c, []string{s.key}, s.owner).Int()
		if err != nil {
			s.sent = true
			return fmt.Errorf("lock: %s: release unknown: %w", s.l.name, err)
		}
		s.l.steps.At(ctx, step.Released, s.key)
		if n == 0 && !s.sent { // after a lost answer, "gone" may be our own doing
			return ErrLost
		}
		return nil
	})
}
