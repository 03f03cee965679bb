package handoff_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
)

// cancelledByGrant ends after its waiter has been granted the lock and before it looks: both happen while Done is asked for.
type cancelledByGrant struct {
	context.Context
	asked atomic.Bool
	grant func()
}

func (c *cancelledByGrant) Done() <-chan struct{} {
	if c.asked.CompareAndSwap(false, true) {
		c.grant()
	}
	return c.Context.Done()
}

// A grant that races with the end of its waiter's context goes to the waiter or is passed on; it is never nobody's
// (invariant 5). Which of the two is chance, so that there are many rounds.
func TestEngineGrantRacesWithCancel(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		m, links := network(t, 2)
		holder := pick(links[0].process(t, handoff.Options{}), name)
		l := pick(links[1].process(t, handoff.Options{}), name)
		gaveUp := 0
		for range 40 {
			held := locktest.Obtain(t, holder, "k{1}")
			inner, cancel := context.WithCancel(t.Context())
			ctx := &cancelledByGrant{Context: inner, grant: func() {
				time.Sleep(100 * time.Millisecond) // until it is queued
				_ = held.Release(context.Background())
				time.Sleep(100 * time.Millisecond) // until the message has come
				cancel()
			}}
			lease, err := l.Acquire(ctx, "k{1}")
			if err == nil {
				err = lease.Release(t.Context())
			} else if gaveUp++; errors.Is(err, lock.ErrBusy) && errors.Is(err, context.Canceled) {
				err = nil
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			nothingLeft(t, m, "k{1}")
		}
		if gaveUp == 0 {
			t.Error("no waiter gave up after its grant")
		}
	})
}

// A waiter has gone and its cancel was lost. If it is granted the lock after that, its process passes the grant on as soon as the message
// arrives (invariant 5).
func TestEngineGrantToAnEndedWaiter(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		m, links := network(t, 3)
		held := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{1}")
		ctx, cancel := context.WithCancel(t.Context())
		_, failed := waits(ctx, pick(links[1].process(t, handoff.Options{}), name), "k{1}")
		next, _ := waits(t.Context(), pick(links[2].process(t, handoff.Options{}), name), "k{1}")
		links[1].calls.Store(true)
		cancel()
		<-failed
		time.Sleep(2400 * time.Millisecond) // the cancel is given up for now
		links[1].heal()
		start := time.Now()
		_ = held.Release(t.Context())
		lease := <-next
		if took := time.Since(start); took > 500*time.Millisecond {
			t.Errorf("the next one entered after %s", took)
		}
		_ = lease.Release(t.Context())
		time.Sleep(2 * time.Second)
		nothingLeft(t, m, "k{1}")
	})
}

// A cancel that was lost is sent again, within two seconds of the network's return (invariant 5).
func TestEngineCancelIsSentAgain(t *testing.T) {
	for _, outage := range []time.Duration{300 * time.Millisecond, 2400 * time.Millisecond, time.Minute} {
		t.Run(outage.String(), func(t *testing.T) {
			both(t, func(t *testing.T, name string) {
				m, links := network(t, 2)
				locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{1}")
				l := pick(links[1].process(t, handoff.Options{}), name)
				var ends []context.CancelFunc
				var failures []chan error
				for range 3 {
					ctx, cancel := context.WithCancel(t.Context())
					_, failed := waits(ctx, l, "k{1}")
					ends, failures = append(ends, cancel), append(failures, failed)
				}
				if queued(m, "k{1}") == 0 {
					t.Fatal("nobody has queued")
				}
				links[1].calls.Store(true)
				for i, cancel := range ends {
					cancel()
					<-failures[i]
				}
				time.Sleep(outage)
				links[1].heal()
				time.Sleep(2 * time.Second)
				if n := queued(m, "k{1}"); n != 0 {
					t.Errorf("%d in the queue whose waiters have gone", n)
				}
			})
		})
	}
}

// A subscriber that was cut off polls as soon as it is subscribed again, and does not wait for the next poll (invariant 6).
func TestEngineReconnectPollsAtOnce(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 2)
		held := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{1}")
		got, _ := waits(t.Context(), pick(links[1].process(t, handoff.Options{}), name), "k{1}")
		links[1].down.Store(true)
		links[1].cut()
		_ = held.Release(t.Context())
		time.Sleep(20 * time.Millisecond)
		links[1].heal()
		start := time.Now()
		<-got
		if took := time.Since(start); took > 500*time.Millisecond {
			t.Errorf("the waiter entered %s after its connection was back", took)
		}
	})
}

