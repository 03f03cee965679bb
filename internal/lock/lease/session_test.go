package lease

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// The times of a session are tested here, in a bubble; what its servers make of them is tested with the locks.

const sessionTTL = 9 * time.Second

var errUnknown = errors.New("no answer")

// lives waits for the end of s and returns how long it could be trusted from now on.
func lives(t *testing.T, s *Session) time.Duration {
	t.Helper()
	start := time.Now()
	<-s.ctx.Done()
	if cause := context.Cause(s.ctx); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause = %v, want ErrLost", cause)
	}
	return time.Since(start)
}

// Nothing answers any more: the holder knows before the server, which counts from when the last renewal came, can give the
// lock away.
func TestSessionEndsByItsOwnClock(t *testing.T) {
	const margin = sessionTTL/100 + 2*time.Millisecond
	for name, c := range map[string]struct {
		takes, want time.Duration // how long a renewal is under way before it is lost, or answered; when the session ends
		good        int           // renewals that are answered
	}{
		"never renewed":                {0, sessionTTL - margin, 0},
		"renewed twice":                {0, 2*sessionTTL/3 + sessionTTL - margin, 2},
		"renewals that hang":           {time.Minute, sessionTTL - margin, 0},
		"counted from the question on": {2 * time.Second, sessionTTL/3 + sessionTTL - margin, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				s := (&Session{Renew: func(ctx context.Context) error {
					asked++
					good := asked <= c.good
					if err := Pause(ctx, c.takes, nil); err != nil || !good {
						return errUnknown
					}
					return nil
				}}).Start(time.Now(), sessionTTL)
				defer s.Stop()
				if lived := lives(t, s); lived != c.want {
					t.Errorf("trusted for %s, want %s", lived, c.want)
				}
			})
		})
	}
}

// An acquire that took long leaves that much less.
func TestSessionCountsFromBeforeItsAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := time.Now()
		time.Sleep(sessionTTL / 4)
		s := (&Session{Renew: func(context.Context) error { return errUnknown }}).Start(sent, sessionTTL)
		defer s.Stop()
		lives(t, s)
		if lived := time.Since(sent); lived >= sessionTTL {
			t.Errorf("trusted for %s after the question, the TTL is %s", lived, sessionTTL)
		}
	})
}

func TestSessionHearsOfItsEndAtTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beats := 0
		s := (&Session{Renew: func(context.Context) error {
			if beats++; beats == 3 {
				return lock.ErrLost
			}
			return nil
		}}).Start(time.Now(), sessionTTL)
		if lived := lives(t, s); lived != sessionTTL {
			t.Errorf("told after %s, want at the third renewal, after %s", lived, sessionTTL)
		}
		<-s.done // nor does it go on asking
		if beats != 3 {
			t.Errorf("%d renewals, want 3", beats)
		}
	})
}

// A cleanup is repeated until it succeeds, even if the session is lost meanwhile, and no longer.
func TestSessionRepeatsItsCleanups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewed, tried int
		s := (&Session{Renew: func(context.Context) error { renewed++; return errUnknown }}).Start(time.Now(), sessionTTL)
		start := time.Now()
		s.retryLater(func(context.Context) error {
			tried++
			if time.Since(start) < 3*sessionTTL {
				return errUnknown
			}
			return nil
		})
		lives(t, s)
		<-s.done
		if took := time.Since(start); took < 3*sessionTTL || took > 3*sessionTTL+2*cleanupRetry {
			t.Errorf("ended after %s, the cleanup could succeed after %s", took, 3*sessionTTL)
		}
		if renewed < 8 {
			t.Errorf("%d renewals: what is to be undone may have been kept alive by them", renewed)
		}
		if most := int(3*sessionTTL/(cleanupRetry/2)) + 2; tried > most {
			t.Errorf("%d tries, want at most %d", tried, most)
		}
	})
}

// The cleanup of a lost hold is over, because the end of the session has freed the lock.
func TestSessionForgetsACleanupOfALostHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tried := 0
		s := (&Session{Renew: func(context.Context) error { return nil }}).Start(time.Now(), sessionTTL)
		s.retryLater(func(context.Context) error { tried++; return lock.ErrLost })
		time.Sleep(sessionTTL)
		s.Stop()
		if tried != 1 {
			t.Errorf("%d tries, want 1", tried)
		}
	})
}

// A holder that releases long after the loss of its session, while the server still does not answer, has its cleanup all the same:
// without it Consul's local contenders would stay out, with ZooKeeper everybody. Meanwhile nothing is renewed, and
// after it the session is over.
func TestSessionRepeatsALateRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewed atomic.Int64
		p := NewSessions(func(context.Context) (*Session, error) {
			return (&Session{Renew: func(context.Context) error { renewed.Add(1); return errUnknown }}).Start(time.Now(), sessionTTL), nil
		})
		defer func() { _ = p.Close() }()
		s, err := p.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var healed, cleaned atomic.Bool
		lease := &SessionLease{Session: s, Free: func(context.Context) error {
			if !healed.Load() {
				return errUnknown
			}
			cleaned.Store(true)
			return lock.ErrLost
		}}
		lease.Bind(t.Context())
		<-lease.Context().Done()
		time.Sleep(sessionTTL)
		before := renewed.Load()
		time.Sleep(10 * sessionTTL)
		if n := renewed.Load() - before; n != 0 {
			t.Errorf("a lost session that had no cleanup was renewed %d times", n)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, errUnknown) {
			t.Errorf("Release = %v, want unknown", err)
		}
		time.Sleep(10 * sessionTTL)
		healed.Store(true)
		time.Sleep(time.Second)
		if !cleaned.Load() {
			t.Error("its cleanup was not repeated")
		}
		select {
		case <-s.done:
		default:
			t.Error("the session goes on, with nobody left who could need a cleanup")
		}
	})
}

