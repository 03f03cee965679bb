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
)

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

// retiring makes sessions that count their renewals and their ends at the server.
func retiring(renewed, ended *atomic.Int64) *Sessions {
	return NewSessions(func(context.Context) (*Session, error) {
		return (&Session{
			Renew: func(context.Context) error { renewed.Add(1); return nil },
			End:   func(context.Context) error { ended.Add(1); return nil },
		}).Start(time.Now(), sessionTTL), nil
	})
}

// A retired session stays alive for its users and takes no others. Each renewal repeats the cleanup, and when the last user leaves, the
// session ends at the server.
func TestSessionRetires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewed, ended, cleaned atomic.Int64
		p := retiring(&renewed, &ended)
		s, err := p.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
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
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A session without users ends as soon as it is retired.
func TestSessionRetiresUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewed, ended atomic.Int64
		s, err := retiring(&renewed, &ended).Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		s.Retire(func(context.Context) error { return nil })
		s.Leave()
		<-s.done
		if n := ended.Load(); n != 1 || time.Since(start) > 0 {
			t.Errorf("ended %d times after %s, want once and at once", n, time.Since(start))
		}
	})
}
