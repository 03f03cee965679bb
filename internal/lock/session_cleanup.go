package lock

import (
	"context"
	"errors"
	"slices"
)

// ErrRefused comes with the error of a cleanup that the server refuses, now and later. The session does not repeat it.
var ErrRefused = errors.New("lock: cleanup refused")

const (
	// cleanupPatience is how many cleanups may fail before the others wait for the next time. So a server that fails them
	// all gets no flood of commands, and those that fail delay the others little.
	cleanupPatience = 100
	// mostCleanups is how many cleanups may be pending in a process before it acquires no more: each acquire might add
	// another.
	mostCleanups = 10_000
)

// over says whether the outcome of a cleanup is final.
func over(err error) bool {
	return err == nil || errors.Is(err, ErrLost) || errors.Is(err, ErrRefused)
}

// retryLater queues f. The session repeats it until its outcome is final.
func (s *Session) retryLater(f func(context.Context) error) {
	s.mu.Lock()
	s.cleanups = append(s.cleanups, f)
	s.mu.Unlock()
	s.wake()
}

// pending returns how many cleanups have not succeeded yet.
func (s *Session) pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.cleanups) + s.trying
}

// retryCleanups tries the pending cleanups until patience of them have failed, and returns how many remain. Those that
// fail go to the end of the queue.
func (s *Session) retryCleanups(ctx context.Context, patience int) int {
	s.mu.Lock()
	due := s.cleanups
	s.cleanups, s.trying = nil, len(due)
	s.mu.Unlock()
	var failed []func(context.Context) error
	for len(due) > 0 && len(failed) < patience {
		one, cancel := context.WithTimeout(ctx, CleanupTimeout)
		err := due[0](one)
		cancel()
		if !over(err) {
			failed = append(failed, due[0])
		}
		due = due[1:]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups, s.trying = slices.Concat(due, s.cleanups, failed), 0
	return len(s.cleanups)
}

// Tidy runs a cleanup f, which outlives ctx for a bounded time. If f fails, the session repeats it until its outcome is
// final.
func (s *Session) Tidy(ctx context.Context, f func(context.Context) error) {
	ctx, cancel := Detached(ctx)
	defer cancel()
	if err := f(ctx); !over(err) {
		s.retryLater(f)
	}
}

// finish ends a retired session at the server. If that fails, the session ends there by its TTL: nobody renews it any
// more.
func (s *Session) finish(ctx context.Context) {
	ctx, cancel := Detached(ctx)
	defer cancel()
	if s.End != nil {
		_ = s.End(ctx)
	}
}

// Retire ends the session as soon as its last user has left; a new acquire opens another session. It is for an acquire
// whose reply was lost and that may still arrive at the server after its cleanup. Such an acquire would take the lock
// under a session that stays alive, and nobody would release it; once the session has ended, the server refuses it.
// Until then cleanup is repeated every third of the TTL; it must not harm a later hold.
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

// cleanLate repeats the cleanups of acquires that may have arrived since the last time. It stops at the first error: a
// server that did not answer one cleanup will hardly answer the next, and it is tried again a third of the TTL later.
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
