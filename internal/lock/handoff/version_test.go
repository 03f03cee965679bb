package handoff_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// wantRefused fails unless every kind of lock refuses the key loudly, whether or not it may wait, and leaves nothing behind.
func wantRefused(t *testing.T, e *handoff.Engine, key, version string, kinds ...string) {
	t.Helper()
	if kinds == nil {
		kinds = []string{"handoff", "fair", "rw-write", "rw-read"}
	}
	queued := inspect(t, e, key).Queue
	for _, name := range kinds {
		for _, wait := range []time.Duration{0, locktest.Soon} {
			_, err := pick(e, name).Acquire(lock.WithWait(t.Context(), wait), key)
			if !errors.Is(err, handoff.ErrVersion) || !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, lock.ErrBusy) {
				t.Errorf("%s, wait %s: Acquire = %v, want ErrVersion", name, wait, err)
			} else if !strings.Contains(err.Error(), "tokens of "+version+",") || !strings.Contains(err.Error(), "those of v2") {
				t.Errorf("%s: %v: does not name %s and v2", name, err, version)
			}
		}
	}
	wait.Until(t, "nothing left in the queue", func() bool { return inspect(t, e, key).Queue == queued })
}

func TestVersionOneHolds(t *testing.T) {
	besideVersionOne(t, func(t *testing.T, s *testenv.RedisServer, old v1, key string) {
		e := onServer(t, s, handoff.Options{})
		fence := old.acquire(key, 1, 0)
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
		if old.acquire(key, 2, 0) != 0 || // its first release is remembered
			!old.release(key, 1) {
			t.Error("version 1 got in beside version 2")
		}
		locktest.WantBusy(t, onServer(t, s, handoff.Options{}).Handoff(), key, "after a late release of version 1")
		locktest.Release(t, lease)
		if next := old.acquire(key, 3, 0); next <= lease.Fence() {
			t.Errorf("version 1 has fence %d after %d", next, lease.Fence())
		}
	})
}

func TestVersionOneWaits(t *testing.T) {
	besideVersionOne(t, func(t *testing.T, s *testenv.RedisServer, old v1, key string) {
		e := onServer(t, s, handoff.Options{})
		heard, stop := old.subscribe()
		lease := locktest.Take(t, e.Handoff(), key)
		if old.acquire(key, 1, 1) != 0 || old.poll(key, 1) != 0 {
			t.Fatal("version 1 got in beside version 2")
		}
		other := onServer(t, s, handoff.Options{})
		wantRefused(t, other, key, "v1") // a waiter of version 1 is first in the queue
		locktest.Release(t, lease)
		if owner := s.Client.Get(t.Context(), key).Val(); owner != "" {
			t.Errorf("the release gave the lock to %s", owner)
		}
		if old.poll(key, 1) == 0 {
			t.Error("version 1 did not find the free lock")
		}
		wantRefused(t, e, key, "v1")
		if !old.release(key, 1) {
			t.Error("version 1 had lost its lock")
		}
		lease = locktest.Take(t, e.Fair(), key)
		old.acquire(key, 2, 1)
		select {
		case m := <-heard:
			t.Errorf("version 1 was sent %q", m.Payload)
		default:
		}
		stop() // the process ends, and its token stays in the queue
		failed := make(chan error, 1)
		go func() {
			next, err := onServer(t, s, handoff.Options{}).Fair().Acquire(t.Context(), key)
			if err == nil {
				err = next.Release(context.Background())
			}
			failed <- err
		}()
		wait.Until(t, "only the waiter of version 2 is in the queue", func() bool {
			return inspect(t, e, key).Queue == 1 && s.Client.ZScore(t.Context(), handoff.KeysOf(key).Queue, old.token(2)).Err() != nil
		})
		locktest.Release(t, lease)
		if err := <-failed; err != nil {
			t.Errorf("the waiter of version 2: %v", err)
		}
	})
}

