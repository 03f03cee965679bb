package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
)

// A request that arrives long after its caller has given up has no effect any more (invariants 4 and 5).
func TestEngineAcquireArrivesLate(t *testing.T) {
	for _, held := range []bool{false, true} {
		t.Run(fmt.Sprintf("held %t", held), func(t *testing.T) {
			both(t, func(t *testing.T, name string) {
				m, links := network(t, 2)
				other := pick(links[0].process(t, handoff.Options{}), name)
				l := pick(links[1].process(t, handoff.Options{}), name)
				locktest.Warm(t, l, "k{1}")
				subscribe(t, l, other)
				var holder lock.Lease
				if held {
					holder = locktest.Obtain(t, other, "k{1}")
				}
				links[1].keep.Store(true)
				ctx, cancel := context.WithCancel(t.Context())
				_, failed := waits(ctx, l, "k{1}")
				links[1].keep.Store(false)
				cancel()
				if err := <-failed; !errors.Is(err, lock.ErrBusy) {
					t.Errorf("Acquire = %v, want ErrBusy", err)
				}
				time.Sleep(2 * time.Second)
				if n := links[1].deliver(); n == 0 {
					t.Error("no request was kept back")
				}
				synctest.Wait()
				if n := queued(m, "k{1}"); n != 0 {
					t.Errorf("%d in the queue after a late request", n)
				}
				if held {
					_ = holder.Release(t.Context())
				}
				synctest.Wait()
				nothingLeft(t, m, "k{1}")
			})
		})
	}
}

// The same, of a request that was sent again, granted and released meanwhile; once, to a waiter, or several times since.
func TestEngineGrantedAcquireArrivesLate(t *testing.T) {
	since := map[string]func(l, other lock.Locker, held lock.Lease) (end func()){
		"free since": func(_, _ lock.Locker, held lock.Lease) func() {
			_ = held.Release(context.Background())
			return func() {}
		},
		"passed on": func(_, other lock.Locker, held lock.Lease) func() {
			got, _ := waits(context.Background(), other, "k{1}")
			_ = held.Release(context.Background())
			next := <-got
			return func() { _ = next.Release(context.Background()) }
		},
		"held by another since": func(_, other lock.Locker, held lock.Lease) func() {
			_ = held.Release(context.Background())
			next, _ := other.Acquire(context.Background(), "k{1}")
			_ = next.Release(context.Background())
			return func() {}
		},
		"held twice since": func(l, other lock.Locker, held lock.Lease) func() {
			_ = held.Release(context.Background())
			for _, l := range []lock.Locker{other, l} {
				next, _ := l.Acquire(context.Background(), "k{1}")
				_ = next.Release(context.Background())
			}
			return func() {}
		},
	}
	for when, happens := range since {
		t.Run(when, func(t *testing.T) {
			both(t, func(t *testing.T, name string) { lateAcquire(t, name, -1, happens) })
		})
	}
	// A client that repeats by itself does not tell: then the last releaser is remembered, and no other.
	for _, when := range []string{"free since", "passed on"} {
		t.Run(when+", client that repeats", func(t *testing.T) {
			both(t, func(t *testing.T, name string) { lateAcquire(t, name, 1, since[when]) })
		})
	}
}

// subscribe has the process of l wait for a lock of the other's, so that from then on its first request for a lock may queue.
func subscribe(t *testing.T, l, other lock.Locker) {
	t.Helper()
	held := locktest.Obtain(t, other, "k{0}")
	got, _ := waits(t.Context(), l, "k{0}")
	_ = held.Release(t.Context())
	_ = (<-got).Release(t.Context())
}

// lateAcquire has an acquire arrive after it was repeated and granted, and something else happened.
func lateAcquire(t *testing.T, name string, retries int, happens func(l, other lock.Locker, held lock.Lease) (end func())) {
	m, links := network(t, 2)
	other := pick(links[0].process(t, handoff.Options{}), name)
	l := pick(links[1].processOn(t, links[1].retrying(retries), handoff.Options{}), name)
	locktest.Warm(t, l, "k{1}")
	subscribe(t, l, other)
	links[1].keep.Store(true)
	got, _ := waits(t.Context(), l, "k{1}")
	links[1].keep.Store(false)
	end := happens(l, other, <-got)
	time.Sleep(time.Second)
	if n := links[1].deliver(); n == 0 {
		t.Error("no request was kept back")
	}
	synctest.Wait()
	if n := queued(m, "k{1}"); n != 0 {
		t.Errorf("%d in the queue after a late request", n)
	}
	end()
	synctest.Wait()
	nothingLeft(t, m, "k{1}")
}

