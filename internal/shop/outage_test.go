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
	"lastitem/testkit"
)

// service is a lock service, and a lease on it, that may hang or refuse.
type service struct {
	lock.Lease // nil
	state      atomic.Value
}

var errRefused = errors.New("READONLY You can't write against a read only replica")

// ask is a command. A service that hangs is silent for three seconds at most: then go-redis gives up.
func (s *service) ask(ctx context.Context) error {
	switch s.state.Load() {
	case "hangs":
		select {
		case <-ctx.Done():
		case <-time.After(3 * time.Second):
		}
		return context.DeadlineExceeded
	case "refuses":
		return errRefused
	}
	return nil
}

func (s *service) take(ctx context.Context) (lock.Lease, error) {
	if err := s.ask(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	}
	return s, nil
}

// Release gives the lease up.
func (s *service) Release(ctx context.Context) error { return s.ask(ctx) }

func newTestOutage(t *testing.T, s *service, spawn func(func())) (o *outage, log *bytes.Buffer) {
	log = &bytes.Buffer{}
	o = &outage{ask: s.ask, down: func() error { return nil }, spawn: spawn, log: slog.New(slog.NewTextHandler(log, nil))}
	o.up, o.fall = context.WithCancel(t.Context())
	return o, log
}

// Within a second of the first request to a service that hangs or refuses, nobody waits longer than 50 ms for the lock
// or its release; the log says so once; and the lock is taken again soon after the service has come back.
func TestOutage(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"hangs", "refuses"} {
		synctest.Test(t, func(t *testing.T) {
			var spawned sync.WaitGroup
			defer spawned.Wait()
			s := &service{}
			o, log := newTestOutage(t, s, spawned.Go)
			began := time.Now()
			held, err := o.acquire(t.Context(), s.take)
			s.state.Store(state)
			_, again := o.acquire(t.Context(), s.take)
			if err = errors.Join(err, again); err != nil || held.Release(t.Context()) != nil && state == "hangs" ||
				time.Since(began) > time.Second {
				t.Errorf("%s: the first requests took %s, %v", state, time.Since(began), err)
			}
			for range 100 {
				asked := time.Now()
				lease, err := o.acquire(t.Context(), s.take)
				if _, locked := lease.(*sparedLease); err != nil || locked || time.Since(asked) > 50*time.Millisecond {
					t.Fatalf("%s: acquire() = %T, %v after %s, want no lock at once", state, lease, err, time.Since(asked))
				}
				time.Sleep(100 * time.Millisecond)
			}
			s.state.Store("works")
			for _, why := o.state(); why != nil && time.Since(began) < time.Minute; _, why = o.state() {
				time.Sleep(10 * time.Millisecond)
			}
			lease, err := o.acquire(t.Context(), s.take)
			if _, locked := lease.(*sparedLease); err != nil || !locked || lease.Release(t.Context()) != nil ||
				time.Since(began) > 13*time.Second {
				t.Errorf("%s: acquire() = %T, %v, want the lock soon after the service came back", state, lease, err)
			}
			if lines := strings.Count(log.String(), "\n"); lines != 2 {
				t.Errorf("%s: %d lines in the log, want one for each change:\n%s", state, lines, log)
			}
		})
	}
}

// A lock that is only busy is waited for, however long.
func TestOutageOfABusyLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _ := newTestOutage(t, &service{}, func(f func()) { go f() })
		ctx := testkit.Within(t, 5*time.Second)
		began := time.Now()
		_, err := o.acquire(ctx, func(ctx context.Context) (lock.Lease, error) { <-ctx.Done(); return nil, lock.GaveUp(ctx) })
		if !errors.Is(err, lock.ErrBusy) || time.Since(began) != 5*time.Second {
			t.Errorf("acquire() = %v after %s, want ErrBusy after 5s", err, time.Since(began))
		}
	})
}
