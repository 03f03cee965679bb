package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"lastitem/internal/lock"
)

// leaseTime acquires with a short lease time. A lock either ends the lease then, tells the holder and lets a rival in,
// or it refuses and holds nothing.
func (k Kind) leaseTime(t *testing.T) {
	t.Parallel()
	all, key := k.processes(t, 2), k.Key()
	const d = 300 * time.Millisecond
	if !k.LeaseTime {
		if _, err := all[0].Acquire(lock.WithLease(t.Context(), d), key); !errors.Is(err, lock.ErrLeaseTime) {
			t.Fatalf("Acquire = %v, want ErrLeaseTime", err)
		}
		Warm(t, all[len(all)-1], key)
		return
	}
	lease := k.obtainFor(t, all[0], key, d)
	rival := Obtain(t, all[len(all)-1], key) // waits for the end of the lease
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("a rival is in, and the holder's context has the cause %v, want ErrLost", cause)
	}
	ReleaseLost(t, lease, "late Release")
	WantBusy(t, all[0], key, "after the late Release")
	Release(t, rival)
	if _, err := all[0].Acquire(lock.WithLease(t.Context(), 0), key); !errors.Is(err, lock.ErrLeaseTime) {
		t.Errorf("Acquire with a lease time of 0 = %v, want ErrLeaseTime", err)
	}
	Warm(t, all[0], key)
}

// obtainFor takes a free lock for d. On a busy machine an answer may take so long that the lock reports its store as
// unavailable.
func (k Kind) obtainFor(t *testing.T, l lock.Locker, key string, d time.Duration) lock.Lease {
	t.Helper()
	for end := time.Now().Add(enough); ; {
		ctx, cancel := context.WithTimeout(lock.WithLease(t.Context(), d), enough)
		t.Cleanup(cancel)
		lease, err := l.Acquire(ctx, key)
		if err == nil {
			return lease
		}
		if !errors.Is(err, lock.ErrUnavailable) || time.Now().After(end) {
			t.Fatalf("Acquire for %s: %v", d, err)
		}
	}
}
