package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/step"
)

// SetNX is the first distributed lock of every write-up: SETNX, work, DEL.
//
// What breaks it: its holder dies. There is no expiry, so nobody ever holds the lock again; and no owner, so whoever
// comes to delete the key by hand may delete a living holder's.
type SetNX struct {
	c     redis.UniversalClient
	steps *step.Stream
}

// setnxSleep is how long a loser sleeps between tries.
const setnxSleep = 50 * time.Millisecond

// NewSetNX returns the lock on c.
func NewSetNX(c redis.UniversalClient, steps *step.Stream) *SetNX { return &SetNX{c, steps} }

// Acquire tries SETNX every 50 ms.
func (l *SetNX) Acquire(ctx context.Context, key string) (Lease, error) {
	l.steps.At(ctx, step.Waiting, key)
	for {
		ok, err := l.try(ctx, key)
		if err != nil {
			return nil, err
		}
		if ok {
			l.steps.At(ctx, step.Locked, key)
			return &setnxLease{l: l, key: key, ctx: ctx}, nil
		}
		if err := pause(ctx, setnxSleep, nil); err != nil {
			return nil, err
		}
	}
}

// try is not cut off with ctx: without an owner value nobody could tell afterwards whose key it is.
func (l *SetNX) try(ctx context.Context, key string) (bool, error) {
	whole, cancel := detached(ctx)
	defer cancel()
	ok, err := l.c.SetNX(whole, key, "1", 0).Result()
	if err != nil {
		return false, fmt.Errorf("%w: setnx: %w", ErrUnavailable, err)
	}
	if ok && ctx.Err() != nil {
		l.c.Del(whole, key) // the caller has gone; should this fail too, the key stays: the lock's own weakness
		return false, gaveUp(ctx)
	}
	return ok, nil
}

type setnxLease struct {
	l    *SetNX
	key  string
	ctx  context.Context
	done settled
}

// Context never ends early: this lock has no expiry, and would not notice a loss.
func (s *setnxLease) Context() context.Context { return s.ctx }

// Fence is 0: this lock issues no fencing token.
func (s *setnxLease) Fence() uint64 { return 0 }

// Release deletes the key, whoever holds it. ErrLost when it was gone.
func (s *setnxLease) Release(ctx context.Context) error {
	return s.done.settle(func() error {
		ctx, cancel := detached(ctx)
		defer cancel()
		s.l.steps.At(ctx, step.Releasing, s.key)
		n, err := s.l.c.Del(ctx, s.key).Result()
		if err != nil {
			return fmt.Errorf("lock: setnx: release unknown: %w", err)
		}
		s.l.steps.At(ctx, step.Released, s.key)
		if n == 0 {
			return ErrLost
		}
		return nil
	})
}
