package lease

import (
	"context"
	"errors"

	"lastitem/internal/lock"
)

// retryLater queues f. The session repeats it until it returns nil or ErrLost.
func (s *Session) retryLater(f func(context.Context) error) {
	s.mu.Lock()
	s.cleanups = append(s.cleanups, f)
	s.mu.Unlock()
	s.wake()
}

// retryCleanups tries the pending cleanups and returns how many remain.
func (s *Session) retryCleanups(ctx context.Context) int {
	s.mu.Lock()
	due := s.cleanups
	s.cleanups = nil
	s.mu.Unlock()
	var left []func(context.Context) error
	for _, f := range due {
		one, cancel := context.WithTimeout(ctx, CleanupTimeout)
		if err := f(one); err != nil && !errors.Is(err, lock.ErrLost) {
			left = append(left, f)
		}
		cancel()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(left, s.cleanups...)
	return len(s.cleanups)
}

// Tidy runs a cleanup f, which outlives ctx for a bounded time. If f fails, the session repeats it until it succeeds.
func (s *Session) Tidy(ctx context.Context, f func(context.Context) error) {
	ctx, cancel := Detached(ctx)
	defer cancel()
	if err := f(ctx); err != nil && !errors.Is(err, lock.ErrLost) {
		s.retryLater(f)
	}
}

// finish ends a retired session at the server. If that fails, the session ends there by its TTL: nobody renews it any more.
func (s *Session) finish(ctx context.Context) {
	ctx, cancel := Detached(ctx)
	defer cancel()
	if s.End != nil {
		_ = s.End(ctx)
	}
}

// Retire ends the session as soon as its last user has left; a new acquire opens another session. It is for an acquire whose reply was lost
// and that may still arrive at the server after its cleanup. Such an acquire would take the lock under a session that stays alive, and
// nobody would release it; once the session has ended, the server refuses it. Until then each renewal repeats cleanup, which must not harm
// a later hold.
func (s *Session) Retire(cleanup func(context.Context) error) {
	s.mu.Lock()
	s.retired = true
	s.late = append(s.late, cleanup)
	s.mu.Unlock()
	s.wake()
}

func (s *Session) isRetired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retired
}

// cleanLate repeats the cleanups of acquires that may have arrived since the last time. It stops at the first error: a server that did not
// answer one cleanup will hardly answer the next, and the next renewal tries again.
func (s *Session) cleanLate(ctx context.Context) {
	s.mu.Lock()
	late := s.late
	s.mu.Unlock()
	ctx, cancel := Detached(ctx)
	defer cancel()
	for _, f := range late {
		err := f(ctx)
		if err != nil {
			return
		}
	}
}
