package textbook_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/textbook"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
)

func TestSetNXOfDeadHolderStaysForEver(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, _ *miniredis.Miniredis) {
		l := textbook.NewSetNX(c, nil)
		locktest.Take(t, l, "k") // the holder dies
		time.Sleep(24 * time.Hour)
		locktest.WantBusy(t, l, "k", "after a day")
	})
}

func TestSetNXReleaseDeletesTheNextHolders(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, m *miniredis.Miniredis) {
		l := textbook.NewSetNX(c, nil)
		first := locktest.Take(t, l, "k")
		m.Del("k") // somebody cleared the stuck lock by hand
		locktest.Take(t, l, "k")
		locktest.Release(t, first)
		if m.Exists("k") {
			t.Error("the blind DEL spared the second holder's key: this exhibit no longer shows its flaw")
		}
	})
}

func TestWatchdogRenews(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, m *miniredis.Miniredis) {
		l := textbook.NewWatchdog(c, locktest.TTL, nil, nil)
		lease := locktest.Take(t, l, "k")
		for range 60 {
			time.Sleep(10 * time.Second)
			if left := m.TTL("k"); left < locktest.TTL*6/10 {
				t.Fatalf("TTL %s left: not renewed every third of it", left)
			}
		}
		testkit.Mustf(t, context.Cause(lease.Context()), "lease ended")
		locktest.Release(t, lease)
		time.Sleep(locktest.TTL)
		if m.Exists("k") {
			t.Error("the lock came back after its release")
		}
	})
}

func TestWatchdogLearnsOfItsLoss(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, m *miniredis.Miniredis) {
		lease := locktest.Take(t, textbook.NewWatchdog(c, locktest.TTL, nil, nil), "k")
		m.Del("k")
		start := time.Now()
		<-lease.Context().Done()
		if took := time.Since(start); took > locktest.TTL/3+time.Second {
			t.Errorf("told after %s, the next renewal was due after %s", took, locktest.TTL/3)
		}
		locktest.ReleaseLost(t, lease, "Release")
	})
}

// With a dead network a lease ends by the holder's own clock, before the server lets a rival in.
func TestWatchdogCutOffStopsTrusting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m, cut := locktest.Bubble(t)
		lease := locktest.Take(t, textbook.NewWatchdog(c, locktest.TTL, nil, nil), "k")
		time.Sleep(95 * time.Second) // several renewals
		cut()
		locktest.WantLost(t, lease, locktest.TTL)
		if !m.Exists("k") {
			t.Error("the key expired while its holder still trusted it")
		}
		locktest.ReleaseUnknown(t, lease, "Release without a network")
		time.Sleep(locktest.TTL)
	})
}

// The answers to renewals are lost for longer than the TTL, so that the lease has ended. From then on it is not
// renewed, and a rival gets in although nobody has released the lock.
func TestWatchdogDoesNotRenewALostLease(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, _ *miniredis.Miniredis) {
		l := textbook.NewWatchdog(c, locktest.TTL, nil, nil)
		lease := locktest.Take(t, l, "k")
		var lost atomic.Bool
		c.AddHook(locktest.SendHook{Name: "evalsha", Send: func(_ context.Context, send func() error) error {
			err := send()
			if lost.Load() {
				return io.ErrUnexpectedEOF
			}
			return err
		}})
		time.Sleep(locktest.TTL / 2) // it was renewed once, so that Redis has the script
		lost.Store(true)
		<-lease.Context().Done()
		lost.Store(false)
		rival, err := l.Acquire(lock.WithWait(t.Context(), locktest.TTL), "k")
		if err != nil {
			t.Errorf("a rival's Acquire = %v", err)
		} else {
			locktest.Release(t, rival)
		}
		_ = lease.Release(t.Context())
	})
}

