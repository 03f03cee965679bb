package handoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
)

// every runs a test in a bubble for each of the engine's locks, with two processes; rival is a lock that excludes it.
func every(t *testing.T, f func(t *testing.T, p leased)) {
	for _, name := range []string{"handoff", "fair", "fenced", "rw-write", "rw-read"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}

// leased is what a test of a lease time needs. held is the key that the lock has while it is held, ttl its TTL, and scripts counts what the
// locker's process sends.
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
	lease, err := p.locker.Acquire(lock.WithLease(t.Context(), d), p.key)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "TTL of the key", p.ttl(), d)
	<-lease.Context().Done()
	near(t, "time until the end", time.Since(began), d)
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause = %v, want ErrLost", cause)
	}
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

// The lease time may be shorter or longer than the engine's TTL: one command takes the lock for it, none renews it, it ends at its time, and
// a rival need not wait any longer.
func TestLeaseTimeIsNotRenewed(t *testing.T) {
	every(t, func(t *testing.T, p leased) {
		for _, d := range []time.Duration{300 * time.Millisecond, 5 * time.Second, 90 * time.Second} {
			p.scripts.scripts.Store(0)
			lease := p.end(t, d)
			if n := p.scripts.scripts.Load(); n != 2 { // the acquire, and the cancel at the end
				t.Errorf("%d scripts for a lease time of %s, want 2", n, d)
			}
			second := locktest.Take(t, p.rival, p.key)
			if second.Fence() <= lease.Fence() {
				t.Errorf("the rival's fence is %d, after %d", second.Fence(), lease.Fence())
			}
			if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("late Release = %v, want ErrLost", err)
			}
			locktest.Release(t, second)
		}
	})
}

// A lock that was waited for comes by a message, which grants it for the grant timeout only. It still has its lease time, and no more.
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
			if err := lease.Context().Err(); err == nil {
				t.Error("the lease has not ended")
			}
			if n := p.scripts.scripts.Load(); n > 2 {
				t.Errorf("%d scripts for a lease time of %s, want one renewal at most, and the cancel", n, d)
			}
			if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("late Release = %v, want ErrLost", err)
			}
			locktest.Release(t, second)
		}
	})
}

// A holder that releases in time frees the lock then, like any other; a process that dies keeps it for the lease time.
func TestLeaseTimeOfTheDead(t *testing.T) {
	every(t, func(t *testing.T, p leased) {
		lease, err := p.locker.Acquire(lock.WithLease(t.Context(), time.Minute), p.key)
		if err != nil {
			t.Fatal(err)
		}
		locktest.Release(t, lease)
		locktest.Release(t, locktest.Take(t, p.rival, p.key))

		began := time.Now()
		if _, err = p.locker.Acquire(lock.WithLease(t.Context(), 10*time.Second), p.key); err != nil {
			t.Fatal(err)
		}
		p.links[0].powerOff()
		p.links[0].cut()
		locktest.Release(t, locktest.Obtain(t, p.rival, p.key))
		if took := time.Since(began); took < 10*time.Second || took > 13*time.Second { // a poll finds it
			t.Errorf("a rival got in after %s, want 10 s and a poll at most", took)
		}
	})
}

// A reconnect has the hold checked, and does not move its end.
func TestLeaseTimeAfterAReconnect(t *testing.T) {
	every(t, func(t *testing.T, p leased) {
		began := time.Now()
		lease, err := p.locker.Acquire(lock.WithLease(t.Context(), 20*time.Second), p.key)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		p.links[0].cut()
		locktest.Warm(t, p.locker, "other{1}")
		time.Sleep(5 * time.Second)
		if err := context.Cause(lease.Context()); err != nil {
			t.Errorf("the lease ended: %v", err)
		}
		near(t, "TTL of the key", p.ttl(), 10*time.Second)
		<-lease.Context().Done()
		near(t, "time until the end", time.Since(began), 20*time.Second)
		_ = lease.Release(t.Context())
	})
}

// A re-entry shares the end of a hold that has one. It is refused in a hold that is renewed, whose lock would outlive it.
func TestLeaseTimeAndReentry(t *testing.T) {
	every(t, func(t *testing.T, p leased) {
		outer, err := p.locker.Acquire(lock.WithLease(t.Context(), 5*time.Second), p.key)
		if err != nil {
			t.Fatal(err)
		}
		inner, err := p.locker.Acquire(lock.WithLease(outer.Context(), time.Hour), p.key)
		if err != nil {
			t.Fatalf("re-entry = %v", err)
		}
		<-inner.Context().Done()
		if err := inner.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release of the re-entry = %v, want ErrLost", err)
		}
		if err := outer.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}

		renewed := locktest.Obtain(t, p.locker, p.key)
		if _, err := p.locker.Acquire(lock.WithLease(renewed.Context(), time.Second), p.key); !errors.Is(err, lock.ErrLeaseTime) {
			t.Errorf("re-entry with a lease time = %v, want ErrLeaseTime", err)
		}
		locktest.Release(t, renewed)
		for _, d := range []time.Duration{-1, 0, 49 * time.Millisecond} {
			if _, err := p.locker.Acquire(lock.WithLease(t.Context(), d), p.key); !errors.Is(err, lock.ErrLeaseTime) {
				t.Errorf("Acquire with a lease time of %s = %v, want ErrLeaseTime", d, err)
			}
		}
	})
}
