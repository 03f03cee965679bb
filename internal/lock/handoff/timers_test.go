package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
)

// both runs a test in a bubble for each of the engine's locks.
func both(t *testing.T, f func(t *testing.T, name string)) {
	for _, name := range []string{"handoff", "fair"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, name) })
		})
	}
}

// mustHappenWithin bounds how long a test waits for what must happen, so that it fails and does not hang: in a bubble the clock never stops
// while a lease is renewed.
const mustHappenWithin = 10 * time.Minute

// waits acquires in the background. It panics if there is no outcome.
func waits(ctx context.Context, l lock.Locker, key string) (got chan lock.Lease, failed chan error) {
	got, failed = make(chan lock.Lease, 1), make(chan error, 1)
	go func() {
		switch lease, err := l.Acquire(lock.WithWait(ctx, mustHappenWithin), key); {
		case err == nil:
			got <- lease
		case errors.Is(err, lock.ErrBusy) && ctx.Err() == nil:
			panic(fmt.Sprintf("nobody let a waiter in within %s", mustHappenWithin))
		default:
			failed <- err
		}
	}()
	synctest.Wait()
	return got, failed
}

func TestEngineRenews(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		m, links := network(t, 1)
		lease := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{1}")
		for range 60 {
			time.Sleep(10 * time.Second)
			if remaining := m.TTL("k{1}"); remaining < locktest.TTL/2 {
				t.Fatalf("%s left of a TTL of %s", remaining, locktest.TTL)
			}
		}
		if err := lease.Context().Err(); err != nil {
			t.Fatalf("the lease ended: %v", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * locktest.TTL)
		nothingLeft(t, m, "k{1}")
	})
}

// A renewal that is lost is sent again in time, also of a lock that was granted by a message and must be renewed sooner; also if the client
// itself would wait for long.
func TestEngineLostRenewalIsSentAgain(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 2)
		held := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{1}")
		c := links[1].client()
		c.Options().ReadTimeout = time.Minute
		got, _ := waits(t.Context(), pick(links[1].processOn(t, c, handoff.Options{}), name), "k{1}")
		_ = held.Release(t.Context())
		lease := <-got
		links[1].keep.Store(true)
		time.Sleep(1200 * time.Millisecond) // past the first renewal
		links[1].keep.Store(false)
		time.Sleep(locktest.TTL)
		if err := context.Cause(lease.Context()); err != nil {
			t.Errorf("the lease ended: %v", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	})
}

// A lease that is about to end by its MaxHold does not hurry the renewal of others, which would fail where the server is not
// near.
func TestEngineMaxHoldSpoilsNoRenewal(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 2)
		held := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{2}")
		l := pick(links[1].process(t, handoff.Options{MaxHold: 4 * time.Second}), name)
		first := locktest.Obtain(t, l, "k{1}")
		got, _ := waits(t.Context(), l, "k{2}")
		links[1].slow.Store(int64(100 * time.Millisecond))
		time.Sleep(2900 * time.Millisecond) // so that the two are renewed together, a moment before the first one ends
		_ = held.Release(t.Context())
		lease := <-got
		time.Sleep(3 * time.Second) // past the grant timeout
		if err := context.Cause(lease.Context()); err != nil {
			t.Errorf("the lease ended: %v", err)
		}
		_ = first.Release(t.Context())
		_ = lease.Release(t.Context())
	})
}

