// Package lock holds the ways of being the only one: a process-local mutex, the textbook Redis locks, an engine that is
// better than these, and locks on ZooKeeper, etcd, Consul and SQL.
//
// A client of Redis must not repeat commands (MaxRetries -1): a SET NX sent twice is refused by itself.
//
// All of them keep one contract, [Locker] and [Lease], and pass one conformance suite (locktest). The naive ones are
// exhibits and say in one line what breaks them. Start with this file, then mutex.go, setnx.go and its rungs, lua.go and
// watchdog.go; then engine.go, lua/engine_pass.lua and engine_line.go. docs/locks.md says when to use which.
package lock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// The errors of a lock. None of them says that anything was deducted.
var (
	// ErrBusy: somebody else held the lock for as long as the caller was ready to wait. The caller holds nothing.
	ErrBusy = errors.New("lock: busy")
	// ErrLost: the lease ended, or was taken over, before its holder released it.
	ErrLost = errors.New("lock: lease lost")
	// ErrUnavailable: the lock's store did not answer; whatever it may have granted is taken back, or expires.
	ErrUnavailable = errors.New("lock: store unavailable")
)

// A Locker decides who may touch the resource named by a key.
type Locker interface {
	// Acquire makes one attempt, and then waits no longer than [WithWait] allows (without it: until ctx ends). A wait that ran
	// out is [ErrBusy]; one that ctx ended is ErrBusy joined with the cause of ctx. After an error nothing is held.
	Acquire(ctx context.Context, key string) (Lease, error)
}

// A Lease is one hold of a lock. It is the identity of its holder; goroutines have none.
type Lease interface {
	// Context ends, with cause [ErrLost], when the lease can no longer be trusted. It carries the lease, so that an
	// Acquire with it re-enters where the lock is reentrant.
	Context() context.Context
	// Fence is the fencing token, rising with every hold of the key; 0 = this lock issues none. The lock's constructor says
	// when it goes back all the same.
	Fence() uint64
	// Release gives the lock up: nil, [ErrLost], or another error when it is unknown whether it was released. It may be
	// repeated, works after ctx has ended, and takes at most a few seconds.
	Release(ctx context.Context) error
}

type waitKey struct{}

// WithWait bounds how long an Acquire under ctx waits for a held lock; 0 fails at once. It is not a deadline of ctx, which
// would cut the first attempt off as well.
func WithWait(ctx context.Context, wait time.Duration) context.Context {
	return context.WithValue(ctx, waitKey{}, time.Now().Add(wait))
}

// waitContext is ctx, ended also when its WithWait has run out.
func waitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if until, ok := ctx.Value(waitKey{}).(time.Time); ok {
		return context.WithDeadline(ctx, until)
	}
	return context.WithCancel(ctx)
}

// mayWait says whether an Acquire under ctx that has found the lock held may wait for it at all.
func mayWait(ctx context.Context) bool {
	until, bounded := ctx.Value(waitKey{}).(time.Time)
	return ctx.Err() == nil && (!bounded || time.Now().Before(until))
}

// ended says whether ctx has ended. A network that was given the deadline of ctx may say so first, a moment before the timer of ctx
// goes off; what it says then is no failure of the server's.
func ended(ctx context.Context) bool {
	if until, ok := ctx.Deadline(); ok && !time.Now().Before(until) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// gaveUp is the error of a wait that has ended: ErrBusy, with the cause of ctx where it was ctx that ended it.
func gaveUp(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
	}
	return ErrBusy
}

// pause waits for d or for a wake-up (wake may be nil); it returns an error when the time to wait, or ctx, has ended.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	limit, stop := waitContext(ctx)
	defer stop()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-limit.Done():
		return gaveUp(ctx)
	default:
	}
	select {
	case <-t.C:
		return nil
	case <-wake:
		return nil
	case <-limit.Done():
		return gaveUp(ctx)
	}
}

// notSent says that a Redis command surely never left: there was no connection for it. A client that repeats commands may have
// sent it before.
func notSent(err error) bool {
	var op *net.OpError
	return errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &op) && op.Op == "dial"
}

// cleanupTimeout bounds a release or a take-back. Its context is detached: the request's is often what just died.
const cleanupTimeout = 2 * time.Second

func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}
