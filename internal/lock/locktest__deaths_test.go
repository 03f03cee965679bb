package lock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"lastitem/internal/lock"
)

// What a process leaves behind that dies, which here means that nothing it sends arrives any more: while it holds, while it
// waits, and after each command of its acquire. And what one leaves behind that lives on while its callers come and go.

// deaths plays them all, each in a world of its own.
func deaths(t *testing.T, make func(*testing.T) *world) {
	run := func(name string, f func(w *world, t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(make(t), t)
		})
	}
	run("holding", (*world).diesHolding)
	run("waiting", (*world).diesWaiting)
	run("acquiring", (*world).diesAcquiring)
	run("callers leave", (*world).callersLeave)
}

// mortalTTL is the TTL of a process that dies.
const mortalTTL = 2 * time.Second

// world is a lock's store with one key, and processes.
type world struct {
	key string
	// lives makes a process that lives on.
	lives func(t *testing.T) lock.Locker
	// mortal makes one with a short TTL, on a network of its own.
	mortal func(t *testing.T) (lock.Locker, *relay)
	// dying makes processes that die in their next acquire, by the last thing that the server did for them.
	dying map[string]func(t *testing.T) lock.Locker
	// traces counts what holders and waiters have at the server.
	traces func(t *testing.T, key string) int
	// queue says that a waiter leaves a trace.
	queue bool
}

func (w *world) none(t *testing.T, key string) {
	t.Helper()
	eventually(t, "nothing is left at the server", func() bool { return w.traces(t, key) == 0 })
}

func (w *world) diesHolding(t *testing.T) {
	l, net := w.mortal(t)
	lease := obtain(t, l, w.key)
	net.cut.Store(true)
	next := obtain(t, w.lives(t), w.key)
	wantLost(t, lease, 0)
	letGo(t, next)
	w.none(t, w.key)
}

// The dead waiter admits nobody while the holder lives, and blocks nobody after that.
func (w *world) diesWaiting(t *testing.T) {
	holder := obtain(t, w.lives(t), w.key)
	l, net := w.mortal(t)
	warm(t, l, w.key+" before") // so that all it asks from here on is for this lock
	asked := net.asked.Load()
	died := make(chan error, 1)
	go func() {
		_, err := l.Acquire(t.Context(), w.key)
		died <- err
	}()
	eventually(t, "the mortal waits", func() bool { return net.asked.Load() > asked+1 && (!w.queue || w.traces(t, w.key) == 2) })
	got := make(chan lock.Lease, 1)
	behind := w.lives(t)
	go func() {
		lease, err := behind.Acquire(t.Context(), w.key)
		if err != nil {
			t.Errorf("the waiter behind the dead one: %v", err)
		}
		got <- lease
	}()
	if w.queue {
		eventually(t, "another waits behind it", func() bool { return w.traces(t, w.key) == 3 })
	}
	net.cut.Store(true)
	if err := <-died; !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("the dead waiter's Acquire = %v, want ErrUnavailable", err)
	}
	if w.queue {
		eventually(t, "the dead one's place is gone", func() bool { return w.traces(t, w.key) == 2 })
	}
	wantBusy(t, w.lives(t), w.key, "after the death of a waiter")
	select {
	case <-got:
		t.Fatal("the death of a waiter admitted the one behind it")
	default:
	}
	letGo(t, holder)
	letGo(t, <-got)
	w.none(t, w.key)
}

func (w *world) diesAcquiring(t *testing.T) {
	for name, dying := range w.dying {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := w.key + " " + name
			if lease, err := dying(t).Acquire(t.Context(), key); err == nil {
				t.Fatalf("acquired with fence %d: it did not die", lease.Fence())
			}
			warm(t, w.lives(t), key)
			w.none(t, key)
		})
	}
}

// Contexts end at any moment of an acquire, of a lock that is free and of one that is held; the process lives on.
func (w *world) callersLeave(t *testing.T) {
	l, other := w.lives(t), w.lives(t)
	start := time.Now()
	warm(t, l, w.key)
	usual := time.Since(start)
	for i := range 60 {
		var holder lock.Lease
		if i%2 == 1 {
			holder = obtain(t, other, w.key)
		}
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(2*usual))
		lease, err := l.Acquire(ctx, w.key)
		switch {
		case err == nil && holder != nil:
			t.Fatal("two holders")
		case err == nil:
			letGo(t, lease)
		case !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("Acquire = %v, want ErrBusy with the cause", err)
		}
		cancel()
		if holder != nil {
			letGo(t, holder)
		}
	}
	warm(t, other, w.key)
	w.none(t, w.key)
}
