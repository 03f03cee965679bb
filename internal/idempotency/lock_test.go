package idempotency_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/idempotency"
	"lastitem/internal/lock"
)

// held are the names of the locks that somebody has.
type held map[string]bool

// fakeLease is a lease on one of them.
type fakeLease struct {
	lock.Lease
	ctx  context.Context
	free func()
}

func (l fakeLease) Context() context.Context { return l.ctx }

func (l fakeLease) Release(context.Context) error { l.free(); return nil }

// fakeLocker gives leases with ctx, and refuses at once.
type fakeLocker struct {
	held held
	ctx  context.Context
}

func (l fakeLocker) Acquire(_ context.Context, name string) (lock.Lease, error) {
	if l.held[name] {
		return nil, lock.ErrBusy
	}
	l.held[name] = true
	return fakeLease{ctx: l.ctx, free: func() { delete(l.held, name) }}, nil
}

// name is the lock of the key "k". Replicas of different versions must use the same.
const name = "p:lock:key:{8254c329a92850f6d539dd376f4816ee}"

func newLock(ctx context.Context, t *testing.T) (*idempotency.Lock, *miniredis.Miniredis, held) {
	t.Helper()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	h := held{}
	return &idempotency.Lock{
		Locker: fakeLocker{h, ctx}, Client: client, Prefix: "p:", TTL: 10 * time.Second,
		Counter: func(name string) string { return name + ":fence" },
	}, server, h
}

func TestLock(t *testing.T) {
	t.Parallel()
	l, server, h := newLock(t.Context(), t)
	if err := server.Set(name+":fence", "7"); err != nil {
		t.Fatal(err)
	}
	lease, err := l.Acquire(t.Context(), []byte("k"))
	if err != nil || !h[name] {
		t.Fatalf("Acquire() = %v, holds %v, want %s", err, h, name)
	}
	for left, want := range map[time.Duration]time.Duration{ // of the lock: when to ask again
		9 * time.Second: time.Second, 6 * time.Second: 4 * time.Second, 2 * time.Second: 2 * time.Second,
	} {
		if err := server.Set(name, "owner"); err != nil {
			t.Fatal(err)
		}
		server.SetTTL(name, left)
		_, err := l.Acquire(t.Context(), []byte("k"))
		var busy *idempotency.InFlightError
		if !errors.As(err, &busy) || !errors.Is(err, idempotency.ErrInFlight) || !errors.Is(err, lock.ErrBusy) ||
			busy.Left != left || busy.Held != 10*time.Second-left || busy.Again() != want {
			t.Errorf("Acquire() of a key in flight with %s left = %v (%+v), want to ask again in %s", left, err, busy, want)
		}
	}
	if err := lease.Release(t.Context()); err != nil || h[name] || server.Exists(name+":fence") {
		t.Errorf("Release() = %v, holds %v, the counter is there: %t; want nothing left", err, h, server.Exists(name+":fence"))
	}
}

// The counter of a lost lock is a rival's, and stays.
func TestLostLock(t *testing.T) {
	t.Parallel()
	ctx, lose := context.WithCancelCause(t.Context())
	l, server, _ := newLock(ctx, t)
	lease, err := l.Acquire(t.Context(), []byte("k"))
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Set(name+":fence", "8"); err != nil {
		t.Fatal(err)
	}
	lose(lock.ErrLost)
	if err := lease.Release(t.Context()); err != nil || !server.Exists(name+":fence") {
		t.Errorf("Release() of a lost lock = %v, the counter is there: %t, want that it is", err, server.Exists(name+":fence"))
	}
}

// An error without a known end of the lock does not name one.
func TestInFlightErrorNamesWhatIsKnown(t *testing.T) {
	t.Parallel()
	for left, want := range map[time.Duration]bool{0: false, 2 * time.Second: true} {
		busy := &idempotency.InFlightError{Left: left, Cause: lock.ErrBusy}
		if got := busy.Error(); strings.Contains(got, "at the latest") != want {
			t.Errorf("Error() with %s left = %q, says when the key is free: want %t", left, got, want)
		}
	}
}