// Whoever reads the steps may hold a release up for as long as he likes: the server is asked with a time-out that begins after it.
func TestSessionReleaseHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps step.Stream
		defer steps.Subscribe(func(context.Context, step.Event) { time.Sleep(time.Minute) })()
		s := (&Session{Renew: func(context.Context) error { return nil }}).Start(time.Now(), sessionTTL)
		defer s.Stop()
		lease := &SessionLease{Session: s, Steps: &steps, Free: func(ctx context.Context) error { return ctx.Err() }}
		lease.Bind(t.Context())
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release = %v, want nil", err)
		}
	})
}

// A lock that was acquired under a session that was lost meanwhile is not handed out.
func TestSessionLostWhileAcquiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			s := (&Session{Renew: func(context.Context) error { return nil }}).Start(time.Now(), sessionTTL)
			s.Lose()
			lease := &SessionLease{Session: s}
			lease.Bind(t.Context())
			if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
				t.Errorf("cause = %v, want ErrLost", cause)
			}
			s.Stop()
		}
	})
}

// What ends a session waits for the renewal that is under way, and for no other after it.
func TestSessionStopsAfterTheRenewalUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // the tick that comes with the end of a renewal is seen before the stop or after it
			s := (&Session{Renew: func(ctx context.Context) error {
				<-ctx.Done()
				return errUnknown
			}}).Start(time.Now(), sessionTTL)
			time.Sleep(sessionTTL/3 + time.Millisecond)
			start := time.Now()
			s.Stop()
			if took := time.Since(start); took > sessionTTL/3 {
				t.Fatalf("stop took %s, the renewal under way %s", took, sessionTTL/3-time.Millisecond)
			}
		}
	})
}

// However long the renewals under way take, the server is told of the end of each session.
func TestSessionsCloseInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		p := NewSessions(func(context.Context) (*Session, error) {
			return (&Session{
				Renew: func(ctx context.Context) error { <-ctx.Done(); return errUnknown },
				End: func(ctx context.Context) error {
					ended++
					return ctx.Err()
				},
			}).Start(time.Now(), sessionTTL), nil
		})
		for range 2 {
			s, err := p.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(sessionTTL/3 + time.Millisecond)
			s.Lose()
		}
		start := time.Now()
		if err := p.Close(); err != nil || ended != 2 {
			t.Errorf("close = %v, %d sessions ended, want 2", err, ended)
		}
		if took := time.Since(start); took > CommandTimeout+CleanupTimeout {
			t.Errorf("close took %s", took)
		}
	})
}

// Ten callers and a server that does not answer: they fail together, not one after the other.
func TestSessionsFailTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := 0
		p := NewSessions(func(ctx context.Context) (*Session, error) {
			opened++
			<-ctx.Done()
			return nil, lock.ErrUnavailable
		})
		start := time.Now()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if _, err := p.Get(t.Context()); !errors.Is(err, lock.ErrUnavailable) {
					t.Errorf("get = %v, want ErrUnavailable", err)
				}
			})
		}
		all.Wait()
		if took := time.Since(start); took > CommandTimeout || opened != 1 {
			t.Errorf("ten failed after %s and %d attempts, want %s and one", took, opened, CommandTimeout)
		}
		if _, err := p.Get(t.Context()); !errors.Is(err, lock.ErrUnavailable) || opened != 2 {
			t.Errorf("the next: %v after %d attempts, want one of its own", err, opened)
		}
	})
}

// A caller whose own context ends while it opens the session gives up, and nobody else does because of it.
func TestSessionsOfACallerWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := 0
		p := NewSessions(func(ctx context.Context) (*Session, error) {
			if opened++; opened == 1 {
				<-ctx.Done()
				return nil, lock.ErrUnavailable
			}
			return (&Session{Renew: func(context.Context) error { return nil }}).Start(time.Now(), sessionTTL), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		second := make(chan error, 1)
		go func() {
			time.Sleep(time.Millisecond)
			_, err := p.Get(t.Context())
			second <- err
		}()
		if _, err := p.Get(ctx); !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("get = %v, want ErrBusy with the cause", err)
		}
		if err := <-second; err != nil {
			t.Errorf("the second caller: %v", err)
		}
		if err := p.Close(); err != nil {
			t.Errorf("close = %v", err)
		}
		if _, err := p.Get(t.Context()); !errors.Is(err, lock.ErrUnavailable) || !errors.Is(err, errClosed) {
			t.Errorf("get after close = %v, want ErrUnavailable: closed", err)
		}
		if opened != 2 {
			t.Errorf("opened %d sessions, want 2", opened)
		}
	})
}

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