// outcome returns that of an Acquire in the background.
func outcome(t *testing.T, got chan lock.Lease, failed chan error) (lock.Lease, error) {
	t.Helper()
	select {
	case lease := <-got:
		return lease, nil
	case err := <-failed:
		return nil, err
	case <-time.After(locktest.Soon):
		t.Fatal("Acquire does not return")
		return nil, nil
	}
}

// queuedBehind makes a waiter of e first in the queue, and a waiter of version 1 the next; lease is what they wait for.
func queuedBehind(t *testing.T, s *testenv.RedisServer, name, key string, old v1) (lease lock.Lease, got chan lock.Lease, failed chan error) {
	t.Helper()
	lease = locktest.Take(t, pick(onServer(t, s, handoff.Options{}), name), key)
	got, failed = async(t.Context(), pick(onServer(t, s, handoff.Options{}), name), key)
	wait.Until(t, "a waiter", func() bool { return s.Client.ZCard(t.Context(), handoff.KeysOf(key).Queue).Val() == 1 })
	if old.acquire(key, 1, 1) != 0 {
		t.Fatal("version 1 got in beside version 2")
	}
	return lease, got, failed
}

// A script of version 1 pops the queue as it is: it grants the lock to a waiter of version 2, whose process understands the message.
func TestVersionOneGrantsToVersionTwo(t *testing.T) {
	for _, name := range []string{"handoff", "fair"} {
		t.Run(name, func(t *testing.T) {
			besideVersionOne(t, func(t *testing.T, s *testenv.RedisServer, old v1, key string) {
				lease, got, failed := queuedBehind(t, s, name, key, old)
				s.Client.Del(t.Context(), key) // as if the lock had expired: the holder learns of it with its next renewal
				if old.acquire(key, 2, 1) != 0 {
					t.Fatal("version 1 overtook the waiter of version 2")
				}
				next, err := outcome(t, got, failed)
				if err != nil {
					t.Fatal(err)
				}
				if next.Fence() <= lease.Fence() {
					t.Errorf("fence %d after %d, want it to rise", next.Fence(), lease.Fence())
				}
				if owner := s.Client.Get(t.Context(), key).Val(); !strings.HasPrefix(owner, "v2-") {
					t.Errorf("the lock is %s's", owner)
				}
				if old.poll(key, 1) != 0 || old.acquire(key, 3, 0) != 0 {
					t.Error("version 1 got in beside version 2")
				}
				locktest.Release(t, next)
				_ = lease.Release(t.Context()) // lost
			})
		})
	}
}

