package lock_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
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
		c, m, _ := bubble(t)
		died := make(chan struct{})
		go func() {
			defer close(died)
			_, err := lock.NewSetNXExpire(c, ttl, at(t, step.Acquiring, runtime.Goexit)).Acquire(t.Context(), "k")
			t.Errorf("Acquire came back from the dead: %v", err)
		}()
		<-died
		if left := m.TTL("k"); left != 0 || !m.Exists("k") {
			t.Errorf("the key expires in %s: this exhibit no longer shows its flaw", left)
		}
		rival := lock.NewSetNXExpire(c, ttl, nil)
		if _, err := rival.Acquire(lock.WithWait(t.Context(), 20*ttl), "k"); !errors.Is(err, lock.ErrBusy) {
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
		"setnx-expire": {func(c redisClient, d time.Duration) lock.Locker { return lock.NewSetNXExpire(c, d, nil) }, true},
		"setnx-ttl":    {func(c redisClient, d time.Duration) lock.Locker { return lock.NewSetNXTTL(c, d, nil) }, true},
		"setnx-owner":  {func(c redisClient, d time.Duration) lock.Locker { return lock.NewSetNXOwner(c, d, nil) }, false},
		"spin":         {func(c redisClient, d time.Duration) lock.Locker { return lock.NewSpin(c, d, nil) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl, _, _ := bubble(t)
				l := c.rung(cl, ttl)
				late := take(t, l, "k")
				<-late.Context().Done()
				if cause := context.Cause(late.Context()); !errors.Is(cause, lock.ErrLost) {
					t.Errorf("cause = %v, want ErrLost", cause)
				}
				if enters(t, l, "k") {
					t.Error("a rival entered before the TTL was over")
				}
				time.Sleep(ttl)
				rival := take(t, l, "k")
				err := late.Release(t.Context())
				if got := errors.Is(err, lock.ErrLost); got == c.blind {
					t.Errorf("late Release = %v; blind: %t", err, c.blind)
				}
				if got := enters(t, l, "k"); got != c.blind {
					t.Errorf("a third one entered beside the rival (%v): %t, want %t", rival.Context().Err(), got, c.blind)
				}
			})
		})
	}
}

// The key expires between the comparison and the DEL.
func TestSetNXOwnerDeletesTheRivalsKeyAfterComparing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := bubble(t)
		others := lock.NewSetNXOwner(c, ttl, nil)
		var rival lock.Lease
		l := lock.NewSetNXOwner(c, ttl, at(t, step.Releasing, func() {
			time.Sleep(ttl)
			rival = take(t, others, "k")
		}))
		if err := take(t, l, "k").Release(t.Context()); err != nil {
			t.Errorf("Release = %v: it noticed, this exhibit no longer shows its flaw", err)
		}
		if !enters(t, others, "k") || rival.Context().Err() != nil {
			t.Error("nobody entered beside the rival: this exhibit no longer shows its flaw")
		}
	})
}

func TestSetNXFinallyOfALoserDeletesTheHoldersKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := bubble(t)
		l := lock.NewSetNXFinally(c, nil)
		holder := take(t, l, "k")
		if enters(t, l, "k") {
			t.Error("the second contender entered at once")
		}
		if !enters(t, l, "k") || holder.Context().Err() != nil {
			t.Error("the loser's finally spared the holder's key: this exhibit no longer shows its flaw")
		}
	})
}
