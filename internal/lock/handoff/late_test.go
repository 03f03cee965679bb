package handoff_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
)

// maxTries is how often the engine sends a call.
const maxTries = 3

// late is two processes of which the second has what it sends kept back.
type late struct {
	t        *testing.T
	l, other lock.Locker
	link     *link
	delete   func() // deletes the lock
	end      func() // cleans up
}

// kept has f's requests kept back. The engine sends them again.
func (s *late) kept(f func()) {
	s.link.keep.Store(true)
	f()
	s.link.keep.Store(false)
}

// acquired is a lease whose first request is kept back.
func (s *late) acquired() lock.Lease {
	var got chan lock.Lease
	s.kept(func() { got, _ = waits(s.t.Context(), s.l, "k{1}") })
	return <-got
}

// givenUp is an acquire, or else the first poll, whose waiter gives up.
func (s *late) givenUp(poll bool) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var failed chan error
	acquire := func() { _, failed = waits(ctx, s.l, "k{1}") }
	if poll {
		acquire()
		s.kept(pollOnce)
	} else {
		s.kept(acquire)
	}
	cancel()
	locktest.WantGaveUp(s.t, <-failed)
}

// pollOnce is long enough for a poll.
func pollOnce() { time.Sleep(2100 * time.Millisecond) }

// granted is a waiter that gets the lock some time after its first poll, which is kept back.
func (s *late) granted(after time.Duration) {
	held := locktest.Obtain(s.t, s.other, "k{1}")
	got, _ := waits(s.t.Context(), s.l, "k{1}")
	s.kept(pollOnce)
	time.Sleep(after)
	locktest.Release(s.t, held)
	released(s.t, <-got)
}

// A request that arrives long after its caller has given up, or has had the lock because it was sent again, has no
// effect any more (invariants 4 and 5).
func TestEngineArrivesLate(t *testing.T) {
	// The client repeats by itself and does not tell.
	const repeats, byTime = ", client that repeats", ", by its MaxHold"
	free := func(s *late) {
		locktest.Release(s.t, s.acquired())
	}
	heldTwice := func(s *late) {
		locktest.Release(s.t, s.acquired())
		locktest.Warm(s.t, s.other, "k{1}")
		locktest.Warm(s.t, s.l, "k{1}")
	}
	granted := func(s *late) { s.granted(time.Second) }
	passedOn := func(s *late) {
		held := s.acquired()
		got, _ := waits(s.t.Context(), s.other, "k{1}")
		locktest.Release(s.t, held)
		next := <-got
		s.end = func() { locktest.Release(s.t, next) }
	}
	lost := func(s *late) {
		lost := s.acquired()
		s.delete()
		<-lost.Context().Done()
		locktest.Warm(s.t, s.other, "k{1}")
		s.end = func() { locktest.ReleaseLost(s.t, lost, "Release of the evicted") }
	}
	for what, happens := range map[string]func(s *late){
		"acquire, given up": func(s *late) { s.givenUp(false) },
		"acquire, given up while it is held": func(s *late) {
			held := locktest.Obtain(s.t, s.other, "k{1}")
			s.givenUp(false)
			s.end = func() { locktest.Release(s.t, held) }
		},
		"acquire, refused": func(s *late) {
			held := locktest.Obtain(s.t, s.other, "k{1}")
			var failed chan error
			s.kept(func() {
				_, failed = async(lock.WithWait(s.t.Context(), 0), s.l, "k{1}")
				synctest.Wait()
			})
			testkit.IsError(s.t, <-failed, lock.ErrBusy, "Acquire")
			locktest.Release(s.t, held)
		},
		"acquire, free since": free, "acquire, free since" + repeats: free,
		"acquire, passed on": passedOn, "acquire, passed on" + repeats: passedOn,
		"acquire, held twice since": heldTwice, "acquire, held twice since" + repeats: heldTwice,
		"acquire, lost": lost, "acquire, lost" + byTime: lost, // whose cancel Redis remembers like a release
		"poll, given up": func(s *late) {
			held := locktest.Obtain(s.t, s.other, "k{1}")
			s.givenUp(true)
			s.end = func() { locktest.Release(s.t, held) }
		},
		"poll, granted after the repetition": granted, "poll, granted after the repetition" + repeats: granted,
		"poll, granted before it": func(s *late) { s.granted(0) },
		// its waiter has given up, and the next contender need not wait for a TTL
		"release that queues": func(s *late) {
			held := locktest.Obtain(s.t, s.l, "k{1}")
			ctx, cancel := context.WithCancel(s.t.Context())
			_, failed := waits(ctx, s.l, "k{1}")
			s.kept(func() {
				if err := held.Release(s.t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
					s.t.Fatalf("Release without an answer = %v, want unknown", err)
				}
			})
			cancel()
			<-failed
			s.end = func() {
				start := time.Now()
				locktest.Release(s.t, locktest.Obtain(s.t, s.other, "k{1}"))
				within(s.t, start, 2500*time.Millisecond, "the next contender gets in")
			}
		},
	} {
		for name, rival := range map[string]string{"handoff": "handoff", "fair": "fair", "rw-write": "rw-write",
			"rw-read": "rw-write"} {
			if what == "release that queues" && name != "handoff" {
				continue // others queue by themselves
			}
			inBubble(t, what+"/"+name, func(t *testing.T) {
				m, links := network(t, 2)
				s := &late{t: t, link: links[1], end: func() {}}
				s.delete = func() { m.Del("k{1}"); m.Del(handoff.KeysOf("k{1}").Readers) }
				retries, o, cancelled := -1, handoff.Options{}, 2*time.Second
				switch {
				case strings.HasSuffix(what, repeats):
					retries = 1
				case strings.HasSuffix(what, byTime):
					o.MaxHold, s.delete = locktest.TTL, func() {}
				case what == "release that queues":
					o.Cohort, cancelled = 1, 500*time.Millisecond // so that each release goes to Redis, and this one is not repeated
				}
				s.other, s.l = pick(links[0].process(t, handoff.Options{}), rival),
					pick(links[1].processOn(t, links[1].retrying(retries), o), name)
				locktest.Warm(t, s.l, "k{1}")
				subscribe(t, s.l, s.other)
				happens(s)
				time.Sleep(cancelled)
				if links[1].deliver() == 0 {
					t.Error("no request was kept back")
				}
				synctest.Wait()
				if n := queued(m, "k{1}"); n != 0 {
					t.Errorf("%d in the queue after a late request", n)
				}
				s.end()
				nothingLeft(t, m, "k{1}")
			})
		}
	}
}

