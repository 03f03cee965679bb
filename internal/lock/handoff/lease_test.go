package handoff_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
)

// shortTTL is not much longer than slowness: a lease that is counted from the reply lasts too long.
const shortTTL = 300 * time.Millisecond

// However a lease was acquired, with the network dead afterwards it ends before its key expires in Redis: it is counted
// from the sending of the request, not from the reply (invariant 2).
func TestEngineLeaseCountsFromTheSending(t *testing.T) {
	t.Parallel()
	o := handoff.Options{TTL: shortTTL}
	slow := func(w []*link) { w[1].slow.Store(int64(slowness)) }
	told := func(t *testing.T, w []*link, name string, before func()) lock.Lease {
		held := locktest.Obtain(t, pick(w[0].process(t, o), name), "k{1}")
		got, _ := waits(t.Context(), pick(w[1].process(t, o), name), "k{1}")
		before()
		_ = held.Release(t.Context())
		return <-got
	}
	ways := map[string]func(t *testing.T, w []*link, name string) lock.Lease{
		"asked": func(t *testing.T, w []*link, name string) lock.Lease {
			slow(w)
			return locktest.Obtain(t, pick(w[1].process(t, o), name), "k{1}")
		},
		"renewed": func(t *testing.T, w []*link, name string) lock.Lease {
			lease := locktest.Obtain(t, pick(w[1].process(t, o), name), "k{1}")
			time.Sleep(shortTTL) // the server knows the script now
			slow(w)
			time.Sleep(2*shortTTL + shortTTL/2)
			return lease
		},
		"told by a message": func(t *testing.T, w []*link, name string) lock.Lease {
			return told(t, w, name, func() { time.Sleep(shortTTL); slow(w) })
		},
		"told by a message, fast": func(t *testing.T, w []*link, name string) lock.Lease {
			return told(t, w, name, func() {})
		},
		"found by the poll": func(t *testing.T, w []*link, name string) lock.Lease {
			return told(t, w, name, func() { w[1].dropsMessages.Store(true); slow(w) })
		},
		"asked again with the release": func(t *testing.T, w []*link, name string) lock.Lease {
			l := pick(w[1].process(t, handoff.Options{TTL: shortTTL, Cohort: 1}), name)
			subscribe(t, l, pick(w[0].process(t, o), name)) // so that nothing is connected while the network is slow
			held := locktest.Obtain(t, l, "k{1}")
			got, _ := waits(t.Context(), l, "k{1}")
			time.Sleep(shortTTL) // it listens now
			slow(w)
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
	locktest.WantLost(t, lease, 0)
	if remaining := m.TTL("k{1}"); remaining < shortTTL/100+time.Millisecond {
		t.Errorf("the lease ended %s before the lock expired, want a margin of %s", remaining,
			shortTTL/100+2*time.Millisecond)
	}
	if lived := time.Since(start); lived < shortTTL/8 {
		t.Errorf("the lease lived for %s more only", lived)
	}
}

// A lease that the server no longer has ends with the next renewal. Neither renewals nor the release touch another
// owner's key (invariant 1).
func TestEngineLeavesForeignKeysAlone(t *testing.T) {
	scenes(t, 1, handoff.Options{}, func(t *testing.T, s *scene) {
		m, lease := s.m, s.held
		testkit.Must(t, m.Set("k{1}", "somebody else"))
		m.SetTTL("k{1}", locktest.TTL)
		start := time.Now()
		select {
		case <-lease.Context().Done():
		case <-time.After(locktest.TTL): // else its renewals would go on for ever
		}
		within(t, start, locktest.TTL/2, "the holder is told with the next renewal")
		locktest.ReleaseLost(t, lease, "Release")
		synctest.Wait()
		if owner, _ := m.Get("k{1}"); owner != "somebody else" {
			t.Errorf("the owner is %q, want somebody else", owner)
		}
		if remaining, want := m.TTL("k{1}"), locktest.TTL-time.Since(start); remaining > want {
			t.Errorf("%s left of somebody else's TTL, want %s", remaining, want)
		}
	})
}

// After a release has begun nothing else is sent about the lock (invariant 7), at any point of a renewal's period, and
// whatever the renewal in flight is answered.
func TestEngineNoRenewalAfterRelease(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, name string) {
		for offset := 2 * time.Millisecond; offset < shortTTL; offset += 20 * time.Millisecond {
			m, links := network(t, 1)
			c, counted := links[0].client(), &spy{}
			t.Cleanup(func() { _ = c.Close() })
			c.AddHook(counted)
			l := pick(engine(t, c, handoff.Options{TTL: shortTTL}), name)
			lease := locktest.Obtain(t, l, "k{1}")
			time.Sleep(shortTTL) // the server knows all scripts now
			released(t, lease)
			lease = locktest.Obtain(t, l, "k{1}")
			links[0].slow.Store(int64(slowness / 3))
			time.Sleep(offset)
			before := counted.scripts.Load()
			released(t, lease)
			time.Sleep(2 * shortTTL)
			if got := counted.scripts.Load() - before; got != 1 {
				t.Errorf("%d commands from the release on, %s after the acquire, want 1", got, offset)
			}
			nothingLeft(t, m, "k{1}")
		}
	})
}

