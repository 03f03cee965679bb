package lock

import (
	"context"
	"fmt"
	"time"
)

type waitKey struct{}

// WithWait bounds how long an Acquire under ctx waits for a held lock; 0 fails at once. It is not a deadline of ctx, which would also cut
// off the first attempt.
func WithWait(ctx context.Context, wait time.Duration) context.Context {
	return context.WithValue(ctx, waitKey{}, time.Now().Add(wait))
}

// WaitUntil returns the time until which an Acquire under ctx may wait; false means that [WithWait] set no bound.
func WaitUntil(ctx context.Context) (until time.Time, bounded bool) {
	until, bounded = ctx.Value(waitKey{}).(time.Time)
	return until, bounded
}

// WaitContext returns ctx with a deadline: it also ends when its WithWait has run out.
func WaitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if until, ok := WaitUntil(ctx); ok {
		return context.WithDeadline(ctx, until)
	}
	return context.WithCancel(ctx)
}

type reentryKey struct{}

// WithReentry lets every Acquire under ctx enter again the hold that ctx carries, where the lock is reentrant. Without it such
// an Acquire waits like anybody else's: in Go a lease's context goes to many goroutines, which the lock must keep apart, and
// to jobs that go on in the background beside the next holder.
func WithReentry(ctx context.Context) context.Context {
	return context.WithValue(ctx, reentryKey{}, true)
}

// MayReenter says whether [WithReentry] has been set for every Acquire under ctx.
func MayReenter(ctx context.Context) bool { return ctx.Value(reentryKey{}) != nil }

// GaveUp is the error of a wait that has ended: ErrBusy, joined with the cause of ctx if it was ctx that ended the wait.
func GaveUp(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
	}
	return ErrBusy
}
