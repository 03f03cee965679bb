// Beside the contract stand the common parts of all locks: waits that end as the contract says ([Pause], [MayWait],
// [Ended]), cleanups that outlive their request ([Detached]), a lease that ends by the holder's own clock ([Expiry]), a
// release that may be repeated ([ReleaseOnce]), an owner value ([NewOwner]), and a session that is kept alive at a
// server ([Session], [Sessions]).

package lock

import (
	"context"
	"time"
)

// MayWait says whether an Acquire under ctx that has found the lock held may wait for it at all.
func MayWait(ctx context.Context) bool {
	until, bounded := WaitUntil(ctx)
	return ctx.Err() == nil && (!bounded || time.Now().Before(until))
}

// Ended says whether ctx has ended. A network call with the deadline of ctx may time out a moment before the timer of
// ctx fires; that is not a failure of the server.
func Ended(ctx context.Context) bool {
	if until, ok := ctx.Deadline(); ok && !time.Now().Before(until) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// Pause waits for d or for a wake-up (wake may be nil); it returns an error when the time to wait, or ctx, has ended.
func Pause(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	limit, stop := WaitContext(ctx)
	defer stop()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-limit.Done():
		return GaveUp(ctx)
	default:
	}
	select {
	case <-t.C:
		return nil
	case <-wake:
		return nil
	case <-limit.Done():
		return GaveUp(ctx)
	}
}

// CleanupTimeout bounds a release, or the cleanup of a failed acquire. Its context is detached, because the request's
// own context has often just ended.
const CleanupTimeout = 2 * time.Second

// Detached returns ctx without its cancellation and deadline, but with a time-out of [CleanupTimeout].
func Detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), CleanupTimeout)
}

// CommandTimeout bounds a single command to a server.
const CommandTimeout = 3 * time.Second
