package handoff_test

import (
	"context"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

func inspect(t *testing.T, e *handoff.Engine, key string) handoff.Inspection {
	t.Helper()
	found, err := e.Inspect(t.Context(), key)
	testkit.Mustf(t, err, "Inspect")
	return found
}

// wantHere fails unless a holder is this process.
func wantHere(t *testing.T, h handoff.Holder, reads bool) {
	t.Helper()
	host, _ := os.Hostname()
	if h.Host != host || h.PID != os.Getpid() || h.Reads != reads || h.TTL <= 0 || h.TTL > locktest.TTL {
		t.Errorf("holder %+v, want %s, %d, reads %t, and a TTL up to %s", h, host, os.Getpid(), reads, locktest.TTL)
	}
}

func TestEngineInspect(t *testing.T) {
	locktest.OnRedis(t, func(t *testing.T, s *testenv.RedisServer) {
		key := s.Prefix + "{1}"
		a, b := onServer(t, s, handoff.Options{}), onServer(t, s, handoff.Options{})
		if free := inspect(t, a, key); len(free.Holders) != 0 || free.Queue != 0 || free.Waiting != 0 || free.Fence != 0 {
			t.Errorf("a lock that nobody has used: %+v", free)
		}
		held := locktest.Obtain(t, a.Handoff(), key)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var failures []chan error
		for _, l := range []lock.Locker{b.Handoff(), b.Handoff(), b.Fair(), a.Fair()} {
			_, failed := async(ctx, l, key)
			failures = append(failures, failed)
		}
		var found handoff.Inspection
		testkit.Until(t, "three attempts in the queue", func() bool {
			found = inspect(t, b, key)
			return found.Queue == 3 && found.Waiting == 3
		})
		if own := inspect(t, a, key); own.Waiting != 1 {
			t.Errorf("%d callers of the other engine wait, want 1", own.Waiting)
		}
		if found.Fence < held.Fence() || len(found.Holders) != 1 {
			t.Fatalf("%+v, want one holder and at least its fence %d", found, held.Fence())
		}
		wantHere(t, found.Holders[0], false)
		wantExpiries(t, s) // in use, too, and after waiters have left (invariant 10)
		cancel()
		for _, failed := range failures {
			<-failed
		}
		locktest.Release(t, held)
		testkit.Until(t, "a free lock", func() bool {
			found = inspect(t, b, key)
			return len(found.Holders) == 0 && found.Queue == 0 && found.Waiting == 0
		})
		wantExpiries(t, s)
	})
}

func TestEngineInspectReadWrite(t *testing.T) {
	locktest.OnRedis(t, func(t *testing.T, s *testenv.RedisServer) {
		e, key, found := onServer(t, s, handoff.Options{}), s.Prefix+"{1}", handoff.Inspection{}
		first, second := locktest.Obtain(t, e.ReadWrite().Read(), key), locktest.Obtain(t, e.ReadWrite().Read(), key)
		got, _ := async(t.Context(), e.ReadWrite().Write(), key)
		testkit.Until(t, "a writer, which waits, and two readers", func() bool {
			found = inspect(t, e, key)
			return len(found.Holders) == 3 && found.Waiting == 1
		})
		for i, h := range found.Holders {
			wantHere(t, h, i > 0)
		}
		locktest.Release(t, first)
		locktest.Release(t, second)
		released(t, served(t, "the writer", got))
	})
}

// The host is found in the token, whatever its name is made of. An owner that is no engine's token has none.
func TestEngineInspectNamesHosts(t *testing.T) {
	s := testenv.Miniredis(t)
	e := onServer(t, s, handoff.Options{})
	for token, want := range map[string]handoff.Holder{
		"v2-ABCDEFGHIJKLMNOP-77-web-7%2Eshop%2Eexample.1.16.2500": {Host: "web-7.shop.example", PID: 77},
		"v2-ABCDEFGHIJKLMNOP-1-%E5%BA%97%20%25.1.16.2500":         {Host: "店 %", PID: 1},
		"5f6d1f5e-0a0b-4c4d-8e8f-000000000000":                    {},
		"a value by hand":                                         {},
	} {
		testkit.Must(t, s.Client.Set(t.Context(), s.Prefix+"k", token, time.Minute).Err())
		found := inspect(t, e, s.Prefix+"k")
		if len(found.Holders) != 1 || found.Holders[0].Host != want.Host || found.Holders[0].PID != want.PID {
			t.Errorf("%s: %+v, want %+v", token, found.Holders, want)
		}
	}
}

// A Redis that does not answer holds Inspect up for no longer than ctx lasts.
func TestEngineInspectUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 1)
		e := links[0].process(t, handoff.Options{})
		inspect(t, e, "k")
		links[0].replies.Store(true)
		began := time.Now()
		_, err := e.Inspect(testkit.Within(t, 100*time.Millisecond), "k")
		testkit.IsError(t, err, lock.ErrUnavailable, "Inspect")
		within(t, began, 150*time.Millisecond, "Inspect returns")
	})
}

