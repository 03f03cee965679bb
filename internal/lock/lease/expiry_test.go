package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
)

// early is a context whose deadline has passed and whose timer has not gone off yet.
type early struct {
	context.Context
	until time.Time
}

func (e early) Deadline() (time.Time, bool) { return e.until, true }

func TestEndedKnowsTheDeadlineBeforeTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if Ended(ctx) {
			t.Error("ended before its deadline")
		}
		if !Ended(early{ctx, time.Now()}) {
			t.Error("not ended at its deadline")
		}
		open, leave := context.WithCancel(t.Context())
		if Ended(open) {
			t.Error("ended without a deadline")
		}
		leave()
		if !Ended(open) {
			t.Error("not ended when it was cancelled")
		}
	})
}

// A process that was stopped may run its holder before its timers. Here no timer fires at all. Still the context of a lease has ended when
// anybody checks it past the end, and so have the contexts derived from it.
func TestContextsEndWithoutTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alone := NewExpiry(t.Context(), time.Now(), sessionTTL)
		s := (&Session{Renew: func(context.Context) error { return errUnknown }}).Start(time.Now(), sessionTTL)
		defer s.Stop()
		held := &SessionLease{Session: s, Free: func(context.Context) error { return nil }}
		held.Bind(t.Context())
		alone.timer.Stop()
		s.timer.Stop()
		contexts := map[string]context.Context{"lease of its own": alone.Context(), "lease under a session": held.Context()}
		derived := map[string]context.Context{}
		for kind, ctx := range contexts {
			under, cancel := context.WithCancel(ctx)
			t.Cleanup(cancel)
			derived[kind] = under
		}
		time.Sleep(sessionTTL - sessionTTL/100 - 3*time.Millisecond)
		for kind, ctx := range contexts {
			if err := ctx.Err(); err != nil {
				t.Errorf("%s: Err() = %v before its end", kind, err)
			}
		}
		time.Sleep(time.Millisecond)
		for kind, ctx := range contexts {
			if err := ctx.Err(); !errors.Is(err, context.Canceled) || !errors.Is(context.Cause(ctx), lock.ErrLost) {
				t.Errorf("%s: Err() = %v because of %v, want ErrLost", kind, err, context.Cause(ctx))
			}
			select {
			case <-ctx.Done():
			default:
				t.Errorf("%s: Done() is open", kind)
			}
			if derived[kind].Err() == nil {
				t.Errorf("%s: Err() = nil of a derived context, after the lease's said that it has ended", kind)
			}
		}
	})
}

// The cost of a clock check for a caller of a lease's context.
func BenchmarkContextErr(b *testing.B) {
	plain, cancel := context.WithCancel(b.Context())
	defer cancel()
	expiry := NewExpiry(b.Context(), time.Now(), time.Hour)
	defer expiry.Stop()
	for name, ctx := range map[string]context.Context{"plain": plain, "lease": expiry.Context()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if ctx.Err() != nil {
					b.Fatal("it has ended")
				}
			}
		})
	}
}
