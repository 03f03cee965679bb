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

// Readers of both versions are in together. No writer of version 2 waits for readers of version 1, which would not wake it.
func TestVersionOneReads(t *testing.T) {
	besideVersionOne(t, func(t *testing.T, s *testenv.RedisServer, old v1, key string) {
		e := onServer(t, s, handoff.Options{})
		if !old.read(key, 1) {
			t.Fatal("version 1 did not get in as a reader")
		}
		wantRefused(t, e, key, "v1", "rw-write")
		read := locktest.Take(t, e.ReadWrite().Read(), key)
		if !old.leave(key, 1) {
			t.Error("the reader of version 1 was not in any more")
		}
		locktest.WantBusy(t, e.ReadWrite().Write(), key, "a reader of version 2 is in")
		locktest.Release(t, read)
		locktest.Warm(t, e.ReadWrite().Write(), key)
	})
}

// A reader of version 1 that has died keeps out no writer of version 2 after its end, although readers of version 2 keep the set of readers.
func TestVersionOneReaderExpires(t *testing.T) {
	besideVersionOne(t, func(t *testing.T, s *testenv.RedisServer, old v1, key string) {
		e := onServer(t, s, handoff.Options{})
		if !old.read(key, 1) {
			t.Fatal("version 1 did not get in as a reader")
		}
		read := locktest.Take(t, e.ReadWrite().Read(), key)
		wantRefused(t, e, key, "v1", "rw-write")
		expired := redis.Z{Score: float64(time.Now().Add(-time.Minute).UnixMilli()), Member: old.reader(1)}
		if err := s.Client.ZAdd(t.Context(), handoff.KeysOf(key).Readers, expired).Err(); err != nil {
			t.Fatal(err)
		}
		got, failed := async(t.Context(), e.ReadWrite().Write(), key)
		wait.Until(t, "the writer waits for the reader of version 2", func() bool {
			select {
			case err := <-failed:
				t.Fatalf("Acquire = %v", err)
			default:
			}
			return s.Client.Exists(t.Context(), key).Val() == 1
		})
		locktest.Release(t, read)
		lease, err := outcome(t, got, failed)
		if err != nil {
			t.Fatal(err)
		}
		locktest.Release(t, lease)
	})
}

// A writer of version 1 waits for a reader of version 2, and keeps others out. When the reader leaves, the writer is in, and hears of it.
func TestVersionOneWrites(t *testing.T) {
	besideVersionOne(t, func(t *testing.T, s *testenv.RedisServer, old v1, key string) {
		e := onServer(t, s, handoff.Options{})
		heard, _ := old.subscribe()
		read := locktest.Take(t, e.ReadWrite().Read(), key)
		if state := old.write(key, 1); state != 1 {
			t.Fatalf("state %d of a writer of version 1 beside a reader, want 1: it waits for the reader", state)
		}
		wantRefused(t, e, key, "v1")
		locktest.Release(t, read)
		select {
		case m := <-heard:
			if !strings.HasPrefix(m.Payload, old.writer(1)+" w") || !strings.HasSuffix(m.Payload, " "+key) {
				t.Errorf("version 1 was sent %q", m.Payload)
			}
		case <-time.After(locktest.Soon):
			t.Error("version 1 was not told that the reader has left")
		}
		if state := old.write(key, 1); state != 2 {
			t.Errorf("state %d after the reader has left, want 2: it is in", state)
		}
		wantRefused(t, e, key, "v1")
		if !old.releaseWrite(key, 1) {
			t.Error("version 1 had lost its lock")
		}
		locktest.Warm(t, e.ReadWrite().Write(), key)
	})
}

// A release of version 2 skips a queued writer of version 1, which gets in with its next poll.
func TestVersionOneWriterWaits(t *testing.T) {
	besideVersionOne(t, func(t *testing.T, s *testenv.RedisServer, old v1, key string) {
		e := onServer(t, s, handoff.Options{})
		heard, _ := old.subscribe()
		write := locktest.Take(t, e.ReadWrite().Write(), key)
		if state := old.write(key, 1); state != 0 {
			t.Fatalf("state %d of a writer of version 1 beside a writer, want 0: it waits", state)
		}
		wantRefused(t, onServer(t, s, handoff.Options{}), key, "v1")
		if read := old.read(key, 2); read {
			t.Error("a reader of version 1 got in beside a writer of version 2")
		}
		locktest.Release(t, write)
		if owner := s.Client.Get(t.Context(), key).Val(); owner != "" {
			t.Errorf("the release gave the lock to %s", owner)
		}
		select {
		case m := <-heard:
			t.Errorf("version 1 was sent %q", m.Payload)
		default:
		}
		if state := old.write(key, 1); state != 2 {
			t.Errorf("state %d when version 1 asks again, want 2: it is in", state)
		}
		if !old.releaseWrite(key, 1) {
			t.Error("version 1 had lost its lock")
		}
	})
}

// A queued reader or writer of version 2 whose lock goes to version 1 is refused by its next poll.
func TestVersionOneWriterOvertakes(t *testing.T) {
	for _, name := range []string{"rw-write", "rw-read"} {
		t.Run(name, func(t *testing.T) {
			besideVersionOne(t, func(t *testing.T, s *testenv.RedisServer, old v1, key string) {
				write := locktest.Take(t, onServer(t, s, handoff.Options{}).ReadWrite().Write(), key)
				got, failed := async(t.Context(), pick(onServer(t, s, handoff.Options{}), name), key)
				wait.Until(t, "a waiter", func() bool { return s.Client.ZCard(t.Context(), handoff.KeysOf(key).Queue).Val() == 1 })
				if err := s.Client.Set(t.Context(), key, old.writer(1), time.Minute).Err(); err != nil {
					t.Fatal(err)
				}
				if _, err := outcome(t, got, failed); !errors.Is(err, handoff.ErrVersion) {
					t.Errorf("the waiter's Acquire = %v, want ErrVersion", err)
				}
				if err := write.Release(t.Context()); err == nil {
					t.Error("Release = nil, want ErrLost")
				}
			})
		})
	}
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
			if !errors.Is(err, handoff.ErrVersion) || !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), "no engine has written") {
				t.Errorf("owner %q: Acquire, sent again = %v, want ErrVersion", owner, err)
			}
			wait.Until(t, "no reader is in", func() bool { return s.Client.ZCard(t.Context(), keys.Readers).Val() == 0 })
			if got := s.Client.Get(t.Context(), key).Val(); got != owner {
				t.Errorf("the key has %q, want %q", got, owner)
			}
		}
	})
}
