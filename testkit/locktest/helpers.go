package locktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/internal/lock"
	"lastitem/testkit/testenv"
)

// KeysUnder returns a source of keys below a prefix. They look like paths, to test that this does not matter.
func KeysUnder(prefix string) func() string {
	var n atomic.Int64
	return func() string { return fmt.Sprintf("%slock:{%d}", prefix, n.Add(1)) }
}

// Soon is how long a test waits for an event that must happen.
const Soon = testenv.Still

// Obtain acquires a lock that is free, or will be soon.
func Obtain(t *testing.T, l lock.Locker, key string) lock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Soon)
	defer cancel()
	var lease lock.Lease
	if err := Again(ctx, func() (err error) {
		lease, err = l.Acquire(lock.WithWait(t.Context(), Soon), key)
		return err
	}); err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	Say(t, "the lock is taken")
	return lease
}

// Waiter acquires in the background, and sends the lease.
func Waiter(t *testing.T, l lock.Locker, key string) <-chan lock.Lease {
	got := make(chan lock.Lease, 1)
	go func() {
		lease, err := l.Acquire(t.Context(), key)
		if err != nil {
			t.Errorf("the waiter's Acquire = %v", err)
		}
		got <- lease
	}()
	return got
}

// Attempt acquires in the background, and sends the error.
func Attempt(ctx context.Context, l lock.Locker, key string) <-chan error {
	got := make(chan error, 1)
	go func() {
		_, err := l.Acquire(ctx, key)
		got <- err
	}()
	return got
}

// Acquire acquires with a context.
func Acquire(ctx context.Context, t *testing.T, l lock.Locker, key string) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(ctx, key)
	if err != nil {
		t.Fatalf("Acquire = %v", err)
	}
	Say(t, "the lock is taken")
	return lease
}

// Release releases a lease. If the outcome is unknown, as on a busy machine, it tries again.
func Release(t *testing.T, lease lock.Lease) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Soon)
	defer cancel()
	if err := Again(ctx, func() error { return lease.Release(t.Context()) }); err != nil {
		t.Fatalf("Release: %v", err)
	}
	Say(t, "the lock is released")
}

// ReleaseUnknown releases a lease, and wants that the outcome is unknown.
func ReleaseUnknown(t *testing.T, lease lock.Lease, why string) {
	t.Helper()
	if err := lease.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
		t.Errorf("%s = %v, want unknown", why, err)
	}
}

// ReleaseLost releases a lease that is lost.
func ReleaseLost(t *testing.T, lease lock.Lease, why string) {
	t.Helper()
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("%s = %v, want ErrLost", why, err)
	}
	Say(t, "%s: the lock is lost", why)
}

// WantUnavailable fails unless the store of a lock cannot be asked.
func WantUnavailable(ctx context.Context, t *testing.T, l lock.Locker, key, why string) {
	t.Helper()
	if _, err := l.Acquire(ctx, key); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("%s = %v, want ErrUnavailable", why, err)
	}
}

// Again tries until a server has answered in time, or ctx ends. On a busy machine it may not; that says nothing about
// the lock.
func Again(ctx context.Context, try func() error) error {
	for {
		err := try()
		late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
		if !late || errors.Is(err, lock.ErrBusy) || ctx.Err() != nil {
			return err
		}
	}
}

// Warm acquires and releases a lock, so that scripts are loaded and a session is open, and the test sees only the
// commands that it expects. It fails if the lock cannot be acquired.
func Warm(t *testing.T, l lock.Locker, key string) {
	t.Helper()
	Release(t, Obtain(t, l, key))
}

// WantBusy fails unless the lock is held.
func WantBusy(t *testing.T, l lock.Locker, key, why string) {
	t.Helper()
	lease, err := answered(t, l, key)
	if err == nil {
		_ = lease.Release(t.Context())
	}
	if !errors.Is(err, lock.ErrBusy) {
		t.Errorf("%s: Acquire = %v, want ErrBusy", why, err)
	}
	Say(t, "%s: the lock is held", why)
}

// WantGaveUp fails unless an Acquire ended with its context.
func WantGaveUp(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire = %v, want ErrBusy with the cause", err)
	}
}

// WantLost waits for the end of a lease's context, for no longer than within plus a margin for busy machines.
func WantLost(t *testing.T, lease lock.Lease, within time.Duration) {
	t.Helper()
	select {
	case <-lease.Context().Done():
	case <-time.After(within + Soon):
		t.Fatalf("the holder was not told within %s", within+Soon)
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause = %v, want ErrLost", cause)
	}
	Say(t, "the holder is told that it has lost the lock")
}

// SessionEnds checks a lock whose holder's session is ended at the server: the holder must be told, the rival gets in
// with a higher fence (0 = the lock has none), and the old holder's release must not free the rival's lock.
func SessionEnds(t *testing.T, holder, rival lock.Locker, key string, within time.Duration, end func()) {
	t.Helper()
	lease := Obtain(t, holder, key)
	end()
	WantLost(t, lease, within)
	second := Obtain(t, rival, key)
	if lease.Fence() != 0 && second.Fence() <= lease.Fence() {
		t.Errorf("the rival's fence is %d, after %d", second.Fence(), lease.Fence())
	}
	ReleaseLost(t, lease, "late Release")
	WantBusy(t, holder, key, "after the late Release, with a new session")
	Release(t, second)
	Warm(t, holder, key)
}

// WantHigher fails unless the fence of the second lease is the higher one.
func WantHigher(t *testing.T, first, second lock.Lease) {
	t.Helper()
	if second.Fence() <= first.Fence() {
		t.Errorf("fence %d after %d, want it to rise", second.Fence(), first.Fence())
	}
}

// FencesRise takes and releases a key and wants every fence to be higher than the one before.
func FencesRise(t *testing.T, key string, all ...lock.Locker) {
	t.Helper()
	var last uint64
	for i := range 20 {
		lease := Obtain(t, all[i%len(all)], key)
		if lease.Fence() <= last {
			t.Fatalf("fence %d after %d", lease.Fence(), last)
		}
		last = lease.Fence()
		Release(t, lease)
	}
}

// WantTold fails if the hand-offs took as long as without messages, when every waiter waits for its poll, every two
// seconds. It compares the median: a busy machine delays some hand-offs, but without messages all of them wait for a
// poll.
func WantTold(t *testing.T, took []time.Duration) {
	t.Helper()
	slices.Sort(took)
	if middle := took[len(took)/2]; middle > 1500*time.Millisecond {
		t.Errorf("%d hand-offs took %s in the middle: as if no message had come", len(took), middle)
	}
}

// Take acquires a lock that is free.
func Take(t *testing.T, l lock.Locker, key string) lock.Lease {
	t.Helper()
	lease, err := answered(t, l, key)
	if err != nil {
		t.Fatalf("Acquire of a free lock = %v", err)
	}
	Say(t, "the lock is taken")
	return lease
}

// Enters says whether an Acquire that does not wait gets the lock.
func Enters(t *testing.T, l lock.Locker, key string) bool {
	t.Helper()
	_, err := answered(t, l, key)
	if err != nil && !errors.Is(err, lock.ErrBusy) {
		t.Fatalf("Acquire = %v", err)
	}
	Say(t, "somebody else gets the lock: %t", err == nil)
	return err == nil
}
