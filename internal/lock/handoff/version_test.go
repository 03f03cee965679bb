package handoff_test

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

// The scripts of the first version, whose tokens named no version.
//
//go:embed testdata/v1
var v1Scripts embed.FS

// v1 is a process of the first version.
type v1 struct {
	t       *testing.T
	c       *redis.Client
	process string
}

func (p v1) token(n int) string { return fmt.Sprintf("%s.%d.1.2500", p.process, n) }

func (p v1) run(script, key, ended string, args ...any) any {
	p.t.Helper()
	text, err := v1Scripts.ReadFile("testdata/v1/" + script + ".lua")
	if err != nil {
		p.t.Fatal(err)
	}
	k := handoff.KeysOf(key)
	tombstone := strings.TrimSuffix(k.Queue, "queue") + "ended:" + ended
	reply, err := p.c.Eval(p.t.Context(), string(text), []string{k.Lock, k.Queue, k.Fence, k.LastReleaser, tombstone}, args...).Result()
	if err != nil {
		p.t.Fatalf("version 1, %s: %v", script, err)
	}
	return reply
}

// acquire returns the fence, or 0 if the lock is not the token's.
func (p v1) acquire(key string, n int, queue string) uint64 {
	p.t.Helper()
	switch reply := p.run("acquire", key, p.token(n), p.token(n), 30000, "PUBLISH", queue, 1).(type) {
	case int64:
		return uint64(reply)
	case []any:
		if reply[0] == int64(1) {
			return uint64(reply[1].(int64))
		}
	}
	return 0
}

func (p v1) release(key string, n int) bool {
	p.t.Helper()
	switch reply := p.run("release", key, p.token(n), p.token(n), 30000, "PUBLISH", "").(type) {
	case int64:
		return reply == 1
	case []any:
		return reply[0] == int64(1)
	}
	return false
}

// poll says whether the token has the lock.
func (p v1) poll(key string, n int) bool {
	p.t.Helper()
	reply, _ := p.run("poll", key, p.token(n), p.token(n), 30000, "PUBLISH").([]any)
	return reply[0] == p.token(n)
}

// subscribe listens like the process until the test stops it.
func (p v1) subscribe() (stop func()) {
	p.t.Helper()
	channel := "lock:engine:" + p.process
	ps := p.c.Subscribe(p.t.Context(), channel)
	if _, err := ps.Receive(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	return func() {
		_ = ps.Close()
		locktest.Eventually(p.t, "no subscription", func() bool { return p.c.PubSubNumSub(p.t.Context(), channel).Val()[channel] == 0 })
	}
}

// wantRefused fails unless every kind of lock refuses the key loudly, whether or not it may wait, and leaves nothing behind.
func wantRefused(t *testing.T, e *handoff.Engine, key, version string) {
	t.Helper()
	queued := inspect(t, e, key).Queue
	for _, name := range []string{"handoff", "fair", "rw-write", "rw-read"} {
		for _, wait := range []time.Duration{0, locktest.Soon} {
			_, err := pick(e, name).Acquire(lock.WithWait(t.Context(), wait), key)
			if !errors.Is(err, handoff.ErrVersion) || !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, lock.ErrBusy) {
				t.Errorf("%s, wait %s: Acquire = %v, want ErrVersion", name, wait, err)
			} else if !strings.Contains(err.Error(), "tokens of "+version+",") || !strings.Contains(err.Error(), "those of v2") {
				t.Errorf("%s: %v: does not name %s and v2", name, err, version)
			}
		}
	}
	locktest.Eventually(t, "nothing left in the queue", func() bool { return inspect(t, e, key).Queue == queued })
}

