// Package textbook has the Redis locks that every write-up on distributed locks shows, in the order in which write-ups
// repair them. The comment of each lock says what breaks it. Start with setnx.go and the setnx_*.go files, then read
// lua.go, watchdog.go and redlock.go.
//
// The Redis client must not repeat commands (MaxRetries -1): if a SET NX is sent twice, the first one makes Redis
// refuse the second.
package textbook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// SetNX is the lock of the write-ups in the steps by which they repair it; each constructor is one step. They share the
// loop and the lease, and differ in how a try takes the key and how a release deletes it.
//
//	NewSetNX         SETNX, work, DEL                           its holder dies: stuck
//	NewSetNXExpire   SETNX, then PEXPIRE                        it dies in between: stuck
//	NewSetNXTTL      SET NX PX, work, DEL                       a late DEL deletes the rival's key
//	NewSetNXOwner    SET NX PX owner, work, GET, compare, DEL   the same, between compare and DEL
//	NewSetNXFinally  SETNX, work, DEL in a finally              losers pass the finally too
//
// The next step is [Lua]: compare and delete in one script.
type SetNX struct {
	name    string
	c       redis.UniversalClient
	ttl     time.Duration // 0 = the key never expires
	steps   *step.Stream
	finally bool // a caller that does not get the lock deletes its key all the same

	// take makes one try. sent is when the command that started the TTL was sent. ok with an error: the key is ours, its
	// TTL may not have started.
	take func(ctx context.Context, key, owner string) (ok bool, sent time.Time, err error)
	// drop deletes the key, reports step.Releasing on the way, and says how many keys it deleted. Like take, it gives each
	// command its own time-out, because a reader of the steps may delay it for any time.
	drop func(ctx context.Context, key, owner string) (int64, error)
}

// setnxSleep is how long a loser sleeps between tries.
const setnxSleep = 50 * time.Millisecond

// NewSetNX returns the first step, and the first distributed lock of every write-up, on c: SETNX, work, DEL.
//
// What breaks it: its holder dies. There is no expiry, so nobody ever gets the lock again. Release does not compare
// owners, so deleting the key by hand may delete a living holder's. The random value only lets a caller whose acquire
// got no answer recognise its own key.
func NewSetNX(c redis.UniversalClient, steps *step.Stream) *SetNX {
	l := &SetNX{name: "setnx", c: c, steps: steps}
	l.take, l.drop = l.setNX, l.del
	return l
}

// Acquire makes one try every 50 ms.
func (l *SetNX) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	ctx = lock.BeginWait(ctx)
	if err := lock.RefuseLease(ctx, l.name); err != nil {
		return nil, err
	}
	l.steps.At(ctx, step.Waiting, key)
	owner := lock.NewOwner()
	for {
		ok, sent, err := l.try(ctx, key, owner)
		if err != nil {
			return nil, err
		}
		if ok {
			l.steps.At(ctx, step.Locked, key)
			return l.lease(ctx, key, owner, sent), nil
		}
		// a late grant is being undone, perhaps still later: that must not undo the next one
		if l.ttl > 0 && lock.TooLate(sent, l.ttl) {
			owner = lock.NewOwner()
		}
		if err := lock.Pause(ctx, setnxSleep, nil); err != nil {
			return nil, err
		}
	}
}

// try does not end with ctx: a command that was sent would still be executed. It deletes the key if its caller has
// left, or cannot know that it holds the lock.
func (l *SetNX) try(ctx context.Context, key, owner string) (ok bool, sent time.Time, err error) {
	ok, sent, err = l.take(ctx, key, owner)
	gone := ok && ctx.Err() != nil // the caller has left meanwhile
	late := ok && l.ttl > 0 && lock.TooLate(sent, l.ttl)
	switch {
	case gone || late || err != nil && (ok || !notSent(err)):
		l.takeBack(ctx, key, owner)
	case !ok && l.finally:
		back, cancel := lock.Detached(ctx)
		defer cancel()
		l.c.Del(back, key)
	}
	switch {
	case err != nil:
		return false, sent, fmt.Errorf("%w: %s: %w", lock.ErrUnavailable, l.name, err)
	case gone:
		return false, sent, lock.GaveUp(ctx)
	}
	return ok && !late, sent, nil
}

// A key without an expiry blocks everybody if its holder does not know that it holds it. So its deletion is repeated
// while the server does not answer, within these limits.
const (
	setnxAskAgain = time.Second
	setnxAskLimit = time.Minute
)

// takeBack deletes the key if it has the caller's value. Without an answer it is repeated in the background. If the
// acquire reaches the server even later, the key stays.
func (l *SetNX) takeBack(ctx context.Context, key, owner string) {
	ask := func() bool {
		back, cancel := lock.Detached(ctx)
		defer cancel()
		err := luaRelease.Run(back, l.c, []string{key}, owner).Err()
		return err == nil || errors.Is(err, redis.ErrClosed)
	}
	if ask() {
		return
	}
	go func() {
		for end := time.Now().Add(setnxAskLimit); time.Now().Before(end); {
			time.Sleep(setnxAskAgain)
			if ask() {
				return
			}
		}
	}()
}

// setNX takes the key with SETNX, forever.
func (l *SetNX) setNX(ctx context.Context, key, owner string) (bool, time.Time, error) {
	ctx, cancel := lock.Detached(ctx)
	defer cancel()
	sent := time.Now()
	ok, err := l.c.SetNX(ctx, key, owner, 0).Result()
	return ok, sent, err
}

// del deletes the key, whoever holds it.
func (l *SetNX) del(ctx context.Context, key, _ string) (int64, error) {
	l.steps.At(ctx, step.Releasing, key)
	ctx, cancel := lock.Detached(ctx)
	defer cancel()
	return l.c.Del(ctx, key).Result()
}

// setnxLease is one hold. Without a TTL its expiry is nil.
type setnxLease struct {
	l          *SetNX
	key, owner string
	ctx        context.Context
	expiry     *lock.Expiry
	done       lock.ReleaseOnce
	sent       bool // a release was sent whose answer was lost
}

func (l *SetNX) lease(ctx context.Context, key, owner string, sent time.Time) *setnxLease {
	s := &setnxLease{l: l, key: key, owner: owner, ctx: ctx}
	if l.ttl > 0 {
		s.expiry = lock.NewExpiry(ctx, sent, l.ttl)
		s.ctx = s.expiry.Context()
	}
	return s
}

// Context ends with ErrLost shortly before the key can expire; without a TTL never early. A loss before that goes
// unnoticed.
func (s *setnxLease) Context() context.Context { return s.ctx }

// Fence is 0: this lock issues no fencing token.
func (s *setnxLease) Fence() uint64 { return 0 }

// Release deletes the key as its constructor documents. ErrLost when there was nothing to delete.
func (s *setnxLease) Release(ctx context.Context) error {
	if s.expiry != nil {
		s.expiry.Stop()
	}
	return s.done.Do(func() error {
		ctx := context.WithoutCancel(ctx)
		n, err := s.l.drop(ctx, s.key, s.owner)
		if err != nil {
			s.sent = s.sent || !notSent(err)
			return fmt.Errorf("lock: %s: release unknown: %w", s.l.name, err)
		}
		s.l.steps.At(ctx, step.Released, s.key)
		lost := s.expiry != nil && s.expiry.Lost()
		// after a lost answer, our own release may have removed it, unless the lock was lost before
		if n == 0 && (!s.sent || lost) {
			return lock.ErrLost
		}
		return nil
	})
}
