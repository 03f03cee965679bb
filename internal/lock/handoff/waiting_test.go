package handoff_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// async acquires in the background.
func async(ctx context.Context, l lock.Locker, key string) (got chan lock.Lease, failed chan error) {
	got, failed = make(chan lock.Lease, 1), make(chan error, 1)
	go func() {
		if lease, err := l.Acquire(ctx, key); err != nil {
			failed <- err
		} else {
			got <- lease
		}
	}()
	return got, failed
}

// contended returns a lease of a fair lock, and another process's waiter, which knows that it is in the queue.
func contended(t *testing.T, s *testenv.RedisServer, key string) (held lock.Lease, got chan lock.Lease) {
	t.Helper()
	held = locktest.Obtain(t, onServer(t, s, handoff.Options{}).Fair(), key)
	other := onServer(t, s, handoff.Options{})
	got = queueing(t, s, other.Fair(), key, 1)
	wait.Until(t, "the waiter has its answer", func() bool { return other.Watches(key) })
	return held, got
}

// queueing acquires in the background, and returns when so many tokens wait in Redis, or wait for readers as the owner.
func queueing(t *testing.T, s *testenv.RedisServer, l lock.Locker, key string, waiting int) chan lock.Lease {
	t.Helper()
	got, failed := async(t.Context(), l, key)
	wait.Until(t, fmt.Sprintf("%d wait", waiting), func() bool {
		select {
		case err := <-failed:
			t.Fatalf("Acquire: %v", err)
		default:
		}
		keys := handoff.KeysOf(key)
		n := int(s.Client.ZCard(t.Context(), keys.Queue).Val())
		if s.Client.ZCard(t.Context(), keys.Readers).Val() > 0 {
			n += int(s.Client.Exists(t.Context(), keys.Lock).Val())
		}
		return n == waiting
	})
	return got
}

func served(t *testing.T, what string, got chan lock.Lease) lock.Lease {
	t.Helper()
	select {
	case lease := <-got:
		return lease
	case <-time.After(locktest.Soon):
		t.Fatalf("%s did not get in", what)
		return nil
	}
}