// A thousand locks, taken over two seconds, share their renewals: a command a second at a TTL of 30 s, which is 30 for each
// TTL, whatever it is.
func TestEngineRenewalsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks, apart = 1000, 2 * time.Millisecond
		_, links := network(t, 1)
		c, counted := links[0].client(), &spy{}
		l := links[0].processOn(t, c, handoff.Options{}).Handoff()
		leases := make([]lock.Lease, locks)
		for i := range leases {
			leases[i] = locktest.Obtain(t, l, fmt.Sprintf("%d", i))
			time.Sleep(apart)
		}
		c.AddHook(counted)
		time.Sleep(locktest.TTL * 5 / 2)
		// The first renewal may find a server that does not know the script, and send each of its commands twice.
		if got, least, most := counted.scripts.Load(), int64(2*locks/100), int64(30*5/2+locks/100); got < least || got > most {
			t.Errorf("%d renewal commands for %d locks in 2.5 TTL, want %d to %d", got, locks, least, most)
		}
		for _, lease := range leases {
			if err := lease.Context().Err(); err != nil {
				t.Fatalf("a lease ended: %v", context.Cause(lease.Context()))
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestEngineCutOffHolderExpires(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		m, links := network(t, 1)
		lease := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{1}")
		time.Sleep(95 * time.Second)
		links[0].down.Store(true)
		links[0].cut()
		<-lease.Context().Done()
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
			t.Errorf("cause = %v, want ErrLost", cause)
		}
		if !m.Exists("k{1}") {
			t.Error("the lock expired while its holder still trusted it")
		}
		if err := lease.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
			t.Errorf("Release without a network = %v, want unknown", err)
		}
	})
}

func TestEngineLearnsOfItsLoss(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		m, links := network(t, 1)
		l := pick(links[0].process(t, handoff.Options{}), name)
		lease := locktest.Obtain(t, l, "k{1}")
		m.Del("k{1}")
		start := time.Now()
		<-lease.Context().Done()
		if took := time.Since(start); took > locktest.TTL/2 {
			t.Errorf("told after %s, the next renewal was due after %s", took, locktest.TTL*2/5)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
		next := locktest.Obtain(t, l, "k{1}")
		if next.Fence() <= lease.Fence() {
			t.Errorf("fence %d after %d, want it to rise", next.Fence(), lease.Fence())
		}
	})
}

func TestEngineMaxHold(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 1)
		l := pick(links[0].process(t, handoff.Options{MaxHold: time.Minute}), name)
		start := time.Now()
		lease := locktest.Obtain(t, l, "k{1}")
		<-lease.Context().Done()
		if held := time.Since(start); held > time.Minute+time.Second || held < time.Minute {
			t.Errorf("held for %s, want %s", held, time.Minute)
		}
		locktest.Obtain(t, l, "k{1}")
		if entered := time.Since(start); entered > time.Minute+locktest.TTL {
			t.Errorf("the next one entered after %s", entered)
		}
	})
}

// Every message is lost: a poll finds each grant within two seconds.
func TestEngineAllMessagesLost(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 2)
		holder := pick(links[0].process(t, handoff.Options{}), name)
		waiter := pick(links[1].process(t, handoff.Options{}), name)
		links[1].dropsMessages.Store(true)
		for range 20 {
			lease := locktest.Obtain(t, holder, "k{1}")
			got, failed := waits(t.Context(), waiter, "k{1}")
			time.Sleep(300 * time.Millisecond)
			start := time.Now()
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-failed:
				t.Fatal(err)
			case next := <-got:
				if took := time.Since(start); took > 2100*time.Millisecond {
					t.Errorf("progress after %s, want two seconds at most", took)
				}
				if err := next.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A waiter that ends, in any state, leaves nothing behind and delays no other waiter.
func TestEngineContextEndsInEachPhase(t *testing.T) {
	phases := map[string]func(w *link, held lock.Lease, cancel func()){
		"request lost": func(w *link, _ lock.Lease, cancel func()) { w.calls.Store(true); cancel() },
		"answer lost":  func(w *link, _ lock.Lease, cancel func()) { w.replies.Store(true); cancel() },
		"queued":       func(_ *link, _ lock.Lease, cancel func()) { cancel() },
		"granted": func(_ *link, held lock.Lease, cancel func()) {
			go func() { _ = held.Release(context.Background()) }()
			cancel()
		},
		"granted, message lost": func(w *link, held lock.Lease, cancel func()) {
			w.dropsMessages.Store(true)
			_ = held.Release(context.Background())
			cancel()
		},
	}
	for phase, end := range phases {
		t.Run(phase, func(t *testing.T) {
			both(t, func(t *testing.T, name string) {
				m, links := network(t, 2)
				holder := pick(links[0].process(t, handoff.Options{}), name)
				waiter := pick(links[1].process(t, handoff.Options{}), name)
				held := locktest.Obtain(t, holder, "k{1}")
				ctx, cancel := context.WithCancel(t.Context())
				got, failed := waits(ctx, waiter, "k{1}")
				end(links[1], held, cancel)
				start := time.Now()
				select {
				case lease := <-got: // it was faster
					_ = lease.Release(t.Context())
				case err := <-failed:
					if !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.Canceled) {
						t.Errorf("Acquire = %v, want ErrBusy and Canceled", err)
					}
				}
				if took := time.Since(start); took > 5*time.Millisecond {
					t.Errorf("returned after %s", took)
				}
				links[1].calls.Store(false)
				links[1].replies.Store(false)
				time.Sleep(2 * time.Second)
				_ = held.Release(t.Context())
				synctest.Wait()
				nothingLeft(t, m, "k{1}")
			})
		})
	}
}