// A grant whose message is lost, of a waiter that then gives up while its cancel is lost as well, holds the others up for a
// GrantTimeout at most, and not for a TTL (invariant 6).
func TestEngineGrantIsAnsweredOrExpires(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: 2500 * time.Millisecond, 400 * time.Millisecond: 400 * time.Millisecond, time.Hour: 30 * time.Second} {
		both(t, func(t *testing.T, name string) {
			_, links := network(t, 3)
			o := handoff.Options{GrantTimeout: given}
			held := locktest.Obtain(t, pick(links[0].process(t, o), name), "k{1}")
			waits(t.Context(), pick(links[1].process(t, o), name), "k{1}")
			next, _ := waits(t.Context(), pick(links[2].process(t, o), name), "k{1}")
			links[1].powerOff()
			start := time.Now()
			_ = held.Release(t.Context())
			<-next
			if took := time.Since(start); took > want*6/5 {
				t.Errorf("GrantTimeout %s: the next one entered after %s, want %s at most", given, took, want)
			}
		})
	}
}

// Waiters that vanish from the queue, as after a FLUSHALL or a failover, find their place again, and the lock that is
// free meanwhile (invariant 6).
func TestEngineQueueVanishes(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		m, links := network(t, 2)
		lost := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{1}")
		l := pick(links[1].process(t, handoff.Options{}), name)
		got, _ := waits(t.Context(), l, "k{1}")
		also, _ := waits(t.Context(), l, "k{1}")
		keys := handoff.KeysOf("k{1}")
		for _, k := range []string{keys.Lock, keys.Queue} {
			m.Del(k)
		}
		start := time.Now()
		lease := <-got
		_ = lease.Release(t.Context())
		<-also
		if took := time.Since(start); took > 2500*time.Millisecond {
			t.Errorf("the waiters entered after %s, want 2.5 s at most", took)
		}
		if err := lost.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release of what vanished = %v, want ErrLost", err)
		}
	})
}

// When a lease is lost, the waiters of its process start a new attempt, and get the lock (invariant 6).
func TestEngineLossLetsWaitersIn(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		m, links := network(t, 1)
		l := pick(links[0].process(t, handoff.Options{}), name)
		lost := locktest.Obtain(t, l, "k{1}")
		first, _ := waits(t.Context(), l, "k{1}")
		second, _ := waits(t.Context(), l, "k{1}")
		keys := handoff.KeysOf("k{1}")
		for _, k := range []string{keys.Lock, keys.Queue} {
			m.Del(k)
		}
		start := time.Now()
		_ = (<-first).Release(t.Context())
		_ = (<-second).Release(t.Context())
		if took := time.Since(start); took > locktest.TTL/2 {
			t.Errorf("the waiters entered after %s, the next renewal was due after %s", took, locktest.TTL*2/5)
		}
		<-lost.Context().Done()
		if err := lost.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
	})
}

// A process that has only had waiters of its own is not subscribed yet. It subscribes when its release queues behind another process, and
// then gets messages like any other.
func TestEngineSubscribesBeforeItQueues(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 2)
		l := pick(links[0].process(t, handoff.Options{Cohort: 1}), name)
		held := locktest.Obtain(t, l, "k{1}")
		var own chan lock.Lease
		if name == "handoff" { // which waits here, and sends nothing
			own, _ = waits(t.Context(), l, "k{1}")
		}
		other, _ := waits(t.Context(), pick(links[1].process(t, handoff.Options{}), name), "k{1}")
		if name == "fair" { // which queues at once
			own, _ = waits(t.Context(), l, "k{1}")
		}
		_ = held.Release(t.Context())
		lease := <-other
		time.Sleep(10 * time.Millisecond)
		start := time.Now()
		_ = lease.Release(t.Context())
		_ = (<-own).Release(t.Context())
		if took := time.Since(start); took > 500*time.Millisecond {
			t.Errorf("told after %s", took)
		}
	})
}

