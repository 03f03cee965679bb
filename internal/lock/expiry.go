package lock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// ReleaseOnce remembers how a release ended, so that it may be repeated: nil and ErrLost are final, anything else is
// tried again.
type ReleaseOnce struct {
	mu    sync.Mutex
	final bool
	err   error
}

// Do runs release unless an earlier run was final. Runs do not overlap.
func (s *ReleaseOnce) Do(release func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final {
		return s.err
	}
	s.err = release()
	s.final = s.err == nil || errors.Is(s.err, ErrLost)
	return s.err
}

// Expiry ends a lease's context, by this process's own monotonic clock, before the server can grant the lock to a
// rival. It ends at the time when the last successful acquire or renewal was sent, plus the TTL, minus a margin. That
// does not depend on a message.
type Expiry struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	ttl    time.Duration
	sent   atomic.Pointer[time.Time] // of the last successful acquire or renewal
}

// NewExpiry starts the clock of a lease whose acquire was sent at sent.
func NewExpiry(ctx context.Context, sent time.Time, ttl time.Duration) *Expiry {
	e := &Expiry{ttl: ttl}
	e.sent.Store(&sent)
	ended, cancel := context.WithCancelCause(ctx)
	e.ctx, e.cancel = Clocked(ended, e.look), cancel
	e.timer = time.AfterFunc(left(sent, ttl), e.Lose)
	return e
}

// Clocked returns a context of a lease whose Err and Done first call look. look compares the clock with the end of the
// lease, and ends ctx if that has passed. So the holder never sees a live context after this end, not even in a process
// that was stopped beyond the end and whose holder runs before its timers. look must not block: Err may be called under
// any mutex.
//
// A context derived from this one ends when this one does: when the timer fires, or when anybody calls Err or Done of
// this one. Its own Err does not look.
func Clocked(ctx context.Context, look func()) context.Context { return &clocked{ctx, look} }

// Reentered returns the context of a re-entry under ctx into a hold whose context is held. It carries the values of ctx
// and ends with it; it also ends with held, like [Clocked], even if ctx was detached from held. stop ends it, unless it
// is ctx.
func Reentered(ctx, held context.Context) (inner context.Context, stop func()) {
	if ctx.Done() == held.Done() {
		return ctx, func() {}
	}
	ended, cancel := context.WithCancelCause(ctx)
	forward := func() { cancel(context.Cause(held)) }
	unhook := context.AfterFunc(held, forward)
	inner = Clocked(ended, func() {
		if held.Err() != nil {
			forward()
		}
	})
	return inner, func() { unhook(); cancel(context.Canceled) }
}

type clocked struct {
	context.Context
	look func()
}

// Done looks at the clock, and returns the channel of the wrapped context.
func (c *clocked) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

// Err looks at the clock, and returns the error of the wrapped context.
func (c *clocked) Err() error {
	c.look()
	return c.Context.Err()
}

// left is how long a lease of ttl, confirmed by a request that was sent at sent, can still be trusted.
func left(sent time.Time, ttl time.Duration) time.Duration {
	return time.Until(sent.Add(ValidFor(ttl)))
}

// ValidFor returns for how long a request confirms a lease of ttl, counted from the moment at which the request was
// sent. The margin covers the drift between two clocks that run at slightly different speeds (1 %) and the resolution
// of the timers (2 ms), as Redlock reckons it.
func ValidFor(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }

// TooLate says whether the grant of a request that was sent at sent arrived after the end of its lease: the server may
// have granted the lock to a rival, so Acquire must not return it.
func TooLate(sent time.Time, ttl time.Duration) bool { return left(sent, ttl) <= 0 }

// Extend restarts the clock after a renewal that was sent at sent and succeeded.
func (e *Expiry) Extend(sent time.Time) {
	e.sent.Store(&sent)
	e.timer.Reset(left(sent, e.ttl))
}

// look ends the context if the lease can no longer be trusted.
func (e *Expiry) look() {
	if TooLate(*e.sent.Load(), e.ttl) {
		e.Lose()
	}
}

// Lost says whether the context has ended with ErrLost: the lease can no longer be trusted.
func (e *Expiry) Lost() bool { return errors.Is(context.Cause(e.ctx), ErrLost) }

// Context is the lease's context: it ends with ErrLost when the lease can no longer be trusted. Its Err and Done look
// at the clock: see [Clocked].
func (e *Expiry) Context() context.Context { return e.ctx }

// Lose ends the context with ErrLost.
func (e *Expiry) Lose() { e.cancel(ErrLost) }

// Stop ends the clock of a lease that is being released. Afterwards Lost says whether the lease ended before that.
func (e *Expiry) Stop() {
	e.look()
	e.timer.Stop()
	e.cancel(context.Canceled)
}

// NewOwner returns a random value that proves ownership of one hold.
func NewOwner() string { return uuid.NewString() }
