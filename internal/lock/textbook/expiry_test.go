package textbook_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/lock/textbook"
)

func TestLuaExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m, _ := locktest.Bubble(t)
		l := textbook.NewLua(c, locktest.TTL, nil)
		lease, err := l.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-lease.Context().Done()
		if lived := time.Since(start); lived >= locktest.TTL || lived < locktest.TTL*98/100 {
			t.Errorf("the lease could be trusted for %s of a TTL of %s", lived, locktest.TTL)
		}
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
			t.Errorf("cause = %v, want ErrLost", cause)
		}
		if !m.Exists("k") {
			t.Error("the key expired before its holder was told")
		}
		rival, err := l.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < locktest.TTL {
			t.Errorf("a rival entered after %s, the TTL is %s", took, locktest.TTL)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("late Release = %v, want ErrLost", err)
		}
		if !m.Exists("k") {
			t.Error("a late Release deleted the rival's key")
		}
		if err := rival.Release(t.Context()); err != nil {
			t.Errorf("the rival's Release = %v", err)
		}
	})
}

func TestSetNXOfDeadHolderStaysForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := locktest.Bubble(t)
		l := textbook.NewSetNX(c, nil)
		if _, err := l.Acquire(t.Context(), "k"); err != nil { // the holder dies
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		if _, err := l.Acquire(lock.WithWait(t.Context(), time.Minute), "k"); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("Acquire after a day = %v, want ErrBusy", err)
		}
	})
}

func TestSetNXReleaseDeletesTheNextHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m, _ := locktest.Bubble(t)
		l := textbook.NewSetNX(c, nil)
		first, err := l.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		m.Del("k") // somebody cleared the stuck lock by hand
		if _, err := l.Acquire(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if err := first.Release(t.Context()); err != nil {
			t.Fatalf("Release = %v", err)
		}
		if m.Exists("k") {
			t.Error("the blind DEL spared the second holder's key: this exhibit no longer shows its flaw")
		}
	})
}

func TestWatchdogRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m, _ := locktest.Bubble(t)
		l := textbook.NewWatchdog(c, locktest.TTL, nil, nil)
		lease, err := l.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		for range 60 {
			time.Sleep(10 * time.Second)
			if left := m.TTL("k"); left < locktest.TTL*6/10 {
				t.Fatalf("TTL %s left: not renewed every third of it", left)
			}
		}
		if err := context.Cause(lease.Context()); err != nil {
			t.Fatalf("lease ended: %v", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(locktest.TTL)
		if m.Exists("k") {
			t.Error("the lock came back after its release")
		}
	})
}

func TestWatchdogWithLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m, _ := locktest.Bubble(t)
		lease, err := textbook.NewWatchdog(c, locktest.TTL, nil, nil).WithLease(5*time.Second).Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		if !errors.Is(context.Cause(lease.Context()), lock.ErrLost) || m.Exists("k") {
			t.Error("a fixed lease time was renewed")
		}
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
	})
}

func TestWatchdogLearnsOfItsLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m, _ := locktest.Bubble(t)
		lease, err := textbook.NewWatchdog(c, locktest.TTL, nil, nil).Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		m.Del("k")
		start := time.Now()
		<-lease.Context().Done()
		if took := time.Since(start); took > locktest.TTL/3+time.Second {
			t.Errorf("told after %s, the next renewal was due after %s", took, locktest.TTL/3)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
	})
}

// With a dead network a lease ends by the holder's own clock, before the server lets a rival in.
func TestWatchdogCutOffStopsTrusting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m, cut := locktest.Bubble(t)
		lease, err := textbook.NewWatchdog(c, locktest.TTL, nil, nil).Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(95 * time.Second) // several renewals
		cut()
		<-lease.Context().Done()
		if !errors.Is(context.Cause(lease.Context()), lock.ErrLost) {
			t.Errorf("cause = %v, want ErrLost", context.Cause(lease.Context()))
		}
		if !m.Exists("k") {
			t.Error("the key expired while its holder still trusted it")
		}
		if err := lease.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
			t.Errorf("Release without a network = %v, want unknown", err)
		}
		time.Sleep(locktest.TTL)
	})
}