// A waiter of version 2 whose lock goes to version 1 is refused by its next poll, and not left to wait for a version that may not wake it.
func TestVersionOneOvertakes(t *testing.T) {
	besideVersionOne(t, func(t *testing.T, s *testenv.RedisServer, old v1, key string) {
		lease, got, failed := queuedBehind(t, s, "fair", key, old)
		if err := s.Client.Set(t.Context(), key, old.token(2), time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := outcome(t, got, failed); !errors.Is(err, handoff.ErrVersion) {
			t.Errorf("the waiter's Acquire = %v, want ErrVersion", err)
		}
		wait.Until(t, "only version 1 in the queue", func() bool {
			return s.Client.ZCard(t.Context(), handoff.KeysOf(key).Queue).Val() == 1
		})
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
		if owner := s.Client.Get(t.Context(), key).Val(); owner != old.token(2) {
			t.Errorf("after a late release the lock is %q's, want version 1's", owner)
		}
	})
}

// An operator's process evicts a holder of version 1, which learns of it with its release.
func TestVersionOneIsEvicted(t *testing.T) {
	besideVersionOne(t, func(t *testing.T, s *testenv.RedisServer, old v1, key string) {
		e := onServer(t, s, handoff.Options{})
		fence := old.acquire(key, 1, 0)
		if h := inspect(t, e, key).Holders; len(h) != 1 || h[0].Host != "" || h[0].PID != 0 || h[0].TTL <= 0 {
			t.Errorf("Inspect: holders %+v, want one without host and pid", h)
		}
		if forced := force(t, e, key, 1); forced.Fence <= fence {
			t.Errorf("ForceRelease: fence %d after %d, want it to rise", forced.Fence, fence)
		}
		lease := locktest.Take(t, e.Handoff(), key)
		if old.release(key, 1) {
			t.Error("version 1 could release what it was evicted from")
		}
		locktest.Release(t, lease)
		if old.acquire(key, 1, 0) != 0 {
			t.Error("version 1 got in with the evicted token")
		}
	})
}

// The tokens are of a version that is yet to come. What is no token at all is just somebody's.
func TestVersionOfOthers(t *testing.T) {
	onServers(t, func(t *testing.T, s *testenv.RedisServer) {
		ctx, e := t.Context(), onServer(t, s, handoff.Options{})
		if err := s.Client.Set(ctx, s.Prefix+"{3}", "v3-ABCDEFGHIJKLMNOP-1-host.1.16.2500", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, e, s.Prefix+"{3}", "v3")
		if err := s.Client.Set(ctx, s.Prefix+"{2}", "5f6d1f5e-0a0b-4c4d-8e8f-000000000000", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		locktest.WantBusy(t, e.Handoff(), s.Prefix+"{2}", "held by another kind of lock")
	})
}

// Messages that an engine cannot read change nothing. A token that is not its own, or ended, is cancelled, and nothing else is sent, except
// the poll of the waiter, which may be due.
func TestVersionOfMessages(t *testing.T) {
	onServers(t, func(t *testing.T, s *testenv.RedisServer) {
		key := s.Prefix + "{1}"
		held := locktest.Take(t, onServer(t, s, handoff.Options{}).Fair(), key)
		c, sent := locktest.RedisClient(t, s), &spy{}
		got, failed := async(t.Context(), engine(t, c, handoff.Options{GrantTimeout: 30 * time.Second}).Fair(), key)
		wait.Until(t, "a waiter", func() bool { return s.Client.ZCard(t.Context(), handoff.KeysOf(key).Queue).Val() == 1 })
		token := s.Client.ZRange(t.Context(), handoff.KeysOf(key).Queue, 0, 0).Val()[0]
		process, rest, _ := strings.Cut(token, ".")
		number, _, _ := strings.Cut(rest, ".")
		publish := func(m string) {
			if n := s.Client.Publish(t.Context(), "lock:engine:"+process, m).Val(); n != 1 {
				t.Fatalf("%d processes heard %q", n, m)
			}
		}
		now := strconv.FormatInt(time.Now().UnixMilli(), 10)
		publish("first.1.1.2500 7 " + now + " " + key)
		wait.Until(t, "a cancel, after which the server knows its script", func() bool {
			return len(s.Client.Keys(t.Context(), s.Prefix+"*first.1.1.2500").Val()) == 1
		})
		c.AddHook(sent)
		unreadable := []string{"", " ", token, token + " 7", "   ", token + " q7 " + now + " " + key, token + " 7 then " + key}
		var foreign []string
		for _, other := range []string{
			"ABCDEFGHIJKLMNOP.1.1.2500", "ABCDEFGHIJKLMNOP." + rest, number + ".1.1.2500", "v3-" + token[3:],
			process + ".zz.1.2500", process + "." + number + ".2.2500",
		} {
			foreign = append(foreign, other+" 7 "+now+" "+key, other+" x7 "+now+" "+key)
		}
		for _, m := range slices.Concat(unreadable, foreign) {
			publish(m)
		}
		cancels, commands := int64(len(foreign)/2), func() int64 { return sent.scripts.Load() - sent.polls.Load() }
		wait.Until(t, "the cancels", func() bool { return commands() >= cancels })
		select {
		case lease := <-got:
			t.Fatalf("a message that nobody understands granted %v", lease)
		case <-time.After(100 * time.Millisecond):
		}
		if n := commands(); n != cancels {
			t.Errorf("%d commands, want %d cancels", n, cancels)
		}
		locktest.Release(t, held)
		lease, err := outcome(t, got, failed)
		if err != nil {
			t.Fatal(err)
		}
		locktest.Release(t, lease)
	})
}
