package handoff_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

func TestEngineClose(t *testing.T) {
	s := testenv.Redis(t)
	e, err := handoff.New(locktest.RedisClient(t, s), handoff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := s.Prefix + "{1}"
	lease, err := e.Handoff().Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 2)
	for _, l := range []lock.Locker{e.Handoff(), e.Fair()} {
		go func() {
			_, err := l.Acquire(context.Background(), key)
			failed <- err
		}()
	}
	wait.Until(t, "a waiter in the queue", func() bool { return s.Client.ZCard(t.Context(), handoff.KeysOf(key).Queue).Val() > 0 })
	if err := e.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	for range 2 {
		if err := <-failed; !errors.Is(err, handoff.ErrClosed) {
			t.Errorf("a waiter got %v, want ErrClosed", err)
		}
	}
	if lease.Context().Err() == nil {
		t.Error("the hold outlived its engine")
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release after Close = %v, want nil", err)
	}
	if _, err := e.Fair().Acquire(t.Context(), key); !errors.Is(err, handoff.ErrClosed) {
		t.Errorf("Acquire after Close = %v, want ErrClosed", err)
	}
	nothingLeftOn(t, s, key)
}

// The server does not answer when the engine is closed. The holds end nevertheless, before others could have the lock.
func TestEngineCloseWithoutServer(t *testing.T) {
	t.Parallel()
	c := connect(t, options(t, testenv.RedisNodes(t, 1)[0]))
	e, err := handoff.New(c, handoff.Options{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var leases []lock.Lease
	for i := range 100 { // more than it releases at a time
		leases = append(leases, locktest.Obtain(t, e.Fair(), strconv.Itoa(i)))
	}
	if err := c.Do(t.Context(), "CLIENT", "PAUSE", time.Minute.Milliseconds(), "ALL").Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := e.Close(ctx); err == nil {
		t.Error("Close = nil, but nothing was released")
	}
	for _, lease := range leases {
		if lease.Context().Err() == nil {
			t.Error("a hold outlived its engine")
		}
	}
}
