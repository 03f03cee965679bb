package lock

import (
	"context"
	"fmt"
	"time"
)

// bound is how long an Acquire may wait.
type bound struct {
	wait   time.Duration
	until  time.Time // the end of the wait; zero until it has begun
	shared bool      // it has begun for several Acquires
}

type waitKey struct{}

// WithWait bounds how long an Acquire under ctx waits for a held lock; 0 fails at once. Each Acquire has
// the whole wait. It is not a deadline of ctx, which would also cut off the first attempt.
func WithWait(ctx context.Context, wait time.Duration) context.Context {
	return context.WithValue(ctx, waitKey{}, bound{wait: wait})
}

// BeginWait begins the wait of an Acquire under ctx: a [Locker] calls it first. [ShareWait] begins one for several.
func BeginWait(ctx context.Context) context.Context {
	if b, _ := ctx.Value(waitKey{}).(bound); b.shared {
		return ctx
	}
	return beginWait(ctx, false)
}

// ShareWait begins one wait for all Acquires under ctx together, which [WithWait] bounds.
func ShareWait(ctx context.Context) context.Context { return beginWait(ctx, true) }

func beginWait(ctx context.Context, shared bool) context.Context {
	b, bounded := ctx.Value(waitKey{}).(bound)
	if !bounded {
		return ctx
	}
	return context.WithValue(ctx, waitKey{}, bound{b.wait, time.Now().Add(b.wait), shared})
}

// WaitUntil returns the time until which an Acquire under ctx may wait; false means that [WithWait] set no bound.
func WaitUntil(ctx context.Context) (until time.Time, bounded bool) {
	b, bounded := ctx.Value(waitKey{}).(bound)
	if bounded && b.until.IsZero() {
		b.until = time.Now().Add(b.wait)
	}
	return b.until, bounded
}

// WaitContext returns ctx with a deadline: it also ends when its WithWait has run out.
func WaitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if until, ok := WaitUntil(ctx); ok {
		return context.WithDeadline(ctx, until)
	}
	return context.WithCancel(ctx)
}

type reentryKey struct{}

// WithReentry lets every Acquire under ctx enter again the hold that ctx carries, where the lock is reentrant.
// Without it such an Acquire waits like anybody else's: in Go a lease's context goes to many goroutines, which the
// lock must keep apart, and to jobs that go on in the background beside the next holder.
func WithReentry(ctx context.Context) context.Context {
	return context.WithValue(ctx, reentryKey{}, true)
}

// MayReenter says whether [WithReentry] has been set for every Acquire under ctx.
func MayReenter(ctx context.Context) bool { return ctx.Value(reentryKey{}) != nil }

// GaveUp is the error of a wait that has ended: ErrBusy, joined with the cause of ctx if it was ctx that ended the
// wait.
func GaveUp(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
	}
	return ErrBusy
}
