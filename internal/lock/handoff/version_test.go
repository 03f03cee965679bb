package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// A lock whose owner has a token of another version is refused, whether or not the caller may wait, and nothing is left behind. What is no token
// at all is just somebody's. A queued token of another version is skipped, although its process listens.
func TestAnotherVersionIsRefused(t *testing.T) {
	onServers(t, func(t *testing.T, s *testenv.RedisServer) {
		ctx, e, other := t.Context(), onServer(t, s, handoff.Options{}), "v3-ABCDEFGHIJKLMNOP-1-host"
		key, next := s.Prefix+"{3}", s.Prefix+"{4}"
		if err := s.Client.Set(ctx, key, other+".1.16.2500", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		for _, name := range allLocks {
			for _, wait := range []time.Duration{0, locktest.Soon} {
				_, err := pick(e, name).Acquire(lock.WithWait(ctx, wait), key)
				if !errors.Is(err, handoff.ErrVersion) || !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, lock.ErrBusy) {
					t.Errorf("%s, wait %s: Acquire = %v, want ErrVersion", name, wait, err)
				}
			}
		}
		wait.Until(t, "nothing left in the queue", func() bool { return inspect(t, e, key).Queue == 0 })
		if err := s.Client.Set(ctx, s.Prefix+"{2}", "5f6d1f5e-0a0b-4c4d-8e8f-000000000000", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		locktest.WantBusy(t, e.Handoff(), s.Prefix+"{2}", "held by another kind of lock")

		heard := s.Client.Subscribe(ctx, "lock:engine:"+other)
		defer heard.Close()
		if _, err := heard.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"fair", "rw-write"} {
			held := locktest.Take(t, pick(e, name), next)
			if err := s.Client.ZAdd(ctx, handoff.KeysOf(next).Queue, redis.Z{Member: other + ".2.1.2500"}).Err(); err != nil {
				t.Fatal(err)
			}
			locktest.Release(t, held)
			locktest.Warm(t, pick(e, name), next)
		}
	})
}

// Something that is no engine takes the key while a reader is in, and does not wait for the reader. What the reader asks for next says so,
// and the reader is out after that.
func TestReaderMeetsAnOwnerThatIsNoToken(t *testing.T) {
	onServers(t, func(t *testing.T, s *testenv.RedisServer) {
		for i, owner := range []string{"5f6d1f5e-0a0b-4c4d-8e8f-000000000000", "", "two\r\nlines", "a.1", "v2-.1.x.y"} {
			key := fmt.Sprintf("%s{%d}", s.Prefix, i)
			keys, take := handoff.KeysOf(key), func() {
				if err := s.Client.Set(t.Context(), key, owner, time.Hour).Err(); err != nil {
					t.Fatal(err)
				}
			}
			e := onServer(t, s, handoff.Options{})
			read := locktest.Take(t, e.ReadWrite().Read(), key)
			take()
			if err := read.Release(t.Context()); owner != "a.1" && (!errors.Is(err, handoff.ErrVersion) || !strings.Contains(err.Error(), "released, but")) {
				t.Errorf("owner %q: Release = %v, want ErrVersion, and that the lock is released", owner, err)
			}
			c := locktest.RedisClient(t, s)
			again := engine(t, c, handoff.Options{})
			s.Client.Del(t.Context(), key)
			locktest.Warm(t, again.ReadWrite().Read(), key)
			var taken atomic.Bool
			c.AddHook(locktest.SendHook{Name: "evalsha", Send: func(_ context.Context, send func() error) error {
				err := send()
				if taken.CompareAndSwap(false, true) {
					take()
					err = send()
				}
				return err
			}})
			_, err := again.ReadWrite().Read().Acquire(lock.WithWait(t.Context(), 0), key)
			if !errors.Is(err, handoff.ErrVersion) || !errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("owner %q: Acquire, sent again = %v, want ErrVersion", owner, err)
			}
			wait.Until(t, "no reader is in", func() bool { return s.Client.ZCard(t.Context(), keys.Readers).Val() == 0 })
			if got := s.Client.Get(t.Context(), key).Val(); got != owner {
				t.Errorf("the key has %q, want %q", got, owner)
			}
		}
	})
}
