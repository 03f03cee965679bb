package lock

import (
	"context"
	"errors"
	"fmt"

	"lastitem/internal/step"
)

// SessionLease is one hold under a session.
type SessionLease struct {
	Session *Session
	Kind    string
	Key     string
	Num     uint64 // its fencing token
	Steps   *step.Stream
	Free    func(context.Context) error // gives the lock up: nil, ErrLost, or unknown; may be repeated

	ctx    context.Context
	unbind func()
	done   ReleaseOnce
	sent   bool // a release was sent whose answer was lost
}

// Bind derives the context of the hold from ctx. It also ends with ErrLost when the session is lost.
func (l *SessionLease) Bind(ctx context.Context) {
	held, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(l.Session.ctx, func() { cancel(ErrLost) })
	l.ctx = Clocked(held, func() {
		if l.Session.Lost() { // the hook may not have run yet
			cancel(ErrLost)
		}
	})
	l.unbind = func() { unhook(); cancel(context.Canceled) }
}

// Context ends with ErrLost when the session can no longer be trusted.
func (l *SessionLease) Context() context.Context { return l.ctx }

// Fence rises with every hold of the key; 0 with sql-for-update, which issues none.
func (l *SessionLease) Fence() uint64 { return l.Num }

// Release gives the lock up. If its outcome is unknown, it is repeated in the background for as long as the session
// lives, unless the server refuses it ([ErrRefused]).
func (l *SessionLease) Release(ctx context.Context) error {
	l.unbind()
	return l.done.Do(func() error {
		if !l.sent {
			defer l.Session.Leave() // by then the release has ended, or the session repeats it
		}
		l.Steps.At(context.WithoutCancel(ctx), step.Releasing, l.Key)
		ctx, cancel := Detached(ctx)
		defer cancel()
		err := l.Free(ctx)
		if err != nil && !errors.Is(err, ErrLost) {
			if !l.sent && !errors.Is(err, ErrRefused) {
				l.Session.retryLater(l.Free)
			}
			l.sent = true
			return fmt.Errorf("lock: %s: release unknown: %w", l.Kind, err)
		}
		l.Steps.At(ctx, step.Released, l.Key)
		if l.sent && !l.Session.Lost() { // after a lost answer, our own release may have removed it
			return nil
		}
		return err
	})
}