// A client that subscribes to all channels, for example to watch them, does not count as the process of a waiter, which has gone.
func TestEngineSkipsDeadProcesses(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 4)
		c := links[3].client()
		t.Cleanup(func() { _ = c.Close() })
		all := c.PSubscribe(t.Context(), "*")
		t.Cleanup(func() { _ = all.Close() })
		if _, err := all.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		held := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), name), "k{1}")
		ctx, gone := context.WithCancel(t.Context())
		_, failed := waits(ctx, pick(links[1].process(t, handoff.Options{}), name), "k{1}")
		next, _ := waits(t.Context(), pick(links[2].process(t, handoff.Options{}), name), "k{1}")
		links[1].down.Store(true)
		links[1].cut()
		synctest.Wait()
		start := time.Now()
		_ = held.Release(t.Context())
		_ = (<-next).Release(t.Context())
		if took := time.Since(start); took > 500*time.Millisecond {
			t.Errorf("the next one entered after %s", took)
		}
		gone()
		<-failed
	})
}

// A process that is subscribed on its own side only is skipped. It learns this from the poll that
// finds its waiter gone from the queue, and is served however many others there are.
func TestEngineReplacesAnAbandonedConnection(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 3)
		others := []lock.Locker{pick(links[0].process(t, handoff.Options{}), name), pick(links[1].process(t, handoff.Options{}), name)}
		l := pick(links[2].process(t, handoff.Options{}), name)
		subscribe(t, l, others[0])
		links[2].abandonSubscribers()
		var wg sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for _, other := range others {
			for range 2 {
				wg.Go(func() {
					for ctx.Err() == nil {
						if lease, err := other.Acquire(lock.WithWait(ctx, mustHappenWithin), "k{1}"); err == nil {
							time.Sleep(100 * time.Millisecond)
							_ = lease.Release(ctx)
						}
					}
				})
			}
		}
		time.Sleep(time.Second)
		start := time.Now()
		lease, err := l.Acquire(lock.WithWait(t.Context(), time.Minute), "k{1}")
		if took := time.Since(start); err != nil || took > 10*time.Second {
			t.Errorf("Acquire = %v after %s, want it within 10 s", err, took)
		} else {
			_ = lease.Release(t.Context())
		}
		stop()
		wg.Wait()
	})
}

// A connection that has missed a message is replaced: the second hand-off does not wait for a poll again.
func TestEngineReplacesAHalfOpenConnection(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 2)
		holder := pick(links[0].process(t, handoff.Options{}), name)
		l := pick(links[1].process(t, handoff.Options{}), name)
		subscribe(t, l, holder)
		links[1].dropMessages()
		for round, most := range []time.Duration{2500 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond} {
			held := locktest.Obtain(t, holder, "k{1}")
			got, _ := waits(t.Context(), l, "k{1}")
			start := time.Now()
			_ = held.Release(t.Context())
			_ = (<-got).Release(t.Context())
			if took := time.Since(start); took > most {
				t.Errorf("round %d: told after %s, want %s at most", round, took, most)
			}
			time.Sleep(3 * time.Second) // its goroutine checks every two seconds whether the connection is suspect
		}
	})
}

// A waiter that was served while its poll was in flight is no longer in the queue. The poll does not take that for a lost message.
func TestEngineKeepsAConnectionThatMissedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 2)
		other := links[0].process(t, handoff.Options{}).Fair()
		var late atomic.Bool
		kept, goOn := make(chan struct{}), make(chan struct{})
		c := links[1].client()
		c.AddHook(locktest.SendHook{Name: "evalsha", Send: func(_ context.Context, send func() error) error {
			if late.CompareAndSwap(true, false) {
				close(kept)
				<-goOn
			}
			return send()
		}})
		l := links[1].processOn(t, c, handoff.Options{}).Fair()
		subscribe(t, l, other)
		held := locktest.Obtain(t, other, "k{1}")
		first, _ := waits(t.Context(), l, "k{1}")
		between, _ := waits(t.Context(), other, "k{1}")
		last, _ := waits(t.Context(), l, "k{1}")
		late.Store(true)
		<-kept // the poll for both
		_ = held.Release(t.Context())
		_ = (<-first).Release(t.Context())
		held = <-between
		close(goOn)
		time.Sleep(5 * time.Second)
		links[1].mu.Lock()
		n := 0
		for _, c := range links[1].conns {
			if c.subscribed.Load() {
				n++
			}
		}
		links[1].mu.Unlock()
		if n != 1 {
			t.Errorf("%d connections have listened, want the one that missed nothing", n)
		}
		_ = held.Release(t.Context())
		_ = (<-last).Release(t.Context())
	})
}
