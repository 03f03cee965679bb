package handoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
)

// shortTTL is not much longer than slowness: a lease that is counted from the reply lasts too long.
const shortTTL = 300 * time.Millisecond

// However a lease was acquired, with the network dead afterwards it ends before its key expires in Redis: it is counted from the sending of
// the request, not from the reply (invariant 2).
func TestEngineLeaseCountsFromTheSending(t *testing.T) {
	t.Parallel()
	ways := map[string]func(t *testing.T, w []*link, name string) lock.Lease{
		"asked": func(t *testing.T, w []*link, name string) lock.Lease {
			w[1].slow.Store(int64(slowness))
			return locktest.Obtain(t, pick(w[1].process(t, handoff.Options{TTL: shortTTL}), name), "k{1}")
		},
		"renewed": func(t *testing.T, w []*link, name string) lock.Lease {
			lease := locktest.Obtain(t, pick(w[1].process(t, handoff.Options{TTL: shortTTL}), name), "k{1}")
			time.Sleep(shortTTL) // the server knows the script now
			w[1].slow.Store(int64(slowness))
			time.Sleep(2*shortTTL + shortTTL/2)
			return lease
		},
		"told by a message": func(t *testing.T, w []*link, name string) lock.Lease {
			held := locktest.Obtain(t, pick(w[0].process(t, handoff.Options{TTL: shortTTL}), name), "k{1}")
			got, _ := waits(t.Context(), pick(w[1].process(t, handoff.Options{TTL: shortTTL}), name), "k{1}")
			time.Sleep(shortTTL)
			w[1].slow.Store(int64(slowness))
			_ = held.Release(t.Context())
			return <-got
		},
		"told by a message, fast": func(t *testing.T, w []*link, name string) lock.Lease {
			held := locktest.Obtain(t, pick(w[0].process(t, handoff.Options{TTL: shortTTL}), name), "k{1}")
			got, _ := waits(t.Context(), pick(w[1].process(t, handoff.Options{TTL: shortTTL}), name), "k{1}")
			_ = held.Release(t.Context())
			return <-got
		},
		"found by the poll": func(t *testing.T, w []*link, name string) lock.Lease {
			held := locktest.Obtain(t, pick(w[0].process(t, handoff.Options{TTL: shortTTL}), name), "k{1}")
			got, _ := waits(t.Context(), pick(w[1].process(t, handoff.Options{TTL: shortTTL}), name), "k{1}")
			w[1].dropsMessages.Store(true)
			w[1].slow.Store(int64(slowness))
			_ = held.Release(t.Context())
			return <-got
		},
		"asked again with the release": func(t *testing.T, w []*link, name string) lock.Lease {
			l := pick(w[1].process(t, handoff.Options{TTL: shortTTL, Cohort: 1}), name)
			elsewhere := locktest.Obtain(t, pick(w[0].process(t, handoff.Options{TTL: shortTTL}), name), "k{2}")
			subscribed, _ := waits(t.Context(), l, "k{2}") // so that nothing is connected while the network is slow
			_ = elsewhere.Release(t.Context())
			_ = (<-subscribed).Release(t.Context())
			held := locktest.Obtain(t, l, "k{1}")
			got, _ := waits(t.Context(), l, "k{1}")
			time.Sleep(shortTTL) // it listens now
			w[1].slow.Store(int64(slowness))
			go func() { _ = held.Release(context.Background()) }()
			return <-got
		},
		"passed on here": func(t *testing.T, w []*link, name string) lock.Lease {
			l := pick(w[1].process(t, handoff.Options{TTL: shortTTL, CohortTime: time.Minute}), name)
			held := locktest.Obtain(t, l, "k{1}")
			got, _ := waits(t.Context(), l, "k{1}")
			time.Sleep(shortTTL + shortTTL/3)
			go func() { _ = held.Release(context.Background()) }()
			return <-got
		},
	}
	for way, have := range ways {
		t.Run(way, func(t *testing.T) {
			both(t, func(t *testing.T, name string) {
				m, links := network(t, 2)
				lease := have(t, links, name)
				links[1].powerOff()
				endsBefore(t, m, lease)
			})
		})
	}
}

// endsBefore waits for the end of a lease, and fails if the server's key did not outlive it by the margin.
func endsBefore(t *testing.T, m *miniredis.Miniredis, lease lock.Lease) {
	t.Helper()
	start := time.Now()
	<-lease.Context().Done()
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause = %v, want ErrLost", cause)
	}
	if remaining := m.TTL("k{1}"); remaining < shortTTL/100+time.Millisecond {
		t.Errorf("the lease ended %s before the lock expired, want a margin of %s", remaining, shortTTL/100+2*time.Millisecond)
	}
	if lived := time.Since(start); lived < shortTTL/8 {
		t.Errorf("the lease lived for %s more only", lived)
	}
}

// A lease that the server no longer has ends with the next renewal. Neither renewals nor the release touch another owner's key
// (invariant 1).
func TestEngineLeavesForeignKeysAlone(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		m, links := network(t, 1)
		lease := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{1}")
		if err := m.Set("k{1}", "somebody else"); err != nil {
			t.Fatal(err)
		}
		m.SetTTL("k{1}", locktest.TTL)
		start := time.Now()
		select {
		case <-lease.Context().Done():
		case <-time.After(mustHappenWithin):
		}
		if took := time.Since(start); took > locktest.TTL/2 {
			t.Errorf("told after %s, the next renewal was due after %s", took, locktest.TTL*2/5)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
		synctest.Wait()
		if owner, _ := m.Get("k{1}"); owner != "somebody else" {
			t.Errorf("the owner is %q, want somebody else", owner)
		}
		if remaining, want := m.TTL("k{1}"), locktest.TTL-time.Since(start); remaining > want {
			t.Errorf("%s left of somebody else's TTL, want %s", remaining, want)
		}
	})
}

// After a release has begun nothing else is sent about the lock (invariant 7), at any point of a renewal's period, and whatever the renewal
// in flight is answered.
func TestEngineNoRenewalAfterRelease(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, name string) {
		for offset := 2 * time.Millisecond; offset < shortTTL; offset += 5 * time.Millisecond {
			m, links := network(t, 1)
			c, counted := links[0].client(), &spy{}
			t.Cleanup(func() { _ = c.Close() })
			c.AddHook(counted)
			l := pick(engine(t, c, handoff.Options{TTL: shortTTL}), name)
			lease := locktest.Obtain(t, l, "k{1}")
			time.Sleep(shortTTL) // the server knows all scripts now
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			lease = locktest.Obtain(t, l, "k{1}")
			links[0].slow.Store(int64(slowness / 3))
			time.Sleep(offset)
			before := counted.scripts.Load()
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * shortTTL)
			if got := counted.scripts.Load() - before; got != 1 {
				t.Errorf("%d commands from the release on, %s after the acquire, want 1", got, offset)
			}
			nothingLeft(t, m, "k{1}")
		}
	})
}
