package lock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
)

// settled remembers how a release ended, so that it may be repeated: nil and ErrLost are final, anything else is tried
// again.
type settled struct {
	mu    sync.Mutex
	final bool
	err   error
}

// settle runs release unless an earlier run was final. Runs do not overlap.
func (s *settled) settle(release func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final {
		return s.err
	}
	s.err = release()
	s.final = s.err == nil || errors.Is(s.err, ErrLost)
	return s.err
}

// expiry ends a lease's context, by this process's own monotonic clock, before the server can give the lock away: at the
// moment the last successful acquire or renewal was sent, plus the TTL, less a margin. It does not depend on a message.
type expiry struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	ttl    time.Duration
}

// newExpiry starts the clock of a lease whose acquire was sent at sent.
func newExpiry(ctx context.Context, sent time.Time, ttl time.Duration) *expiry {
	e := &expiry{ttl: ttl}
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	e.timer = time.AfterFunc(e.left(sent), e.lose)
	return e
}

// left is how long a lease confirmed at sent can still be trusted. The margin covers the drift between two clocks that
// run at slightly different speeds (1 %) and the resolution of the timers (2 ms), as Redlock reckons it.
func (e *expiry) left(sent time.Time) time.Duration {
	return time.Until(sent.Add(e.ttl - e.ttl/100 - 2*time.Millisecond))
}

// extend restarts the clock after a renewal that was sent at sent and succeeded.
func (e *expiry) extend(sent time.Time) { e.timer.Reset(e.left(sent)) }

// lose ends the context with ErrLost.
func (e *expiry) lose() { e.cancel(ErrLost) }

// stop ends the clock of a lease that is being released.
func (e *expiry) stop() {
	e.timer.Stop()
	e.cancel(context.Canceled)
}

// newOwner returns a random value that proves ownership of one hold.
func newOwner() string { return uuid.NewString() }