// A poll that arrives after its waiter has given up does not queue for it again (invariants 4 and 5).
func TestEnginePollArrivesLate(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		m, links := network(t, 2)
		locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{1}")
		l := pick(links[1].process(t, handoff.Options{}), name)
		ctx, cancel := context.WithCancel(t.Context())
		_, failed := waits(ctx, l, "k{1}")
		links[1].keep.Store(true)
		time.Sleep(2100 * time.Millisecond) // past one poll
		links[1].keep.Store(false)
		cancel()
		<-failed
		time.Sleep(2 * time.Second)
		if n := links[1].deliver(); n == 0 {
			t.Error("no poll was kept back")
		}
		synctest.Wait()
		if n := queued(m, "k{1}"); n != 0 {
			t.Errorf("%d in the queue after a late poll", n)
		}
	})
}

// The same, of a poll that was repeated, and whose waiter has had the lock since.
func TestEngineGrantedPollArrivesLate(t *testing.T) {
	for when, since := range map[string]time.Duration{"granted after the repetition": time.Second, "granted before it": 0} {
		t.Run(when, func(t *testing.T) {
			both(t, func(t *testing.T, name string) {
				m, links := network(t, 2)
				held := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{1}")
				got, _ := waits(t.Context(), pick(links[1].process(t, handoff.Options{}), name), "k{1}")
				links[1].keep.Store(true)
				time.Sleep(2100 * time.Millisecond) // past one poll
				links[1].keep.Store(false)
				time.Sleep(since)
				_ = held.Release(t.Context())
				if err := (<-got).Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
				time.Sleep(2 * time.Second)
				if n := links[1].deliver(); n == 0 {
					t.Error("no poll was kept back")
				}
				synctest.Wait()
				nothingLeft(t, m, "k{1}")
			})
		})
	}
}

// The same, while its waiter holds the lock for a lease time that is longer than the TTL: the lock does not expire earlier, and nobody else gets
// in (invariant 2).
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
		if n := p.links[0].deliver(); n == 0 {
			t.Error("no poll was kept back")
		}
		time.Sleep(locktest.TTL * 3 / 2)
		locktest.WantBusy(t, p.rival, p.key, "before the end of the lease time")
		locktest.Release(t, lease)
	})
}

// A grant's message arrives after the grant has expired, and after a poll has given the lock to another waiter of the process: it lets
// nobody in (invariant 2).
func TestEngineMessageArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 2)
		o := handoff.Options{TTL: time.Second}
		held := locktest.Obtain(t, links[0].process(t, o).Fair(), "k{1}")
		l := links[1].process(t, o).Fair()
		first, _ := waits(t.Context(), l, "k{1}")
		second, _ := waits(t.Context(), l, "k{1}")
		links[1].calls.Store(true)
		links[1].lateMessages.Store(int64(1600 * time.Millisecond))
		_ = held.Release(t.Context()) // to the first
		time.Sleep(1010 * time.Millisecond)
		links[1].heal()
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
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 3)
		held := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{1}")
		l := pick(links[1].process(t, handoff.Options{}), name)
		subscribe(t, l, pick(links[2].process(t, handoff.Options{}), name))
		links[1].keep.Store(true)
		first, _ := waits(t.Context(), l, "k{1}")
		links[1].keep.Store(false)
		time.Sleep(time.Second) // it was sent again, and has queued
		second, _ := waits(t.Context(), pick(links[2].process(t, handoff.Options{}), name), "k{1}")
		if n := links[1].deliver(); n == 0 {
			t.Error("no request was kept back")
		}
		synctest.Wait()
		_ = held.Release(t.Context())
		synctest.Wait()
		if len(first) != 1 || len(second) != 0 {
			t.Errorf("%d of the first and %d of the second have it, want the first", len(first), len(second))
		}
	})
}

// The same, of an acquire whose lease was lost meanwhile.
func TestEngineLostAcquireArrivesLate(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		m, links := network(t, 2)
		other := pick(links[0].process(t, handoff.Options{}), name)
		l := pick(links[1].process(t, handoff.Options{}), name)
		locktest.Warm(t, l, "k{1}")
		links[1].keep.Store(true)
		got, _ := waits(t.Context(), l, "k{1}")
		links[1].keep.Store(false)
		lost := <-got
		m.Del("k{1}")
		<-lost.Context().Done()
		locktest.Warm(t, other, "k{1}")
		time.Sleep(time.Second)
		if n := links[1].deliver(); n == 0 {
			t.Error("no request was kept back")
		}
		synctest.Wait()
		nothingLeft(t, m, "k{1}")
		if err := lost.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
	})
}

