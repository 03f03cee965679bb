package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"lastitem/internal/lock"
	"lastitem/testkit"
)

// These tests check that a process leaves nothing at the server when it dies while it holds the lock, while it waits,
// or after any command of its acquire. A process is dead here when nothing that it sends arrives any more. One more
// test checks that a living process leaves nothing when its callers give up.

// Deaths runs all these tests, each in a World of its own.
func Deaths(t *testing.T, world func(*testing.T) *World) {
	run := func(name string, f func(w *World, t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(world(t), t)
		})
	}
	run("holding", (*World).diesHolding)
	run("waiting", (*World).diesWaiting)
	run("acquiring", (*World).diesAcquiring)
	run("callers leave", (*World).callersLeave)
}

// MortalTTL is the TTL of a process that dies.
const MortalTTL = 15 * time.Second

// World is the store of a lock with one key, and the processes that use it.
type World struct {
	Key string
	// Lives makes a process that does not die.
	Lives func(t *testing.T) lock.Locker
	// Mortal makes a process with a short TTL, on a network of its own that can be cut.
	Mortal func(t *testing.T) (lock.Locker, *Relay)
	// Dying makes processes that die in their next acquire. Its key is the last command that the server carries out for
	// the process.
	Dying map[string]func(t *testing.T) lock.Locker
	// Traces counts the entries of holders and waiters at the server.
	Traces func(t *testing.T, key string) int
	// Queue says whether a waiter leaves a trace.
	Queue bool
}

func (w *World) none(t *testing.T, key string) {
	t.Helper()
	testkit.Until(t, "nothing is left at the server", func() bool { return w.Traces(t, key) == 0 })
}

func (w *World) diesHolding(t *testing.T) {
	l, net := w.Mortal(t)
	lease := Obtain(t, l, w.Key)
	net.Cut.Store(true)
	next := Obtain(t, w.Lives(t), w.Key)
	WantLost(t, lease, 0)
	Release(t, next)
	w.none(t, w.Key)
}

// The dead waiter admits nobody while the holder lives, and blocks nobody after that.
func (w *World) diesWaiting(t *testing.T) {
	holder := Obtain(t, w.Lives(t), w.Key)
	l, net := w.Mortal(t)
	Warm(t, l, w.Key+" before") // so that all further commands are for this lock
	asked := net.Asked.Load()
	died := Attempt(t.Context(), l, w.Key)
	testkit.Until(t, "the mortal waits", func() bool {
		return net.Asked.Load() > asked+1 && (!w.Queue || w.Traces(t, w.Key) == 2)
	})
	behind := w.Lives(t)
	got := Waiter(t, behind, w.Key)
	if w.Queue {
		testkit.Until(t, "another waits behind it", func() bool { return w.Traces(t, w.Key) == 3 })
	}
	net.Cut.Store(true)
	if err := <-died; !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("the dead waiter's Acquire = %v, want ErrUnavailable", err)
	}
	if w.Queue {
		testkit.Until(t, "the dead one's place is gone", func() bool { return w.Traces(t, w.Key) == 2 })
	}
	WantBusy(t, w.Lives(t), w.Key, "after the death of a waiter")
	select {
	case <-got:
		t.Fatal("the death of a waiter admitted the one behind it")
	default:
	}
	Release(t, holder)
	Release(t, <-got)
	w.none(t, w.Key)
}

func (w *World) diesAcquiring(t *testing.T) {
	for name, dying := range w.Dying {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := w.Key + " " + name
			if lease, err := dying(t).Acquire(t.Context(), key); err == nil {
				t.Fatalf("acquired with fence %d: it did not die", lease.Fence())
			}
			Warm(t, w.Lives(t), key)
			w.none(t, key)
		})
	}
}

// Contexts end at any moment of an acquire, with a lock that is free and with one that is held; the process lives on.
func (w *World) callersLeave(t *testing.T) {
	l, other := w.Lives(t), w.Lives(t)
	start := time.Now()
	Warm(t, l, w.Key)
	usual := min(time.Since(start), 100*time.Millisecond)
	for i := range 60 {
		var holder lock.Lease
		if i%2 == 1 {
			holder = Obtain(t, other, w.Key)
		}
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(2*usual))
		lease, err := l.Acquire(ctx, w.Key)
		switch {
		case err == nil && holder != nil:
			t.Fatal("two holders")
		case err == nil:
			Release(t, lease)
		case !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("Acquire = %v, want ErrBusy with the cause", err)
		}
		cancel()
		if holder != nil {
			Release(t, holder)
		}
	}
	Warm(t, other, w.Key)
	w.none(t, w.Key)
}
