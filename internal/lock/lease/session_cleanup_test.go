package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
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
	if err != nil {
		t.Fatal(err)
	}
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
		if err := lease.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
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
		if _, err := p.Get(t.Context()); !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("Get with %d pending cleanups = %v, want ErrUnavailable", mostCleanups, err)
		}
		close(healed)
		time.Sleep(time.Second)
		if _, err := p.Get(t.Context()); err != nil {
			t.Errorf("Get afterwards = %v", err)
		}
	})
}
