package textbook_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/step"
)

// at returns a stream whose reader runs f at one point.
func at(t *testing.T, p step.Point, f func()) *step.Stream {
	var s step.Stream
	t.Cleanup(s.Subscribe(func(_ context.Context, e step.Event) {
		if e.Point == p {
			f()
		}
	}))
	return &s
}

func TestSetNXExpireOfHolderThatDiesInBetweenStaysForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m, _ := locktest.Bubble(t)
		died := make(chan struct{})
		go func() {
			defer close(died)
			_, err := textbook.NewSetNXExpire(c, locktest.TTL, at(t, step.Acquiring, runtime.Goexit)).Acquire(t.Context(), "k")
			t.Errorf("Acquire came back from the dead: %v", err)
		}()
		<-died
		if left := m.TTL("k"); left != 0 || !m.Exists("k") {
			t.Errorf("the key expires in %s: this exhibit no longer shows its flaw", left)
		}
		rival := textbook.NewSetNXExpire(c, locktest.TTL, nil)
		if _, err := rival.Acquire(lock.WithWait(t.Context(), 20*locktest.TTL), "k"); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("Acquire after twenty TTLs = %v, want ErrBusy", err)
		}
	})
}

// The holder outlives its TTL, a rival enters, and only then the holder releases.
func TestLateRelease(t *testing.T) {
	for name, c := range map[string]struct {
		rung  func(redisClient, time.Duration) lock.Locker
		blind bool
	}{
		"setnx-expire": {func(c redisClient, d time.Duration) lock.Locker { return textbook.NewSetNXExpire(c, d, nil) }, true},
		"setnx-ttl":    {func(c redisClient, d time.Duration) lock.Locker { return textbook.NewSetNXTTL(c, d, nil) }, true},
		"setnx-owner":  {func(c redisClient, d time.Duration) lock.Locker { return textbook.NewSetNXOwner(c, d, nil) }, false},
		"lua-lock":     {func(c redisClient, d time.Duration) lock.Locker { return textbook.NewLua(c, d, nil) }, false},
		"spin":         {func(c redisClient, d time.Duration) lock.Locker { return textbook.NewSpin(c, d, nil) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl, _, _ := locktest.Bubble(t)
				l := c.rung(cl, locktest.TTL)
				late := locktest.Take(t, l, "k")
				<-late.Context().Done()
				if cause := context.Cause(late.Context()); !errors.Is(cause, lock.ErrLost) {
					t.Errorf("cause = %v, want ErrLost", cause)
				}
				if locktest.Enters(t, l, "k") {
					t.Error("a rival entered before the TTL was over")
				}
				time.Sleep(locktest.TTL)
				rival := locktest.Take(t, l, "k")
				err := late.Release(t.Context())
				if got := errors.Is(err, lock.ErrLost); got == c.blind {
					t.Errorf("late Release = %v; blind: %t", err, c.blind)
				}
				if got := locktest.Enters(t, l, "k"); got != c.blind {
					t.Errorf("a third one entered beside the rival (%v): %t, want %t", rival.Context().Err(), got, c.blind)
				}
			})
		})
	}
}

// The key expires between the comparison and the DEL.
func TestSetNXOwnerDeletesTheRivalsKeyAfterComparing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := locktest.Bubble(t)
		others := textbook.NewSetNXOwner(c, locktest.TTL, nil)
		var rival lock.Lease
		l := textbook.NewSetNXOwner(c, locktest.TTL, at(t, step.Releasing, func() {
			time.Sleep(locktest.TTL)
			rival = locktest.Take(t, others, "k")
		}))
		if err := locktest.Take(t, l, "k").Release(t.Context()); err != nil {
			t.Errorf("Release = %v: it noticed, this exhibit no longer shows its flaw", err)
		}
		if !locktest.Enters(t, others, "k") || rival.Context().Err() != nil {
			t.Error("nobody entered beside the rival: this exhibit no longer shows its flaw")
		}
	})
}

func TestSetNXFinallyOfALoserDeletesTheHoldersKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := locktest.Bubble(t)
		l := textbook.NewSetNXFinally(c, nil)
		holder := locktest.Take(t, l, "k")
		if locktest.Enters(t, l, "k") {
			t.Error("the second contender entered at once")
		}
		if !locktest.Enters(t, l, "k") || holder.Context().Err() != nil {
			t.Error("the loser's finally spared the holder's key: this exhibit no longer shows its flaw")
		}
	})
}
