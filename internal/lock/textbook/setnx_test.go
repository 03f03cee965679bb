package textbook_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/step"
	"lastitem/internal/testenv"
	"lastitem/internal/wire"
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
	bubble(t, func(t *testing.T, c *redis.Client, m *miniredis.Miniredis) {
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

// The holder is told of its end before its key expires; it outlives its TTL, a rival enters, and only then the holder releases.
func TestLateRelease(t *testing.T) {
	const blind, owned = "setnx-expire setnx-ttl", "setnx-owner lua spin"
	for _, names := range []string{blind, owned} {
		each(t, names, func(t *testing.T, _ one, l lock.Locker, _ *redis.Client, m *miniredis.Miniredis) {
			start := time.Now()
			late := locktest.Take(t, l, "k")
			locktest.WantLost(t, late, locktest.TTL)
			if lived := time.Since(start); lived < locktest.TTL*98/100 || !m.Exists("k") || locktest.Enters(t, l, "k") {
				t.Errorf("the lease ended after %s, want a moment before the TTL of %s, when the key is still there", lived, locktest.TTL)
			}
			time.Sleep(locktest.TTL)
			rival := locktest.Take(t, l, "k")
			err := late.Release(t.Context())
			if got := errors.Is(err, lock.ErrLost); got == (names == blind) {
				t.Errorf("late Release = %v; blind: %t", err, names == blind)
			}
			if got := locktest.Enters(t, l, "k"); got != (names == blind) {
				t.Errorf("a third one entered beside the rival (%v): %t, want %t", rival.Context().Err(), got, names == blind)
			}
		})
	}
}

// The key expires between the comparison and the DEL.
func TestSetNXOwnerDeletesTheRivalsKeyAfterComparing(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, _ *miniredis.Miniredis) {
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

// The answer to SETNX comes after its client has given up. The caller is told that it holds nothing, so the key must be deleted; a
// rival's key must stay.
func TestSetNXTakesBackWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	for _, name := range []string{"setnx", "setnx-expire"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var gate *wire.Proxy
			address := locktest.Redirected(t, s.URL, func(to string) string {
				g, err := wire.NewProxy("redis", to, wire.Redis)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(g.Close)
				gate = g
				return g.Addr
			})
			o, err := redis.ParseURL(address)
			if err != nil {
				t.Fatal(err)
			}
			o.MaxRetries, o.ContextTimeoutEnabled, o.ReadTimeout = -1, true, 5*time.Second
			far := redis.NewClient(o)
			t.Cleanup(func() { _ = far.Close() })
			make := func(c *redis.Client) lock.Locker { return all[name].process(t, c, time.Hour, nil) }
			l, rival, key := make(far), make(locktest.RedisClient(t, s)), s.Prefix+name
			locktest.Warm(t, l, key)
			held := gate.Add(wire.Rule{Answer: true, Match: func(c wire.Call) bool {
				return strings.EqualFold(c.Words[0], "set") && c.Words[1] == key
			}})
			if _, err := l.Acquire(lock.WithWait(t.Context(), 0), key); !errors.Is(err, lock.ErrUnavailable) {
				t.Fatalf("Acquire without an answer = %v, want ErrUnavailable", err)
			}
			<-held.Reached()
			if n, err := s.Client.Exists(t.Context(), key).Result(); n != 0 || err != nil {
				t.Errorf("the key of nobody is still there (%v)", err)
			}
			lease := locktest.Obtain(t, rival, key)
			held.Pass()
			locktest.WantBusy(t, l, key, "the rival holds it")
			locktest.Release(t, lease)
		})
	}
}
