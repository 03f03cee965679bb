package shop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
)

// service is a lock service that may hang, or refuse.
type service struct {
	hang, refuse atomic.Bool
	lock.Lease   // nil
}

var errRefused = errors.New("READONLY You can't write against a read only replica")

// do is a command, of which a hanging service never says anything.
func (s *service) do(ctx context.Context) error {
	switch {
	case s.hang.Load():
		<-ctx.Done()
		return context.Cause(ctx)
	case s.refuse.Load():
		return errRefused
	}
	return nil
}

func (s *service) take(ctx context.Context) (lock.Lease, error) {
	switch err := s.do(ctx); {
	case errors.Is(err, errRefused):
		return nil, fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	case err != nil:
		return nil, lock.GaveUp(ctx)
	}
	return s, nil
}

// Release hangs for three seconds, like a command of go-redis.
func (s *service) Release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return s.do(ctx)
}

// A service that hangs, refuses, or is known to be out: within a second of the first request nobody waits for the lock longer than 50 ms, nor
// for its release; it is told once; and the lock is taken again soon after the service has come back.
func TestOutage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hang, refuse, down bool
		first              time.Duration // the first request waits no longer
	}{
		"hangs": {hang: true, first: time.Second}, "refuses": {refuse: true, first: 0}, "is down": {hang: true, down: true, first: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var spawned sync.WaitGroup
				defer spawned.Wait()
				var log bytes.Buffer
				s, down := &service{}, atomic.Bool{}
				o := &outage{
					ask: s.do, log: slog.New(slog.NewTextHandler(&log, nil)), spawn: spawned.Go,
					down: func() error {
						if down.Load() {
							return errRefused
						}
						return nil
					},
				}
				o.up, o.fall = context.WithCancel(t.Context())
				acquire := func(most time.Duration) lock.Lease {
					t.Helper()
					began := time.Now()
					lease, err := o.acquire(t.Context(), s.take)
					if took := time.Since(began); err != nil || took > most {
						t.Fatalf("acquire() = %v after %s, want a lease within %s", err, took, most)
					}
					return lease
				}
				held := acquire(0)
				set := func(hang, refuse, isDown bool) {
					s.hang.Store(hang)
					s.refuse.Store(refuse)
					down.Store(isDown)
				}
				set(c.hang, c.refuse, c.down)
				began := time.Now()
				acquire(c.first)
				if err := held.Release(t.Context()); time.Since(began) > time.Second {
					t.Errorf("Release() = %v after %s, want that nobody waits for it", err, time.Since(began))
				}
				for range 100 {
					if _, locked := acquire(50 * time.Millisecond).(*sparedLease); locked {
						t.Fatal("acquire() locked, and the service is out")
					}
					time.Sleep(100 * time.Millisecond)
				}
				if got := strings.Count(log.String(), "\n"); got != 1 {
					t.Errorf("%d lines in the log, want one:\n%s", got, &log)
				}
				set(false, false, false)
				for _, why := o.state(); why != nil && time.Since(began) < time.Minute; _, why = o.state() {
					time.Sleep(10 * time.Millisecond)
				}
				if back := time.Since(began) - 10*time.Second; back > 2*time.Second {
					t.Errorf("the lock is taken again %s after the service came back", back)
				}
				if err := acquire(0).Release(t.Context()); err != nil {
					t.Errorf("Release() = %v", err)
				}
				if got := strings.Count(log.String(), "\n"); got != 2 {
					t.Errorf("%d lines in the log, want two:\n%s", got, &log)
				}
			})
		})
	}
}

// A lock that is only busy is waited for, however long, and the request that gives up gets the lock's error.
func TestOutageOfABusyLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{} // whose holder is slow; the probe is answered
		s.hang.Store(true)
		o := &outage{ask: (&service{}).do, down: func() error { return nil }, spawn: func(f func()) { go f() }}
		o.up, o.fall = context.WithCancel(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := o.acquire(ctx, s.take); !errors.Is(err, lock.ErrBusy) || time.Since(began) != 5*time.Second {
			t.Errorf("acquire() = %v after %s, want ErrBusy after 5s", err, time.Since(began))
		}
	})
}