// The answers to renewals are lost for longer than the TTL, so that the lease has ended. From then on it is not renewed, and a rival gets in
// although nobody has released the lock.
func TestWatchdogDoesNotRenewALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := locktest.Bubble(t)
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
	synctest.Test(t, func(t *testing.T) {
		c, m, _ := locktest.Bubble(t)
		l := textbook.NewWatchdog(c, locktest.TTL, nil, nil)
		outer, err := l.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(lock.WithWait(t.Context(), 0), "k"); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("Acquire without the lease's context = %v, want ErrBusy: re-entry is explicit", err)
		}
		inner, err := l.Acquire(outer.Context(), "k")
		if err != nil {
			t.Fatalf("Acquire with the lease's context = %v", err)
		}
		if fields, _ := m.HKeys("k"); len(fields) != 1 || m.HGet("k", fields[0]) != "2" {
			t.Errorf("hash %v, want one owner with count 2", fields)
		}
		if err := inner.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := context.Cause(outer.Context()); err != nil || !m.Exists("k") {
			t.Errorf("the inner release ended the outer lease (%v)", err)
		}
		time.Sleep(3 * locktest.TTL)
		if !m.Exists("k") {
			t.Error("the inner release stopped the watchdog of the outer lease")
		}
		if err := outer.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m.Exists("k") {
			t.Error("the last release left the lock behind")
		}
		if _, err := l.Acquire(outer.Context(), "k"); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Acquire with a released lease's context = %v, want ErrLost", err)
		}
	})
}

// A re-entry's lease carries what its caller's context carries, and ends with it, or with the hold.
func TestWatchdogReentryKeepsItsCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m, _ := locktest.Bubble(t)
		l := textbook.NewWatchdog(c, locktest.TTL, nil, nil)
		ctx := lock.WithWait(t.Context(), 0)
		var leases []lock.Lease
		for _, key := range []string{"a", "b", "a", "b", "b"} {
			lease, err := l.Acquire(ctx, key)
			if err != nil {
				t.Fatalf("Acquire of %q as number %d = %v", key, len(leases)+1, err)
			}
			leases, ctx = append(leases, lease), lease.Context()
		}
		type note struct{}
		under, cancel := context.WithCancel(context.WithValue(ctx, note{}, "caller's"))
		inner, err := l.Acquire(under, "a")
		if err != nil {
			t.Fatal(err)
		}
		if got := inner.Context().Value(note{}); got != "caller's" {
			t.Errorf("value %v in the lease's context, want the caller's", got)
		}
		cancel()
		if err := inner.Context().Err(); !errors.Is(err, context.Canceled) || ctx.Err() != nil {
			t.Errorf("after the caller's end: Err = %v, that of the outer lease %v", err, ctx.Err())
		}
		locktest.Release(t, inner)

		detached, err := l.Acquire(context.WithoutCancel(ctx), "a")
		if err != nil {
			t.Fatal(err)
		}
		m.Del("a")
		<-detached.Context().Done()
		if cause := context.Cause(detached.Context()); !errors.Is(cause, lock.ErrLost) {
			t.Errorf("cause = %v, want ErrLost", cause)
		}
		_ = detached.Release(t.Context())
		for i := len(leases) - 1; i >= 0; i-- {
			_ = leases[i].Release(t.Context())
		}
		locktest.Release(t, locktest.Take(t, l, "a"))
		locktest.Release(t, locktest.Take(t, l, "b"))
	})
}

// A re-entry that fails must not undo the entry that its caller has.
func TestWatchdogFailedReentryKeepsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := locktest.Bubble(t)
		l := textbook.NewWatchdog(c, locktest.TTL, nil, nil)
		outer, err := l.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		dead, cancel := context.WithCancel(outer.Context())
		cancel()
		if _, err := l.Acquire(dead, "k"); err == nil {
			t.Fatal("Acquire with a dead context succeeded")
		}
		if _, err := l.Acquire(lock.WithWait(t.Context(), 0), "k"); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("a rival's Acquire after a failed re-entry = %v, want ErrBusy", err)
		}
		if err := outer.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	})
}