func force(t *testing.T, e *handoff.Engine, key string, evicted int) handoff.Forced {
	t.Helper()
	forced, err := e.ForceRelease(t.Context(), key)
	testkit.Mustf(t, err, "ForceRelease")
	if len(forced.Evicted) != evicted || (forced.Fence > 0) != (evicted > 0) {
		t.Fatalf("ForceRelease = %+v, want %d evicted", forced, evicted)
	}
	return forced
}

func wantEvicted(t *testing.T, lease lock.Lease) {
	t.Helper()
	testkit.IsError(t, context.Cause(lease.Context()), lock.ErrLost, "cause of the evicted")
	locktest.ReleaseLost(t, lease, "Release of the evicted")
}

// An operator's process takes the lock from a holder: the next waiter has it, and the holder knows it, without any
// delay. The fences of the evicted, of the operator and of the next holder rise in this order.
func TestForceRelease(t *testing.T) {
	for name, c := range map[string]struct {
		waiter  string
		evicted int
	}{"handoff": {"handoff", 1}, "fair": {"fair", 1}, "rw-write": {"rw-write", 1},
		"rw-read": {"rw-write", 2}} { // the writer that waits for the reader is evicted too, and comes back
		inBubble(t, name, func(t *testing.T) {
			s := newScene(t, handoff.Options{}, name, c.waiter)
			operator := (&link{m: s.m}).process(t, handoff.Options{})
			subscribe(t, s.ls[0], s.ls[1])
			got := s.waits(1)
			began := time.Now()
			forced := force(t, operator, "k{1}", c.evicted)
			next := <-got
			within(t, began, 100*time.Millisecond, "the next holder gets in")
			synctest.Wait()
			wantEvicted(t, s.held)
			rise(t, s.held.Fence(), forced.Fence, next.Fence())
			locktest.WantBusy(t, pick(operator, name), "k{1}", "after the late release")
			locktest.Release(t, next)
			force(t, operator, "k{1}", 0)
		})
	}
}

// A holder whose process has no subscription learns of it with its next renewal, or with its release; also where the
// release may be one that was sent twice, because the client repeats commands or an answer was lost, and although the
// lock was passed on and released again meanwhile and Redis remembers the last releaser only.
func TestForceReleaseOfAProcessThatNeverWaited(t *testing.T) {
	for _, name := range allLocks {
		for how, c := range map[string]struct {
			retries int
			rest    time.Duration
			rival   bool
			lost    int64 // answers to the release
		}{
			"released": {retries: -1}, "renewed": {retries: -1, rest: locktest.TTL / 2},
			"client that repeats": {retries: 3}, "client that repeats, renewed": {retries: 3, rest: locktest.TTL / 2},
			"client that repeats, rival": {retries: 3, rival: true},
			"answer lost, rival":         {retries: -1, rival: true, lost: 1},
			"all answers lost, rival":    {retries: -1, rival: true, lost: maxTries},
		} {
			inBubble(t, name+"/"+how, func(t *testing.T) {
				_, links := network(t, 2)
				client, lost := links[0].retrying(c.retries), &locktest.LostAnswers{Name: "evalsha"}
				l, operator := pick(links[0].processOn(t, client, handoff.Options{}), name), links[1].process(t, handoff.Options{})
				locktest.Warm(t, l, "k{1}")
				lease := locktest.Obtain(t, l, "k{1}")
				force(t, operator, "k{1}", 1)
				if c.rival {
					locktest.Warm(t, pick(operator, name), "k{1}")
				}
				if time.Sleep(c.rest); c.rest > 0 && lease.Context().Err() == nil {
					t.Errorf("%s after the force release the holder's context is alive", c.rest)
				}
				client.AddHook(lost)
				if lost.Left.Store(c.lost); c.lost == maxTries {
					locktest.ReleaseUnknown(t, lease, "Release with all answers lost")
					time.Sleep(2 * time.Second) // past the cancel that follows
				}
				locktest.ReleaseLost(t, lease, "Release of the evicted")
				locktest.Warm(t, l, "k{1}")
			})
		}
	}
}