func TestVersionOneHolds(t *testing.T) {
	onServers(t, func(t *testing.T, s *testenv.RedisServer) {
		key := s.Prefix + "{1}"
		old, e := v1{t, s.Client, "ABCDEFGHIJKLMNOP"}, engine(t, locktest.RedisClient(t, s), handoff.Options{})
		fence := old.acquire(key, 1, "0")
		if fence == 0 {
			t.Fatal("version 1 did not get a free lock")
		}
		wantRefused(t, e, key, "v1")
		if !old.release(key, 1) {
			t.Fatal("version 1 had lost its lock")
		}
		lease := locktest.Take(t, e.Handoff(), key)
		if lease.Fence() <= fence {
			t.Errorf("fence %d after %d", lease.Fence(), fence)
		}
		if old.acquire(key, 2, "0") != 0 || // its first release is remembered
			!old.release(key, 1) {
			t.Error("version 1 got in beside version 2")
		}
		locktest.WantBusy(t, engine(t, locktest.RedisClient(t, s), handoff.Options{}).Handoff(), key, "after a late release of version 1")
		locktest.Release(t, lease)
	})
}

func TestVersionOneWaits(t *testing.T) {
	onServers(t, func(t *testing.T, s *testenv.RedisServer) {
		key := s.Prefix + "{1}"
		old, e := v1{t, s.Client, "ABCDEFGHIJKLMNOP"}, engine(t, locktest.RedisClient(t, s), handoff.Options{})
		stop := old.subscribe()
		lease := locktest.Take(t, e.Handoff(), key)
		if old.acquire(key, 1, "1") != 0 || old.poll(key, 1) {
			t.Fatal("version 1 got in beside version 2")
		}
		other := engine(t, locktest.RedisClient(t, s), handoff.Options{})
		wantRefused(t, other, key, "v1") // a waiter of version 1 is first in the queue
		locktest.Release(t, lease)
		if owner := s.Client.Get(t.Context(), key).Val(); owner != "" {
			t.Errorf("the release gave the lock to %s", owner)
		}
		if !old.poll(key, 1) {
			t.Error("version 1 did not find the free lock")
		}
		wantRefused(t, e, key, "v1")
		if !old.release(key, 1) {
			t.Error("version 1 had lost its lock")
		}
		lease = locktest.Take(t, e.Fair(), key)
		old.acquire(key, 2, "1")
		stop() // the process ends, and its token stays in the queue
		failed := make(chan error, 1)
		go func() {
			next, err := engine(t, locktest.RedisClient(t, s), handoff.Options{}).Fair().Acquire(t.Context(), key)
			if err == nil {
				err = next.Release(context.Background())
			}
			failed <- err
		}()
		locktest.Eventually(t, "only the waiter of version 2 is in the queue", func() bool {
			return inspect(t, e, key).Queue == 1 && s.Client.ZScore(t.Context(), handoff.KeysOf(key).Queue, old.token(2)).Err() != nil
		})
		locktest.Release(t, lease)
		if err := <-failed; err != nil {
			t.Errorf("the waiter of version 2: %v", err)
		}
	})
}

// Readers of version 1 are in, or the tokens are of a version that is yet to come. What is no token at all is just somebody's.
func TestVersionOfOthers(t *testing.T) {
	onServers(t, func(t *testing.T, s *testenv.RedisServer) {
		ctx, e := t.Context(), engine(t, locktest.RedisClient(t, s), handoff.Options{})
		if err := s.Client.Set(ctx, s.Prefix+"{3}", "v3-ABCDEFGHIJKLMNOP-1-host.1.16.2500", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, e, s.Prefix+"{3}", "v3")
		expiry := float64(time.Now().Add(time.Minute).UnixMilli())
		if err := s.Client.ZAdd(ctx, handoff.KeysOf(s.Prefix+"{1}").Readers, redis.Z{Score: expiry, Member: "ABCDEFGHIJKLMNOP.7.0.2500"}).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := e.ReadWrite().Write().Acquire(ctx, s.Prefix+"{1}"); !errors.Is(err, handoff.ErrVersion) {
			t.Errorf("a write beside a reader of version 1 = %v, want ErrVersion", err)
		}
		if err := s.Client.Set(ctx, s.Prefix+"{2}", "5f6d1f5e-0a0b-4c4d-8e8f-000000000000", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		locktest.WantBusy(t, e.Handoff(), s.Prefix+"{2}", "held by another kind of lock")
	})
}