// The waiter that a release wakes gives up at that moment: the next waiter of its process is woken instead, and does not sleep until its
// poll while the lock is free.
func TestWatchdogPassesTheWakeUpOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := locktest.Bubble(t)
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
		left, got := make(chan error, 1), make(chan lock.Lease, 1)
		go func() {
			_, err := l.Acquire(ctx, "k")
			left <- err
		}()
		time.Sleep(10 * time.Millisecond) // it is the first to wait
		go func() {
			lease, err := l.Acquire(t.Context(), "k")
			if err != nil {
				t.Errorf("Acquire = %v", err)
			}
			got <- lease
		}()
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

// A release was certainly not sent. So if the lock is gone when the release is repeated, the lock was lost.
func TestReleaseThatWasNeverSent(t *testing.T) {
	for name, make := range map[string]func(redisClient) lock.Locker{
		"setnx-ttl": func(c redisClient) lock.Locker { return textbook.NewSetNXTTL(c, locktest.TTL, nil) },
		"lua":       func(c redisClient) lock.Locker { return textbook.NewLua(c, locktest.TTL, nil) },
		"watchdog":  func(c redisClient) lock.Locker { return textbook.NewWatchdog(c, locktest.TTL, nil, nil) },
		"redlock": func(c redisClient) lock.Locker {
			return textbook.NewRedlock(textbook.RedlockOptions{Nodes: []textbook.RedlockNode{{Client: c}}, TTL: locktest.TTL}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _, _ := locktest.Bubble(t)
				var down atomic.Bool
				c.AddHook(locktest.SendHook{Name: "", Send: func(_ context.Context, send func() error) error {
					if down.Load() {
						return &net.OpError{Op: "dial", Err: errors.New("down")}
					}
					return send()
				}})
				lease := locktest.Take(t, make(c), "k")
				down.Store(true)
				if err := lease.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
					t.Errorf("Release without a server = %v, want unknown", err)
				}
				time.Sleep(locktest.TTL) // the key expires
				down.Store(false)
				if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
					t.Errorf("Release repeated = %v, want ErrLost", err)
				}
			})
		})
	}
}

// A grant comes too late and is undone, but the command that undoes it is delayed by the network, until the next try has been granted. It must
// not delete that hold.
func TestLateGrantIsUndoneByItsOwnOwner(t *testing.T) {
	for name, c := range map[string]struct {
		acquire string // the command that acquires
		make    func(redisClient) lock.Locker
	}{
		"setnx-ttl":   {"set", func(c redisClient) lock.Locker { return textbook.NewSetNXTTL(c, locktest.TTL, nil) }},
		"setnx-owner": {"set", func(c redisClient) lock.Locker { return textbook.NewSetNXOwner(c, locktest.TTL, nil) }},
		"lua":         {"set", func(c redisClient) lock.Locker { return textbook.NewLua(c, locktest.TTL, nil) }},
		"lua-fenced":  {"evalsha", func(c redisClient) lock.Locker { return textbook.NewLuaFenced(c, locktest.TTL, nil) }},
		"spin":        {"set", func(c redisClient) lock.Locker { return textbook.NewSpin(c, locktest.TTL, nil) }},
		"watchdog":    {"evalsha", func(c redisClient) lock.Locker { return textbook.NewWatchdog(c, locktest.TTL, nil, nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl, m, _ := locktest.Bubble(t)
				owner := func() string {
					if m.Type("k") == "hash" {
						fields, _ := m.HKeys("k")
						return fields[0]
					}
					value, _ := m.Get("k")
					return value
				}
				l := c.make(cl)
				locktest.Release(t, locktest.Take(t, l, "k")) // the scripts are loaded
				var first string
				cl.AddHook(locktest.SendHook{Name: c.acquire, Send: func(_ context.Context, send func() error) error {
					err := send()
					if first == "" {
						first = owner()
						time.Sleep(locktest.TTL - locktest.TTL/200) // too late, and not expired yet
					}
					return err
				}})
				lease, err := l.Acquire(lock.WithWait(t.Context(), 2*locktest.TTL), "k")
				if err != nil {
					t.Fatal(err)
				}
				if got := owner(); got == first {
					t.Errorf("the hold has the owner value %s of the late grant: the command that undoes that one would delete it", got)
				}
				_ = lease.Release(t.Context())
			})
		})
	}
}