// The answer to a force release is lost, and the next holder gets in before the command is sent again. The operator
// learns all the same whom it has evicted, and the fence that refuses them and not the next holder.
func TestForceReleaseWithoutAnAnswer(t *testing.T) {
	locktest.OnRedis(t, func(t *testing.T, s *testenv.RedisServer) {
		for _, name := range []string{"handoff", "rw-write", "rw-read"} {
			key, c := s.Prefix+name+"{1}", locktest.RedisClient(t, s)
			holder, rival, operator := onServer(t, s, handoff.Options{}), onServer(t, s, handoff.Options{}),
				engine(t, c, handoff.Options{})
			first := locktest.Obtain(t, pick(holder, name), key+"first")
			force(t, operator, key+"first", 1) // loads the scripts
			locktest.ReleaseLost(t, first, "Release of the evicted")
			var sent atomic.Int64
			var next lock.Lease
			c.AddHook(locktest.SendHook{Name: "evalsha", Send: func(_ context.Context, send func() error) error {
				err := send()
				if sent.Add(1) == 2 { // after the inspection
					next = locktest.Obtain(t, rival.Handoff(), key)
					err = io.ErrUnexpectedEOF
				}
				return err
			}})
			lease := locktest.Obtain(t, pick(holder, name), key)
			forced := force(t, operator, key, 1)
			rise(t, lease.Fence(), forced.Fence, next.Fence())
			locktest.ReleaseLost(t, lease, "Release of the evicted")
			locktest.Release(t, next)
		}
	})
}

// A waiter whose grant's message was lost is evicted while it seems to wait still. It comes back at once, or with its
// next poll if the message of the eviction was lost too.
func TestForceReleaseOfAWaiterThatMissedItsGrant(t *testing.T) {
	for name, rival := range map[string]string{"handoff": "handoff", "fair": "fair", "rw-write": "rw-write",
		"rw-read": "rw-write"} {
		for missed, most := range map[string]time.Duration{"the grant": 100 * time.Millisecond,
			"both messages": 5 * time.Second} {
			inBubble(t, name+"/"+missed, func(t *testing.T) {
				s := newScene(t, handoff.Options{}, rival, name)
				operator := (&link{m: s.m}).process(t, handoff.Options{})
				subscribe(t, s.ls[1], s.ls[0])
				got := s.waits(1)
				s.links[1].dropsMessages.Store(true)
				locktest.Release(t, s.held)
				synctest.Wait()
				s.links[1].dropsMessages.Store(missed == "both messages")
				began := time.Now()
				forced := force(t, operator, "k{1}", 1)
				lease := <-got
				within(t, began, most, "the waiter gets in")
				rise(t, forced.Fence, lease.Fence())
				locktest.Release(t, lease)
				s.links[1].dropsMessages.Store(false)
				time.Sleep(5 * time.Second) // cancels and cleanups
				nothingLeft(t, s.m, "k{1}")
			})
		}
	}
}

// The operator may be the holder's own process, which knows at once, also without a subscription. Its waiters go on.
func TestForceReleaseInTheHoldersProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 1)
		e := links[0].process(t, handoff.Options{})
		lease := locktest.Obtain(t, e.Handoff(), "k{1}")
		force(t, e, "k{1}", 1)
		wantEvicted(t, lease)
		lease = locktest.Obtain(t, e.Handoff(), "k{1}")
		got, _ := waits(t.Context(), e.Handoff(), "k{1}")
		force(t, e, "k{1}", 1)
		wantEvicted(t, lease)
		locktest.Release(t, <-got)
	})
}

// Readers are evicted with the writer that waits for them, or before one queues. Those that queue are let in.
func TestForceReleaseOfReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 2)
		l := links[0].process(t, handoff.Options{}).ReadWrite()
		operator := links[1].process(t, handoff.Options{})
		subscribe(t, l.Write(), operator.ReadWrite().Write())
		for _, readers := range []int{1, 150} {
			var leases []lock.Lease
			for range readers {
				leases = append(leases, locktest.Obtain(t, l.Read(), "k{1}"))
			}
			forced := force(t, operator, "k{1}", readers)
			synctest.Wait()
			for _, lease := range leases {
				wantEvicted(t, lease)
				rise(t, lease.Fence(), forced.Fence)
			}
			write := locktest.Obtain(t, l.Write(), "k{1}")
			got, _ := waits(t.Context(), l.Read(), "k{1}")
			force(t, operator, "k{1}", 1)
			locktest.Release(t, <-got)
			synctest.Wait()
			wantEvicted(t, write)
		}
	})
}

// An owner that no engine has put there, such as another kind of lock, can be evicted too. A Redis that does not answer
// is no success.
func TestForceReleaseOfAForeignOwner(t *testing.T) {
	locktest.OnRedis(t, func(t *testing.T, s *testenv.RedisServer) {
		e := onServer(t, s, handoff.Options{})
		testkit.Must(t, s.Client.Set(t.Context(), s.Prefix+"{1}", "a value by hand", 0).Err())
		force(t, e, s.Prefix+"{1}", 1)
		locktest.Warm(t, e.Handoff(), s.Prefix+"{1}")
		wantExpiries(t, s)
		testkit.Must(t, s.Client.LPush(t.Context(), s.Prefix+"list", "x").Err())
		_, err := e.ForceRelease(t.Context(), s.Prefix+"list")
		testkit.IsError(t, err, lock.ErrUnavailable, "ForceRelease of a list")
	})
}
