package textbook

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

//go:embed lua/release.lua
var luaReleaseSource string

//go:embed lua/fenced_acquire.lua
var luaFencedAcquireSource string

var (
	luaRelease       = redis.NewScript(luaReleaseSource)
	luaFencedAcquire = redis.NewScript(luaFencedAcquireSource)
)

// Lua is the textbook lock: SET NX PX with a random owner value, and a script that deletes the key only if it still has
// the owner's value. It is the pattern that Redis documents under SET.
//
// What breaks it: work that takes longer than the TTL. The key expires, a rival enters, and both write.
type Lua struct {
	name   string
	c      redis.UniversalClient
	ttl    time.Duration
	steps  *step.Stream
	fenced bool
}

// NewLua returns the lock on c, with the given expiry (at least 10 ms).
func NewLua(c redis.UniversalClient, ttl time.Duration, steps *step.Stream) *Lua {
	return &Lua{name: "lua", c: c, ttl: ttl, steps: steps}
}

// NewLuaFenced returns the same lock with a fencing token: the script that takes the key also increments a counter
// beside it, which is named like the Fence of [handoff.Keys] and never expires. It is the lock service of Kleppmann's
// "How to do distributed locking" (2016), and, like that one, it does not renew.
//
// What breaks it: the same as [NewLua], unless the data checks the token. And a Redis that loses its counter, or falls
// back to older data, issues tokens twice.
func NewLuaFenced(c redis.UniversalClient, ttl time.Duration, steps *step.Stream) *Lua {
	return &Lua{name: "lua-fenced", c: c, ttl: ttl, steps: steps, fenced: true}
}

// leastTTL is the shortest TTL of a lock of this package.
const leastTTL = 10 * time.Millisecond

// luaRetry is the longest sleep between two tries; each sleep is random, so that losers do not retry at the same time.
const luaRetry = 50 * time.Millisecond

// Acquire tries SET NX PX, sleeping 1 to 50 ms between tries.
func (l *Lua) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return l.poll(ctx, key, func() time.Duration { return time.Millisecond + rand.N(luaRetry) })
}

// poll tries until it has the lock, sleeping between tries as long as sleep says.
func (l *Lua) poll(ctx context.Context, key string, sleep func() time.Duration) (lock.Lease, error) {
	ctx = lock.BeginWait(ctx)
	l, err := l.leased(ctx)
	if err != nil {
		return nil, err
	}
	l.steps.At(ctx, step.Waiting, key)
	owner := lock.NewOwner()
	for {
		sent := time.Now()
		ok, fence, err := l.try(ctx, key, owner)
		if err != nil {
			return nil, err
		}
		if ok {
			l.steps.At(ctx, step.Locked, key)
			return &luaLease{l: l, key: key, owner: owner, fence: fence, expiry: lock.NewExpiry(ctx, sent, l.ttl)}, nil
		}
		// a late grant is being undone, perhaps still by a delete on its way: it must not delete the next one
		if lock.TooLate(sent, l.ttl) {
			owner = lock.NewOwner()
		}
		if err := lock.Pause(ctx, sleep(), nil); err != nil {
			return nil, err
		}
	}
}

// leased returns the lock with the TTL for an Acquire under ctx.
func (l *Lua) leased(ctx context.Context) (*Lua, error) {
	ttl, err := lock.TTL(ctx, l.name, l.ttl, leastTTL)
	if err != nil || ttl == l.ttl {
		return l, err
	}
	own := *l
	own.ttl = ttl
	return &own, nil
}

// try sends one SET NX PX. If the answer is lost, or arrives after the TTL, the key may still hold our owner value, so
// try deletes it.
func (l *Lua) try(ctx context.Context, key, owner string) (ok bool, fence uint64, err error) {
	sent := time.Now()
	if l.fenced {
		fence, err = luaFencedAcquire.Run(ctx, l.c, []string{key, lock.BesideKey(key, "fence")}, owner,
			l.ttl.Milliseconds()).Uint64()
	} else {
		err = l.c.SetArgs(ctx, key, owner, redis.SetArgs{Mode: "NX", TTL: l.ttl}).Err()
	}
	late := err == nil && lock.TooLate(sent, l.ttl)
	switch {
	case err == nil && !late:
		return true, fence, nil
	case errors.Is(err, redis.Nil):
		return false, 0, nil
	}
	if !notSent(err) {
		back, cancel := lock.Detached(ctx)
		defer cancel()
		luaRelease.Run(back, l.c, []string{key}, owner) // if this fails too, the key expires
	}
	switch {
	case late:
		return false, 0, nil
	case lock.Ended(ctx):
		return false, 0, lock.GaveUp(ctx)
	}
	return false, 0, fmt.Errorf("%w: %s: %w", lock.ErrUnavailable, l.name, err)
}

// Holds asks the server whether its key is still that of a lease of this lock. The answer is out of date when it
// arrives: an action based on it may come too late.
func (l *Lua) Holds(ctx context.Context, lease lock.Lease) (bool, error) {
	s, ok := lease.(*luaLease)
	if !ok {
		return false, nil
	}
	owner, err := l.c.Get(ctx, s.key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, fmt.Errorf("%w: %s: %w", lock.ErrUnavailable, l.name, err)
	}
	return owner == s.owner, nil
}

type luaLease struct {
	l          *Lua
	key, owner string
	fence      uint64
	expiry     *lock.Expiry
	done       lock.ReleaseOnce
	sent       bool // a release was sent whose answer was lost
}

// Context ends with ErrLost shortly before the key can expire.
func (s *luaLease) Context() context.Context { return s.expiry.Context() }

// Fence is the token of [NewLuaFenced], else 0: the lock issues none.
func (s *luaLease) Fence() uint64 { return s.fence }

// Release deletes the key if it is still ours. ErrLost when it is not.
func (s *luaLease) Release(ctx context.Context) error {
	s.expiry.Stop()
	return s.done.Do(func() error {
		s.l.steps.At(ctx, step.Releasing, s.key)
		ctx, cancel := lock.Detached(ctx)
		defer cancel()
		n, err := luaRelease.Run(ctx, s.l.c, []string{s.key}, s.owner).Int()
		if err != nil {
			s.sent = s.sent || !notSent(err)
			return fmt.Errorf("lock: %s: release unknown: %w", s.l.name, err)
		}
		s.l.steps.At(ctx, step.Released, s.key)
		// after a lost answer, our own release may have removed it, unless the lock was lost before
		if n == 0 && (!s.sent || s.expiry.Lost()) {
			return lock.ErrLost
		}
		return nil
	})
}
