package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/testkit"
)

// However many cleanups fail, and however slowly, every renewal is sent in time.
func TestSessionRenewsDuringItsCleanups(t *testing.T) {
	for name, takes := range map[string]time.Duration{"many": time.Millisecond, "slow": CleanupTimeout} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var last, gap time.Duration
				start := time.Now()
				s := (&Session{Renew: func(context.Context) error {
					now := time.Since(start)
					last, gap = now, max(gap, now-last)
					return nil
				}}).Start(start, sessionTTL)
				for range 10_000 {
					s.retryLater(func(ctx context.Context) error { return errors.Join(Pause(ctx, takes, nil), errUnknown) })
				}
				time.Sleep(5*sessionTTL + time.Second)
				synctest.Wait()
				if s.Lost() || gap != sessionTTL/3 {
					t.Errorf("lost: %t; %s without a renewal, want %s", s.Lost(), gap, sessionTTL/3)
				}
				s.Stop()
			})
		})
	}
}

// A cleanup that would succeed has its turn, although others fail again and again.
func TestSessionCleanupAmongFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&Session{Renew: func(context.Context) error { return nil }}).Start(time.Now(), sessionTTL)
		defer s.Stop()
		tried := 0
		done := false
		s.mu.Lock()
		for range 1000 {
			s.cleanups = append(s.cleanups, func(context.Context) error { tried++; return errUnknown })
		}
		s.mu.Unlock()
		s.retryLater(func(context.Context) error { done = true; return nil })
		const within = 20 * cleanupRetry // 13 to 41 turns, of which 11 are needed
		time.Sleep(within)
		synctest.Wait()
		if !done {
			t.Errorf("not tried within %s", within)
		}
		if most := 45 * cleanupPatience; tried > most {
			t.Errorf("%d tries of those that fail in %s, want at most %d", tried, within, most)
		}
	})
}

// oneSession is a session whose renewals all succeed, and the sessions that it is of.
func oneSession(t *testing.T) (*Sessions, *Session) {
	t.Helper()
	p := NewSessions(func(context.Context) (*Session, error) {
		return (&Session{Renew: func(context.Context) error { return nil }}).Start(time.Now(), sessionTTL), nil
	})
	s, err := p.Get(t.Context())
	testkit.Must(t, err)
	return p, s
}

// A cleanup that the server refuses is not repeated, and the session ends without it.
func TestSessionForgetsARefusedCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := oneSession(t)
		defer func() { _ = p.Close() }()
		tried := 0
		lease := &SessionLease{Session: s, Free: func(context.Context) error {
			tried++
			return fmt.Errorf("%w: %w", ErrRefused, errUnknown)
		}}
		lease.Bind(t.Context())
		if err := lease.Release(t.Context()); err == nil || errors.Is(err, ErrLost) {
			t.Errorf("Release = %v, want unknown", err)
		}
		s.Tidy(t.Context(), lease.Free)
		s.Retire(func(context.Context) error { return errUnknown })
		<-s.done
		if tried != 2 {
			t.Errorf("%d tries, want the two of their callers", tried)
		}
	})
}

// With too many pending cleanups a process acquires no more, until they have succeeded.
func TestSessionsBoundTheirCleanups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := oneSession(t)
		defer func() { _ = p.Close() }()
		healed := make(chan struct{})
		for range mostCleanups {
			s.retryLater(func(context.Context) error {
				select {
				case <-healed:
					return nil
				default:
					return errUnknown
				}
			})
		}
		_, err := p.Get(t.Context())
		testkit.IsError(t, err, ErrUnavailable, "Get with %d pending cleanups", mostCleanups)
		close(healed)
		time.Sleep(time.Second)
		_, err = p.Get(t.Context())
		testkit.Is(t, err, nil, "Get afterwards")
	})
}

// However long the renewals in flight take, each session is ended at the server.
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
			testkit.Must(t, err)
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
			return nil, ErrUnavailable
		})
		start := time.Now()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				_, err := p.Get(t.Context())
				testkit.IsError(t, err, ErrUnavailable, "get")
			})
		}
		all.Wait()
		if took := time.Since(start); took > CommandTimeout || opened != 1 {
			t.Errorf("ten failed after %s and %d attempts, want %s and one", took, opened, CommandTimeout)
		}
		if _, err := p.Get(t.Context()); !errors.Is(err, ErrUnavailable) || opened != 2 {
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
				return nil, ErrUnavailable
			}
			return (&Session{Renew: func(context.Context) error { return nil }}).Start(time.Now(), sessionTTL), nil
		})
		ctx := testkit.Within(t, time.Second)
		second := make(chan error, 1)
		go func() {
			time.Sleep(time.Millisecond)
			_, err := p.Get(t.Context())
			second <- err
		}()
		if _, err := p.Get(ctx); !errors.Is(err, ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("get = %v, want ErrBusy with the cause", err)
		}
		testkit.Is(t, <-second, nil, "the second caller")
		testkit.Is(t, p.Close(), nil, "close")
		if _, err := p.Get(t.Context()); !errors.Is(err, ErrUnavailable) || !errors.Is(err, errClosed) {
			t.Errorf("get after close = %v, want ErrUnavailable: closed", err)
		}
		if opened != 2 {
			t.Errorf("opened %d sessions, want 2", opened)
		}
	})
}

// retiring makes sessions that count their renewals and their ends at the server.
func retiring(renewed, ended *atomic.Int64) *Sessions {
	return NewSessions(func(context.Context) (*Session, error) {
		return (&Session{
			Renew: func(context.Context) error { renewed.Add(1); return nil },
			End:   func(context.Context) error { ended.Add(1); return nil },
		}).Start(time.Now(), sessionTTL), nil
	})
}

// A retired session stays alive for its users and takes no others. Each renewal repeats the cleanup, and when the last
// user leaves, the session ends at the server.
func TestSessionRetires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewed, ended, cleaned atomic.Int64
		p := retiring(&renewed, &ended)
		s, err := p.Get(t.Context())
		testkit.Must(t, err)
		s.Retire(func(context.Context) error { cleaned.Add(1); return errUnknown })
		next, err := p.Get(t.Context())
		if err != nil || next == s {
			t.Fatalf("Get = the retired session: %t, %v", next == s, err)
		}
		time.Sleep(3*sessionTTL + time.Second)
		if s.Lost() || ended.Load() != 0 {
			t.Errorf("lost %t, ended %d times while it is in use", s.Lost(), ended.Load())
		}
		if n := cleaned.Load(); n != 9 {
			t.Errorf("%d cleanups in three TTLs, want one for each third", n)
		}
		s.Leave()
		<-s.done
		if n := ended.Load(); n != 1 {
			t.Errorf("ended %d times at the server, want once", n)
		}
		next.Leave()
		testkit.Check(t, p.Close())
	})
}

// A session without users ends as soon as it is retired.
func TestSessionRetiresUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewed, ended atomic.Int64
		s, err := retiring(&renewed, &ended).Get(t.Context())
		testkit.Must(t, err)
		start := time.Now()
		s.Retire(func(context.Context) error { return nil })
		s.Leave()
		<-s.done
		if n := ended.Load(); n != 1 || time.Since(start) > 0 {
			t.Errorf("ended %d times after %s, want once and at once", n, time.Since(start))
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
		ctx := testkit.Within(t, time.Millisecond)
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

// A process that was stopped may run its holder before its timers. Here no timer fires at all. Still the context of a
// lease has ended when anybody checks it past the end, and so have the contexts derived from it.
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
			if err := ctx.Err(); !errors.Is(err, context.Canceled) || !errors.Is(context.Cause(ctx), ErrLost) {
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
