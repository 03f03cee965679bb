package lock

import (
	"context"
	"time"
)

// mayWait says whether an Acquire under ctx that has found the lock held may wait for it at all.
func mayWait(ctx context.Context) bool {
	until, bounded := waitUntil(ctx)
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

// cleanupTimeout bounds a release or a take-back. Its context is detached: the request's is often what just died.
const cleanupTimeout = 2 * time.Second

// detached is ctx without its end, with a time-out of [cleanupTimeout].
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}

// commandTimeout is what a single question to a server may take.
const commandTimeout = 3 * time.Second