// The same, of an acquire that follows a release whose answers were lost, and that had queued for the next one here: a message
// was faster.
func TestEngineAcquireAfterLostReleaseArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, links := network(t, 2)
		other := links[0].process(t, handoff.Options{}).Handoff()
		c, lost := links[1].client(), &loseThenKeep{LostAnswers: locktest.LostAnswers{Name: "evalsha"}, link: links[1]}
		c.AddHook(lost)
		l := links[1].processOn(t, c, handoff.Options{Cohort: 1}).Handoff()
		subscribe(t, l, other)
		held := locktest.Obtain(t, l, "k{1}")
		own, _ := waits(t.Context(), l, "k{1}")
		got, _ := waits(t.Context(), other, "k{1}")
		lost.Left.Store(maxTries)
		if err := held.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
			t.Errorf("Release = %v, want unknown", err)
		}
		synctest.Wait() // until the acquire that follows is kept back
		_ = (<-got).Release(t.Context())
		lease := <-own
		links[1].keep.Store(false)
		_ = lease.Release(t.Context())
		locktest.Warm(t, other, "k{1}")
		if n := links[1].deliver(); n == 0 {
			t.Error("no request was kept back")
		}
		synctest.Wait()
		nothingLeft(t, m, "k{1}")
	})
}

// maxTries is how often the engine sends a call.
const maxTries = 3

// loseThenKeep keeps back what is sent after the last answer that it loses.
type loseThenKeep struct {
	locktest.LostAnswers
	link *link
}

func (h *loseThenKeep) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	swallowed := h.LostAnswers.ProcessHook(next)
	return func(ctx context.Context, cmd redis.Cmder) error {
		last := h.Left.Load() == 1
		err := swallowed(ctx, cmd)
		if last {
			h.link.keep.Store(true)
		}
		return err
	}
}

// The same, of an acquire that was repeated for a caller that does not wait, and that was answered with 'held'.
func TestEngineRefusedAcquireArrivesLate(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		m, links := network(t, 2)
		held := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{1}")
		l := pick(links[1].process(t, handoff.Options{}), name)
		links[1].keep.Store(true)
		failed := make(chan error, 1)
		go func() {
			_, err := l.Acquire(lock.WithWait(t.Context(), 0), "k{1}")
			failed <- err
		}()
		synctest.Wait()
		links[1].keep.Store(false)
		if err := <-failed; !errors.Is(err, lock.ErrBusy) {
			t.Errorf("Acquire = %v, want ErrBusy", err)
		}
		_ = held.Release(t.Context())
		time.Sleep(time.Second)
		if n := links[1].deliver(); n == 0 {
			t.Error("no request was kept back")
		}
		synctest.Wait()
		nothingLeft(t, m, "k{1}")
	})
}

// A lease was lost and its attempt cancelled, which Redis remembers like a release. The holder's release reports the loss all the same.
func TestEngineReleaseOfALostAndCancelledLease(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 2)
		other := pick(links[0].process(t, handoff.Options{}), name)
		l := pick(links[1].process(t, handoff.Options{MaxHold: locktest.TTL}), name)
		links[1].keep.Store(true)
		got, _ := waits(t.Context(), l, "k{1}")
		links[1].keep.Store(false)
		lost := <-got
		<-lost.Context().Done()
		locktest.Obtain(t, other, "k{1}")
		if err := lost.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release after somebody else was let in = %v, want ErrLost", err)
		}
	})
}

// A release that also queues its process again arrives late, after the waiter for which it queues has given up: nobody holds the lock from
// then on (invariants 4 and 5), and the next contender gets in with the next poll, not after a TTL.
func TestEngineReleaseArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, links := network(t, 2)
		other := links[0].process(t, handoff.Options{}).Handoff()
		l := links[1].process(t, handoff.Options{Cohort: 1}).Handoff() // so that each release goes to Redis
		locktest.Warm(t, l, "k{1}")
		subscribe(t, l, other)
		held := locktest.Obtain(t, l, "k{1}")
		ctx, cancel := context.WithCancel(t.Context())
		_, failed := waits(ctx, l, "k{1}")
		links[1].keep.Store(true)
		if err := held.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
			t.Fatalf("Release without an answer = %v, want unknown", err)
		}
		links[1].keep.Store(false)
		cancel()
		<-failed
		time.Sleep(500 * time.Millisecond) // the cancel of the waiter has arrived
		if n := links[1].deliver(); n == 0 {
			t.Fatal("no request was kept back")
		}
		synctest.Wait()
		start := time.Now()
		next := locktest.Obtain(t, other, "k{1}")
		if took := time.Since(start); took > 2500*time.Millisecond {
			t.Errorf("the next contender got in after %s, want 2.5 s at most", took)
		}
		_ = next.Release(t.Context())
		synctest.Wait()
		nothingLeft(t, m, "k{1}")
	})
}