// subscribe has the process of l wait for a lock of the other's, so that from then on its first request for a lock may
// queue.
func subscribe(t *testing.T, l, other lock.Locker) {
	t.Helper()
	held := locktest.Obtain(t, other, "k{0}")
	got, _ := waits(t.Context(), l, "k{0}")
	_ = held.Release(t.Context())
	_ = (<-got).Release(t.Context())
}

// A poll arrives late while its waiter holds the lock for a lease time that is longer than the TTL: the lock does not
// expire earlier, and nobody else gets in (invariant 2).
func TestEngineLatePollKeepsTheLeaseTime(t *testing.T) {
	every(t, func(t *testing.T, p leased) {
		held := locktest.Obtain(t, p.rival, p.key)
		got, _ := waits(lock.WithLease(t.Context(), 2*locktest.TTL), p.locker, p.key)
		p.links[0].keep.Store(true)
		time.Sleep(2100 * time.Millisecond) // past one poll
		p.links[0].keep.Store(false)
		locktest.Release(t, held)
		lease := <-got
		time.Sleep(3 * time.Second) // its TTL is the lease time now
		if p.links[0].deliver() == 0 {
			t.Error("no poll was kept back")
		}
		time.Sleep(locktest.TTL * 3 / 2)
		locktest.WantBusy(t, p.rival, p.key, "before the end of the lease time")
		locktest.Release(t, lease)
	})
}

// A grant's message arrives after the grant has expired, and after a poll has given the lock to another waiter of the
// process: it lets nobody in (invariant 2).
func TestEngineMessageArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, handoff.Options{TTL: time.Second}, "fair", "fair")
		first, second := s.waits(1), s.waits(1)
		s.links[1].calls.Store(true)
		s.links[1].lateMessages.Store(int64(1600 * time.Millisecond))
		_ = s.held.Release(t.Context()) // to the first
		time.Sleep(1010 * time.Millisecond)
		s.links[1].heal()
		lease := <-second
		select {
		case other := <-first:
			t.Errorf("a late message let somebody in with fence %d beside %d", other.Fence(), lease.Fence())
		case <-time.After(2 * time.Second): // what must not happen
			locktest.Release(t, lease)
			locktest.Release(t, <-first)
		}
	})
}

// An acquire that arrives twice keeps the place that the first one had (invariants 4 and 8).
func TestEngineRepeatedAcquireKeepsItsPlace(t *testing.T) {
	scenes(t, 3, handoff.Options{}, func(t *testing.T, s *scene) {
		subscribe(t, s.ls[1], s.ls[2])
		s.links[1].keep.Store(true)
		first := s.waits(1)
		s.links[1].keep.Store(false)
		time.Sleep(time.Second) // it was sent again, and has queued
		second := s.waits(2)
		testkit.Is(t, s.links[1].deliver(), 1, "requests that were kept back")
		synctest.Wait()
		_ = s.held.Release(t.Context())
		synctest.Wait()
		if len(first) != 1 || len(second) != 0 {
			t.Errorf("%d of the first and %d of the second have it, want the first", len(first), len(second))
		}
	})
}

// The message that grants a read overtakes the reply to its acquire, which says that it is queued.
func TestReadWriteMessageOvertakesAnswer(t *testing.T) {
	for name, holder := range map[string]string{"let in": "rw-write", "granted the write lock": "fair"} {
		inBubble(t, name, func(t *testing.T) {
			m, links := network(t, 2)
			a, c, counted := links[0].process(t, handoff.Options{}), links[1].client(), &spy{}
			var keep atomic.Bool
			deliver := make(chan struct{})
			c.AddHook(locktest.SendHook{Name: "evalsha", Send: func(_ context.Context, send func() error) error {
				err := send()
				if keep.CompareAndSwap(true, false) {
					<-deliver
				}
				return err
			}})
			c.AddHook(counted)
			l := links[1].processOn(t, c, handoff.Options{}).ReadWrite().Read()
			subscribe(t, l, a.ReadWrite().Write())
			held := locktest.Obtain(t, pick(a, holder), "k{1}")
			keep.Store(true)
			got, _ := waits(t.Context(), l, "k{1}")
			before := counted.scripts.Load()
			released(t, held)
			synctest.Wait()           // the message has been read
			if holder == "rw-write" { // all is said: it is in, and out again, before the answer
				released(t, <-got)
				close(deliver)
			} else { // it sends another acquire, at once and not with the next poll
				close(deliver)
				released(t, <-got)
				if n := counted.scripts.Load() - before; n != 2 {
					t.Errorf("%d scripts, want an acquire and a release", n)
				}
			}
			nothingLeft(t, m, "k{1}")
		})
	}
}