// every runs a test in a bubble for each of the engine's locks, with two processes; rival is a lock that excludes it.
func every(t *testing.T, f func(t *testing.T, p leased)) {
	for _, name := range []string{"handoff", "fair", "fenced", "rw-write", "rw-read"} {
		inBubble(t, name, func(t *testing.T) {
			m, links := network(t, 2)
			p := leased{key: "k{1}", held: "k{1}", scripts: &spy{}, links: links}
			p.ttl = func() time.Duration { return m.TTL(p.held) }
			c := links[0].client()
			own, other := links[0].processOn(t, c, handoff.Options{}), links[1].process(t, handoff.Options{})
			p.locker, p.rival = pick(own, name), other.Fair()
			switch name {
			case "fenced":
				p.locker = own.Fenced(func(context.Context, string) (uint64, error) { return 0, nil })
			case "rw-read", "rw-write":
				p.rival = other.ReadWrite().Write()
			}
			if name == "rw-read" {
				p.held = handoff.KeysOf(p.key).Readers
			}
			p.end(t, time.Second) // loads the scripts, as the next three lines do
			renewed := locktest.Obtain(t, p.locker, p.key)
			time.Sleep(locktest.TTL / 2)
			locktest.Release(t, renewed)
			locktest.Warm(t, p.rival, p.key)
			c.AddHook(p.scripts)
			f(t, p)
		})
	}
}

// leased is what a test of a lease time needs. held is the key that the lock has while it is held, ttl its TTL, and
// scripts counts what the locker's process sends.
type leased struct {
	locker, rival lock.Locker
	key, held     string
	ttl           func() time.Duration
	scripts       *spy
	links         []*link
}

// end takes the lock for d and returns the lease after its end.
func (p leased) end(t *testing.T, d time.Duration) lock.Lease {
	t.Helper()
	began := time.Now()
	lease := locktest.Acquire(lock.WithLease(t.Context(), d), t, p.locker, p.key)
	near(t, "TTL of the key", p.ttl(), d)
	<-lease.Context().Done()
	near(t, "time until the end", time.Since(began), d)
	testkit.IsError(t, context.Cause(lease.Context()), lock.ErrLost, "cause")
	synctest.Wait()
	return lease
}

// near fails unless got is at most 2 % and 10 ms less than want.
func near(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got > want || got < want-want/50-10*time.Millisecond {
		t.Errorf("%s: %s, want %s or a little less", what, got, want)
	}
}

// The lease time may be shorter or longer than the engine's TTL: one command takes the lock for it, none renews it, it
// ends at its time, and a rival need not wait any longer.
func TestLeaseTimeIsNotRenewed(t *testing.T) {
	every(t, func(t *testing.T, p leased) {
		for _, d := range []time.Duration{300 * time.Millisecond, 5 * time.Second, 90 * time.Second} {
			p.scripts.scripts.Store(0)
			lease := p.end(t, d)
			if n := p.scripts.scripts.Load(); n != 2 { // the acquire, and the cancel at the end
				t.Errorf("%d scripts for a lease time of %s, want 2", n, d)
			}
			second := locktest.Take(t, p.rival, p.key)
			locktest.WantHigher(t, lease, second)
			locktest.ReleaseLost(t, lease, "late Release")
			locktest.Release(t, second)
		}
	})
}

// The cancel of a read whose lease time is over may still be on its way when a writer notices: the other waiters of
// that process keep their places in the queue.
func TestLeaseTimeOfAReaderSilencesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 2)
		l, rival := links[0].process(t, handoff.Options{}).ReadWrite(), links[1].process(t, handoff.Options{}).ReadWrite()
		locktest.Acquire(lock.WithLease(t.Context(), time.Second), t, l.Read(), "k{1}")
		writer, _ := waits(t.Context(), rival.Write(), "k{1}")
		next, _ := waits(t.Context(), l.Read(), "k{1}")
		links[0].keep.Store(true)
		writing := <-writer
		links[0].keep.Store(false)
		locktest.Release(t, writing)
		began := time.Now()
		locktest.Release(t, <-next)
		within(t, began, 50*time.Millisecond, "the next reader gets in after the writer")
	})
}

