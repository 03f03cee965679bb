package lease

import (
	"context"
	"errors"
	"sync"
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