func TestWatchdogReenters(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, m *miniredis.Miniredis) {
		l := textbook.NewWatchdog(c, locktest.TTL, nil, nil)
		outer := locktest.Take(t, l, "k")
		locktest.WantBusy(t, l, "k", "Acquire without the lease's context")
		dead, cancel := context.WithCancel(outer.Context())
		cancel()
		if _, err := l.Acquire(dead, "k"); err == nil {
			t.Fatal("Acquire with a dead context succeeded")
		}
		locktest.WantBusy(t, l, "k", "after a failed re-entry, which does not undo the entry that its caller has")
		inner := locktest.Acquire(lock.WithReentry(outer.Context()), t, l, "k")
		if fields, _ := m.HKeys("k"); len(fields) != 1 || m.HGet("k", fields[0]) != "2" {
			t.Errorf("hash %v, want one owner with count 2", fields)
		}
		lost := &locktest.LostAnswers{Name: "evalsha"}
		c.AddHook(lost)
		lost.Left.Store(1)
		if err := inner.Release(t.Context()); err == nil {
			t.Fatal("Release with its answer lost = nil, want unknown")
		}
		locktest.Release(t, inner) // and not the outer entry
		if err := context.Cause(outer.Context()); err != nil || !m.Exists("k") {
			t.Errorf("the inner release ended the outer lease (%v)", err)
		}
		time.Sleep(3 * locktest.TTL)
		if !m.Exists("k") {
			t.Error("the inner release stopped the watchdog of the outer lease")
		}
		locktest.Release(t, outer)
		if m.Exists("k") {
			t.Error("the last release left the lock behind")
		}
		_, err := l.Acquire(lock.WithReentry(outer.Context()), "k")
		testkit.IsError(t, err, lock.ErrLost, "Acquire with a released lease's context")
	})
}

// A re-entry's lease carries what its caller's context carries, and ends with it, or with the hold.
func TestWatchdogReentryKeepsItsCallersContext(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, m *miniredis.Miniredis) {
		l := textbook.NewWatchdog(c, locktest.TTL, nil, nil)
		ctx := lock.WithReentry(lock.WithWait(t.Context(), 0))
		var leases []lock.Lease
		for _, key := range []string{"a", "b", "a", "b", "b"} {
			lease := locktest.Acquire(ctx, t, l, key)
			leases, ctx = append(leases, lease), lease.Context()
		}
		type note struct{}
		under, cancel := context.WithCancel(context.WithValue(ctx, note{}, "caller's"))
		inner := locktest.Acquire(under, t, l, "a")
		if got := inner.Context().Value(note{}); got != "caller's" {
			t.Errorf("value %v in the lease's context, want the caller's", got)
		}
		cancel()
		if err := inner.Context().Err(); !errors.Is(err, context.Canceled) || ctx.Err() != nil {
			t.Errorf("after the caller's end: Err = %v, that of the outer lease %v", err, ctx.Err())
		}
		locktest.Release(t, inner)

		detached := locktest.Acquire(context.WithoutCancel(ctx), t, l, "a")
		m.Del("a")
		locktest.WantLost(t, detached, locktest.TTL)
		_ = detached.Release(t.Context())
		for i := len(leases) - 1; i >= 0; i-- {
			_ = leases[i].Release(t.Context())
		}
		locktest.Release(t, locktest.Take(t, l, "a"))
		locktest.Release(t, locktest.Take(t, l, "b"))
	})
}

// The waiter that a release wakes gives up at that moment: the next waiter of its process is woken instead, and does
// not sleep until its poll while the lock is free.
func TestWatchdogPassesTheWakeUpOn(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, _ *miniredis.Miniredis) {
		l := textbook.NewWatchdog(c, locktest.TTL, wakeups(t, c), nil)
		holder := locktest.Take(t, textbook.NewWatchdog(c, locktest.TTL, nil, nil), "k")
		type who struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), who{}, "leaves"))
		defer cancel()
		var woken atomic.Bool
		c.AddHook(locktest.SendHook{Name: "evalsha", Send: func(ctx context.Context, send func() error) error {
			if ctx.Value(who{}) != nil && woken.Load() {
				cancel()
				return context.Cause(ctx)
			}
			return send()
		}})
		left := locktest.Attempt(ctx, l, "k")
		time.Sleep(10 * time.Millisecond) // it is the first to wait
		got := locktest.Waiter(t, l, "k")
		time.Sleep(10 * time.Millisecond)
		woken.Store(true)
		start := time.Now()
		locktest.Release(t, holder)
		locktest.WantGaveUp(t, <-left)
		second := <-got
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("the next one got in after %s", took)
		}
		locktest.Release(t, second)
	})
}