// A lease ends, its release gets no answer, and it is repeated: the lock was lost, whatever the first release did.
func TestReleaseRepeatedAfterALoss(t *testing.T) {
	for name, c := range map[string]struct {
		release string // the command that releases
		make    func(redisClient) lock.Locker
	}{
		"setnx-ttl":   {"del", func(c redisClient) lock.Locker { return textbook.NewSetNXTTL(c, locktest.TTL, nil) }},
		"setnx-owner": {"del", func(c redisClient) lock.Locker { return textbook.NewSetNXOwner(c, locktest.TTL, nil) }},
		"lua":         {"evalsha", func(c redisClient) lock.Locker { return textbook.NewLua(c, locktest.TTL, nil) }},
		"redlock": {"evalsha", func(c redisClient) lock.Locker {
			return textbook.NewRedlock(textbook.RedlockOptions{Nodes: []textbook.RedlockNode{{Client: c}}, TTL: locktest.TTL}, nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl, _, _ := locktest.Bubble(t)
				l := c.make(cl)
				locktest.Release(t, locktest.Take(t, l, "k")) // the scripts are loaded
				lost := &locktest.LostAnswers{Name: c.release}
				cl.AddHook(lost)
				lease := locktest.Take(t, l, "k")
				<-lease.Context().Done()
				if name != "setnx-owner" { // it does not send its DEL once the key has expired
					time.Sleep(locktest.TTL)
				}
				lost.Left.Store(1)
				if err := lease.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
					t.Errorf("Release with its answer lost = %v, want unknown", err)
				}
				if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
					t.Errorf("Release repeated = %v, want ErrLost", err)
				}
			})
		})
	}
}

// A re-entry shares the end of a hold with a lease time: neither the entry nor its release prolongs it.
func TestWatchdogReentryDoesNotProlongALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m, _ := locktest.Bubble(t)
		l := textbook.NewWatchdog(c, locktest.TTL, nil, nil).WithLease(5 * time.Second)
		start := time.Now()
		outer := locktest.Take(t, l, "k")
		time.Sleep(3 * time.Second)
		inner, err := l.Acquire(outer.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if left := m.TTL("k"); left > 2*time.Second || left < 1900*time.Millisecond {
			t.Errorf("after a re-entry the key has %s to live, want 2s", left)
		}
		time.Sleep(time.Second)
		locktest.Release(t, inner)
		if left := m.TTL("k"); left > time.Second || left < 900*time.Millisecond {
			t.Errorf("after the release of a re-entry the key has %s to live, want 1s", left)
		}
		<-outer.Context().Done()
		if lived := time.Since(start); lived > 5*time.Second || !errors.Is(context.Cause(outer.Context()), lock.ErrLost) {
			t.Errorf("the lease ended after %s, want 5s, because of %v, want ErrLost", lived, context.Cause(outer.Context()))
		}
		time.Sleep(100 * time.Millisecond)
		if m.Exists("k") {
			t.Error("the lock outlived its lease")
		}
	})
}

// The wake-ups are closed while a waiter sleeps for the TTL of the holder: it goes on by polling.
func TestWatchdogWaiterPollsAfterItsWakeupsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m, _ := locktest.Bubble(t)
		w := wakeups(t, c)
		l := textbook.NewWatchdog(c, locktest.TTL, w, nil)
		holder := locktest.Take(t, textbook.NewWatchdog(c, locktest.TTL, nil, nil), "k")
		got := make(chan lock.Lease, 2)
		for range 2 {
			go func() {
				lease, err := l.Acquire(t.Context(), "k")
				if err != nil {
					t.Errorf("Acquire = %v", err)
				}
				got <- lease
			}()
		}
		time.Sleep(time.Second) // they are subscribed, and sleep
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
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