// A process that dies, waiting or holding, delays the others by a grant timeout or a TTL at most.
func TestEngineProcessDies(t *testing.T) {
	for step, most := range map[string]time.Duration{"queued": time.Second, "half open": 3 * time.Second, "holding": locktest.TTL + 3*time.Second} {
		t.Run(step, func(t *testing.T) {
			both(t, func(t *testing.T, name string) {
				_, links := network(t, 3)
				var ls []lock.Locker
				for _, w := range links {
					ls = append(ls, pick(w.process(t, handoff.Options{}), name))
				}
				held := locktest.Obtain(t, ls[0], "k{1}")
				dead, _ := waits(context.Background(), ls[1], "k{1}")
				last, failed := waits(context.Background(), ls[2], "k{1}")
				release := func() {
					if err := held.Release(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				die := func() { // nothing that it sends arrives any more, and nothing arrives at it
					links[1].down.Store(true)
					links[1].calls.Store(true)
					links[1].replies.Store(true)
				}
				switch step {
				case "queued":
					die()
					links[1].cut()
					synctest.Wait()
					release()
				case "half open":
					die()
					release()
				case "holding":
					release()
					<-dead
					die()
				}
				start := time.Now()
				select {
				case <-last:
				case err := <-failed:
					t.Fatal(err)
				}
				if took := time.Since(start); took > most {
					t.Errorf("the next one entered after %s, want %s at most", took, most)
				}
			})
		})
	}
}

// Sixty-four waiters of four processes cost one command in about two seconds for each process, whichever process holds the lock.
func TestEngineWaitersCostNothing(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 5)
		counted := &spy{}
		locktest.Obtain(t, pick(links[4].process(t, handoff.Options{}), name), "k{1}")
		ctx, cancel := context.WithCancel(t.Context())
		var failures []chan error
		for _, w := range links[:4] {
			c := w.client()
			t.Cleanup(func() { _ = c.Close() })
			c.AddHook(counted)
			l := pick(engine(t, c, handoff.Options{}), name)
			for range 16 {
				_, failed := waits(ctx, l, "k{1}")
				failures = append(failures, failed)
			}
		}
		time.Sleep(10 * time.Second) // the server knows all scripts now
		before := counted.scripts.Load()
		const minutes = 5
		time.Sleep(minutes * time.Minute)
		if got := counted.scripts.Load() - before; got > 4*(minutes*60*4/7+1) {
			t.Errorf("%d commands in %d minutes, want one in 1.75 s of each of 4 processes at most", got, minutes)
		}
		cancel()
		for _, failed := range failures {
			<-failed
		}
	})
}