// A grant comes too late and is undone, but the command that undoes it is delayed by the network, until the next try
// has been granted. It must not delete that hold.
func TestLateGrantIsUndoneByItsOwnOwner(t *testing.T) {
	each(t, "setnx-ttl setnx-owner lua lua-fenced spin watchdog-polling",
		func(t *testing.T, o one, l lock.Locker, c *redis.Client, m *miniredis.Miniredis) {
			owner := func() string {
				if m.Type("k") == "hash" {
					fields, _ := m.HKeys("k")
					return fields[0]
				}
				value, _ := m.Get("k")
				return value
			}
			var first string
			c.AddHook(locktest.SendHook{Name: o.acquire, Send: func(_ context.Context, send func() error) error {
				err := send()
				if first == "" {
					first = owner()
					time.Sleep(locktest.TTL - locktest.TTL/200) // too late, and not expired yet
				}
				return err
			}})
			lease := locktest.Acquire(lock.WithWait(t.Context(), 2*locktest.TTL), t, l, "k")
			if got := owner(); got == first {
				t.Errorf("the hold has the owner value %s of the late grant: the command that undoes that one would delete it", got)
			}
			_ = lease.Release(t.Context())
		})
}

// A release fails, and it is repeated when the lease has ended: the lock was lost, whether the first release never
// arrived or its answer was lost.
func TestReleaseRepeatedAfterALoss(t *testing.T) {
	const neverSent, answerLost = "setnx-ttl lua watchdog-polling redlock", "setnx-ttl setnx-owner lua redlock"
	for _, names := range []string{neverSent, answerLost} {
		each(t, names, func(t *testing.T, o one, l lock.Locker, c *redis.Client, _ *miniredis.Miniredis) {
			var down atomic.Bool
			lost := &locktest.LostAnswers{Name: o.release}
			c.AddHook(lost)
			c.AddHook(locktest.SendHook{Name: "", Send: func(_ context.Context, send func() error) error {
				if down.Load() {
					return &net.OpError{Op: "dial", Err: errors.New("down")}
				}
				return send()
			}})
			lease := locktest.Take(t, l, "k")
			if names == neverSent {
				down.Store(true)
			} else {
				<-lease.Context().Done()
				if !strings.HasSuffix(t.Name(), "setnx-owner") { // it does not send its DEL once the key has expired
					time.Sleep(locktest.TTL)
				}
				lost.Left.Store(1)
			}
			locktest.ReleaseUnknown(t, lease, "Release")
			time.Sleep(locktest.TTL) // the key expires
			down.Store(false)
			locktest.ReleaseLost(t, lease, "Release repeated")
		})
	}
}

// A fixed lease time is not renewed. A re-entry shares its end: neither the entry nor its release prolongs it.
func TestWatchdogWithLeaseEnds(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, m *miniredis.Miniredis) {
		l := textbook.NewWatchdog(c, locktest.TTL, nil, nil).WithLease(5 * time.Second)
		start := time.Now()
		outer := locktest.Take(t, l, "k")
		left := func(after string, want time.Duration) {
			t.Helper()
			if got := m.TTL("k"); got > want || got < want-100*time.Millisecond {
				t.Errorf("after %s the key has %s to live, want %s", after, got, want)
			}
		}
		time.Sleep(3 * time.Second)
		inner := locktest.Acquire(lock.WithReentry(outer.Context()), t, l, "k")
		left("a re-entry", 2*time.Second)
		time.Sleep(time.Second)
		locktest.Release(t, inner)
		left("the release of a re-entry", time.Second)
		locktest.WantLost(t, outer, 0)
		if lived := time.Since(start); lived > 5*time.Second {
			t.Errorf("the lease ended after %s, want 5s", lived)
		}
		time.Sleep(100 * time.Millisecond)
		if m.Exists("k") {
			t.Error("the lock outlived its lease")
		}
	})
}

// The wake-ups are closed while a waiter sleeps for the TTL of the holder: it goes on by polling.
func TestWatchdogWaiterPollsAfterItsWakeupsAreClosed(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, m *miniredis.Miniredis) {
		w := wakeups(t, c)
		l := textbook.NewWatchdog(c, locktest.TTL, w, nil)
		holder := locktest.Take(t, textbook.NewWatchdog(c, locktest.TTL, nil, nil), "k")
		got := make(chan lock.Lease, 2) // in the order in which they get in
		for range 2 {
			go func() { got <- <-locktest.Waiter(t, l, "k") }()
		}
		time.Sleep(time.Second) // they are subscribed, and sleep
		testkit.Must(t, w.Close())
		m.Del("k") // released without a word
		for range 2 {
			start := time.Now()
			lease := <-got
			if took := time.Since(start); took > 100*time.Millisecond {
				t.Errorf("a waiter got in after %s", took)
			}
			locktest.Release(t, lease)
		}
		_ = holder.Release(t.Context())
	})
}