// A lock that was waited for comes by a message, which grants it for the grant timeout only. It still has its lease
// time, and no more.
func TestLeaseTimeAfterAWait(t *testing.T) {
	every(t, func(t *testing.T, p leased) {
		for _, d := range []time.Duration{time.Second, 2500 * time.Millisecond, 10 * time.Second, 90 * time.Second} {
			first := locktest.Obtain(t, p.rival, p.key)
			got, _ := waits(lock.WithLease(t.Context(), d), p.locker, p.key)
			time.Sleep(9 * time.Second) // polls change nothing; the next one is due a second later
			locktest.Release(t, first)
			lease := <-got
			began := time.Now()
			p.scripts.scripts.Store(0)
			next, _ := waits(t.Context(), p.rival, p.key)
			time.Sleep(min(d/2, 2*time.Second))
			if p.held == p.key { // a writer that waits keeps the readers' key for longer
				near(t, "TTL of the key", p.ttl(), max(d, 2500*time.Millisecond)-time.Since(began))
			}
			second := <-next // at the end, by a message
			near(t, "time until a waiting rival gets in", time.Since(began), d)
			testkit.IsError(t, lease.Context().Err(), context.Canceled, "the lease's context")
			if n := p.scripts.scripts.Load(); n > 2 {
				t.Errorf("%d scripts for a lease time of %s, want one renewal at most, and the cancel", n, d)
			}
			locktest.ReleaseLost(t, lease, "late Release")
			locktest.Release(t, second)
		}
	})
}

// A holder that releases in time frees the lock then, like any other; a process that dies keeps it for the lease time.
func TestLeaseTimeOfTheDead(t *testing.T) {
	every(t, func(t *testing.T, p leased) {
		lease := locktest.Acquire(lock.WithLease(t.Context(), time.Minute), t, p.locker, p.key)
		locktest.Release(t, lease)
		locktest.Release(t, locktest.Take(t, p.rival, p.key))

		began := time.Now()
		locktest.Acquire(lock.WithLease(t.Context(), 10*time.Second), t, p.locker, p.key)
		p.links[0].powerOff()
		p.links[0].cut()
		locktest.Release(t, locktest.Obtain(t, p.rival, p.key))
		if took := time.Since(began); took < 10*time.Second || took > 13*time.Second { // a poll finds it
			t.Errorf("a rival got in after %s, want 10 s and a poll at most", took)
		}
	})
}

// A re-entry shares the end of a hold that has one. It is refused in a hold that is renewed, whose lock would outlive
// it.
func TestLeaseTimeAndReentry(t *testing.T) {
	every(t, func(t *testing.T, p leased) {
		outer := locktest.Acquire(lock.WithLease(t.Context(), 5*time.Second), t, p.locker, p.key)
		inner := locktest.Acquire(lock.WithReentry(lock.WithLease(outer.Context(), time.Hour)), t, p.locker, p.key)
		<-inner.Context().Done()
		locktest.ReleaseLost(t, inner, "Release of the re-entry")
		locktest.ReleaseLost(t, outer, "Release")

		renewed := locktest.Obtain(t, p.locker, p.key)
		again := lock.WithReentry(lock.WithLease(renewed.Context(), time.Second))
		_, err := p.locker.Acquire(again, p.key)
		testkit.IsError(t, err, lock.ErrLeaseTime, "re-entry with a lease time")
		locktest.Release(t, renewed)
		for _, d := range []time.Duration{-1, 0, 49 * time.Millisecond} {
			_, err := p.locker.Acquire(lock.WithLease(t.Context(), d), p.key)
			testkit.IsError(t, err, lock.ErrLeaseTime, "Acquire with a lease time of %s", d)
		}
	})
}

// A lease's context is made at the first call of Context: it is the same as one that was made at the beginning.
func TestEngineContextMadeLate(t *testing.T) {
	gone := errors.New("gone home")
	for ends, want := range map[string]error{
		"lost": lock.ErrLost, "released": context.Canceled, "caller": gone, "lost, caller": lock.ErrLost,
		"released, caller": context.Canceled, "caller, released": gone,
	} {
		inBubble(t, ends, func(t *testing.T) {
			_, links := network(t, 1)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			lease := locktest.Acquire(ctx, t, links[0].process(t, handoff.Options{MaxHold: time.Minute}).Handoff(), "k{1}")
			for end := range strings.SplitSeq(ends, ", ") {
				switch end {
				case "lost":
					time.Sleep(2 * time.Minute)
				case "released":
					_ = lease.Release(context.Background())
				default:
					cancel(gone)
				}
			}
			testkit.IsError(t, context.Cause(lease.Context()), want, "cause of the context that is asked for afterwards")
			_ = lease.Release(context.Background())
		})
	}
}

// All callers of Context get the same context, which ends with the hold.
func TestEngineContextOfManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 1)
		lease := locktest.Obtain(t, links[0].process(t, handoff.Options{}).Handoff(), "k{1}")
		var wg sync.WaitGroup
		all := make([]context.Context, 8)
		for i := range all {
			wg.Go(func() {
				all[i] = lease.Context()
				if i%4 == 3 {
					_ = lease.Release(context.Background())
				}
			})
		}
		wg.Wait()
		for _, ctx := range all {
			if ctx != all[0] || ctx.Err() == nil {
				t.Errorf("one got %v, which has ended with %v; the first %v", ctx, ctx.Err(), all[0])
			}
		}
	})
}
