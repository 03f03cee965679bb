package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
)

// stage is a scene of four processes, in which a waiter of the second and one of the third are in the queue.
type stage struct {
	*scene
	first, next <-chan lock.Lease
	firstFailed <-chan error
	leaves      context.CancelFunc // the first waiter
}

func (s *stage) vanish() { // the lock and the queue
	s.m.Del("k{1}")
	s.m.Del(handoff.KeysOf("k{1}").Queue)
}

// goes has the first waiter leave while its process cannot send, for so long.
func (s *stage) goes(outage time.Duration) {
	s.links[1].calls.Store(true)
	s.leaves()
	<-s.firstFailed
	time.Sleep(outage)
	s.links[1].heal()
}

// Whatever happens to the lock, to the first waiter, its process or its messages: somebody gets in soon (invariants 5
// and 6). happens returns who.
func TestEngineSomebodyGetsInSoon(t *testing.T) {
	powerOff := func(s *stage) <-chan lock.Lease { // the grant's message is lost, and so is the cancel
		s.links[1].powerOff()
		_ = s.held.Release(s.Context())
		return s.next
	}
	cancels := func(outage time.Duration) func(s *stage) <-chan lock.Lease {
		return func(s *stage) <-chan lock.Lease { // within two seconds of the network's return
			s.goes(outage)
			time.Sleep(2 * time.Second)
			if n := queued(s.m, "k{1}"); n != 1 {
				s.Errorf("%d in the queue, want the one that has not gone", n)
			}
			_ = s.held.Release(s.Context())
			return s.next
		}
	}
	for name, c := range map[string]struct {
		o       handoff.Options
		happens func(s *stage) <-chan lock.Lease
		most    time.Duration
	}{
		"silent": {handoff.Options{}, powerOff, 3 * time.Second},
		"silent, GrantTimeout 400ms": {handoff.Options{GrantTimeout: 400 * time.Millisecond}, powerOff,
			480 * time.Millisecond},
		// the TTL bounds it
		"silent, GrantTimeout 1h": {handoff.Options{GrantTimeout: time.Hour}, powerOff, 36 * time.Second},
		"gone, cancel lost": {handoff.Options{}, func(s *stage) <-chan lock.Lease { // its process passes the grant on
			s.goes(2400 * time.Millisecond) // the cancel is given up for now
			_ = s.held.Release(s.Context())
			return s.next
		}, 500 * time.Millisecond},
		"gone, cancelled after 300ms": {handoff.Options{}, cancels(300 * time.Millisecond), time.Millisecond},
		"gone, cancelled after 2.4s":  {handoff.Options{}, cancels(2400 * time.Millisecond), time.Millisecond},
		"gone, cancelled after 1m":    {handoff.Options{}, cancels(time.Minute), time.Millisecond},
		// a newcomer does not overtake: its acquire hands the lock to the first of the queue, before their next poll
		"the lock is lost, and a newcomer tries": {handoff.Options{}, func(s *stage) <-chan lock.Lease {
			s.m.Del("k{1}")
			_, err := s.ls[3].Acquire(lock.WithWait(s.Context(), 0), "k{1}")
			testkit.IsError(s, err, lock.ErrBusy, "the newcomer's Acquire")
			synctest.Wait()
			locktest.ReleaseLost(s.T, s.held, "Release of what was deleted")
			return s.first
		}, time.Millisecond},
		"dead, and somebody listens to all channels": {handoff.Options{}, func(s *stage) <-chan lock.Lease {
			c := s.links[3].client()
			s.Cleanup(func() { _ = c.Close() })
			all := c.PSubscribe(s.Context(), "*")
			s.Cleanup(func() { _ = all.Close() })
			_, err := all.Receive(s.Context())
			testkit.Must(s, err)
			s.links[1].down.Store(true)
			s.links[1].cut()
			synctest.Wait()
			_ = s.held.Release(s.Context())
			return s.next
		}, 500 * time.Millisecond},
		"reconnects": {handoff.Options{}, func(s *stage) <-chan lock.Lease { // and polls at once
			s.links[1].down.Store(true)
			s.links[1].cut()
			_ = s.held.Release(s.Context())
			_ = (<-s.next).Release(s.Context())
			time.Sleep(20 * time.Millisecond)
			s.links[1].heal()
			return s.first
		}, 500 * time.Millisecond},
		"its messages are lost": {handoff.Options{}, func(s *stage) <-chan lock.Lease { // a poll finds the grant
			s.links[1].dropsMessages.Store(true)
			time.Sleep(300 * time.Millisecond)
			_ = s.held.Release(s.Context())
			return s.first
		}, 2100 * time.Millisecond},
		// as after a FLUSHALL or a failover
		"the lock and the queue vanish": {handoff.Options{}, func(s *stage) <-chan lock.Lease {
			s.vanish()
			both := make(chan lock.Lease)
			for _, got := range []<-chan lock.Lease{s.first, s.next} {
				go func() { both <- <-got }()
			}
			_ = (<-both).Release(s.Context())
			return both
		}, 2500 * time.Millisecond},
		"the lock is lost, and a waiter is of its process": {handoff.Options{}, func(s *stage) <-chan lock.Lease {
			own := s.waits(0)
			s.vanish()
			for _, got := range []<-chan lock.Lease{s.first, s.next} {
				go func() {
					select {
					case lease := <-got:
						_ = lease.Release(context.Background())
					case <-s.Context().Done():
					}
				}()
			}
			return own
		}, locktest.TTL / 2},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, name string) {
				s := &stage{scene: newScene(t, c.o, name, name, name, name)}
				ctx, cancel := context.WithCancel(t.Context())
				s.leaves = cancel
				s.first, s.firstFailed = waits(ctx, s.ls[1], "k{1}")
				s.next = s.waits(2)
				who := c.happens(s)
				start := time.Now()
				lease := <-who
				within(t, start, c.most, "somebody gets in")
				_ = lease.Release(t.Context())
				_ = s.held.Release(t.Context())
				cancel()
			})
		})
	}
}

// cancelledByGrant ends after its waiter has been granted the lock and before it looks: both happen while Done is asked
// for.
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
	scenes(t, 2, handoff.Options{}, func(t *testing.T, s *scene) {
		gaveUp := 0
		for range 40 {
			inner, cancel := context.WithCancel(t.Context())
			ctx := &cancelledByGrant{Context: inner, grant: func() {
				time.Sleep(100 * time.Millisecond) // until it is queued
				_ = s.held.Release(context.Background())
				time.Sleep(100 * time.Millisecond) // until the message has come
				cancel()
			}}
			lease, err := s.ls[1].Acquire(ctx, "k{1}")
			if err == nil {
				err = lease.Release(s.Context())
			} else if gaveUp++; errors.Is(err, lock.ErrBusy) && errors.Is(err, context.Canceled) {
				err = nil
			}
			testkit.Must(s, err)
			time.Sleep(100 * time.Millisecond)
			nothingLeft(s, s.m, "k{1}")
			s.held = locktest.Obtain(t, s.ls[0], "k{1}")
		}
		if gaveUp == 0 {
			s.Error("no waiter gave up after its grant")
		}
	})
}

// A process that has only had waiters of its own, which send nothing, is not subscribed yet. It subscribes when its
// release queues behind another process, and then gets messages like any other.
func TestEngineSubscribesBeforeItQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, handoff.Options{Cohort: 1}, "handoff", "handoff")
		own, other := s.waits(0), s.waits(1)
		_ = s.held.Release(t.Context())
		s.held = <-other
		time.Sleep(10 * time.Millisecond)
		if took := s.pass(own); took > 500*time.Millisecond {
			t.Errorf("told after %s", took)
		}
	})
}

// A process that is subscribed on its own side only is skipped. It learns this from the poll that
// finds its waiter gone from the queue, and is served however many others there are.
func TestEngineReplacesAnAbandonedConnection(t *testing.T) {
	scenes(t, 3, handoff.Options{}, func(t *testing.T, s *scene) {
		released(t, s.held)
		subscribe(t, s.ls[2], s.ls[0])
		s.links[2].abandonSubscribers()
		var wg sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for _, other := range s.ls[:2] {
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
		lease, err := s.ls[2].Acquire(lock.WithWait(t.Context(), time.Minute), "k{1}")
		testkit.Must(t, err)
		within(t, start, 10*time.Second, "Acquire")
		_ = lease.Release(t.Context())
		stop()
		wg.Wait()
	})
}

// A connection that has missed a message is replaced: the second hand-off does not wait for a poll again.
func TestEngineReplacesAHalfOpenConnection(t *testing.T) {
	scenes(t, 2, handoff.Options{}, func(t *testing.T, s *scene) {
		subscribe(t, s.ls[1], s.ls[0])
		s.links[1].dropMessages()
		for round, most := range []time.Duration{2500 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond} {
			if took := s.pass(s.waits(1)); took > most {
				s.Errorf("round %d: told after %s, want %s at most", round, took, most)
			}
			time.Sleep(3 * time.Second) // its goroutine checks every two seconds whether the connection is suspect
			s.held = locktest.Obtain(t, s.ls[0], "k{1}")
		}
	})
}

// A waiter that was served while its poll was in flight is no longer in the queue. The poll does not take that for a
// lost message.
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
		var replaced metric
		l := links[1].processOn(t, c, handoff.Options{Metrics: handoff.Metrics{Resubscribed: &replaced}}).Fair()
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
		testkit.Is(t, replaced.value(), 0, "connections that were replaced")
		_ = held.Release(t.Context())
		_ = (<-last).Release(t.Context())
	})
}

// silentProcessCost is the time that a silent process may cost its rivals: one grant that it does not answer, and the
// time until a poll finds this.
const silentProcessCost = 2500*time.Millisecond + 600*time.Millisecond

// A process that is silent while its connections stay open costs its rivals one grant timeout in all, however many of
// its waiters are in the queue, and wherever they are (invariant 6).
func TestEngineSilentProcessCostsOneGrant(t *testing.T) {
	for name, c := range map[string]struct{ holder, silent, rival []string }{
		"fair":                  {[]string{"fair"}, []string{"fair"}, nil},
		"writers":               {[]string{"rw-write"}, []string{"rw-write"}, nil},
		"readers":               {[]string{"rw-write"}, []string{"rw-read"}, nil},
		"readers and writers":   {[]string{"rw-write"}, []string{"rw-read", "rw-write"}, nil},
		"fair, between rivals":  {[]string{"fair"}, []string{"fair"}, []string{"fair"}},
		"write, between rivals": {[]string{"rw-write"}, []string{"rw-write"}, []string{"rw-write"}},
		"read, between rivals":  {[]string{"rw-write"}, []string{"rw-read"}, []string{"rw-write"}},
	} {
		for _, k := range []int{1, 5} {
			inBubble(t, fmt.Sprintf("%s/%d", name, k), func(t *testing.T) {
				_, links := network(t, 3)
				held := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), c.holder[0]), "k{1}")
				silent, rival := links[1].process(t, handoff.Options{}), links[2].process(t, handoff.Options{})
				var rivals, silenced []chan lock.Lease
				for i := range k {
					got, _ := waits(t.Context(), pick(silent, c.silent[i%len(c.silent)]), "k{1}")
					silenced = append(silenced, got)
					if c.rival != nil {
						got, _ = waits(t.Context(), pick(rival, c.rival[0]), "k{1}")
						rivals = append(rivals, got)
					}
				}
				last, _ := waits(t.Context(), pick(rival, c.holder[0]), "k{1}")
				links[1].powerOff()
				time.Sleep(3 * time.Second) // it has not polled for a while
				start := time.Now()
				released(t, held)
				for _, got := range append(rivals, last) {
					released(t, served(t, "a rival", got))
				}
				within(t, start, silentProcessCost, "the rivals waited for a silent process")
				links[1].heal() // it goes on, and all of its waiters get in, though at other places
				var wg sync.WaitGroup
				for _, got := range silenced {
					wg.Go(func() { released(t, served(t, "a waiter of the silent process", got)) })
				}
				wg.Wait()
			})
		}
	}
}

// inTurn is the lease of a waiter. It fails if one of those after it has the lock too.
func inTurn(t *testing.T, order []chan lock.Lease, i int) lock.Lease {
	t.Helper()
	lease := <-order[i]
	synctest.Wait()
	for j, later := range order[i+1:] {
		if len(later) > 0 {
			t.Fatalf("waiter %d was served with %d", i+1+j, i)
		}
	}
	locktest.Say(t, "waiter %d of %d has the lock, and nobody else", i+1, len(order))
	return lease
}

// A process that is alive keeps its places, even if the lock of one of its holders expires or is deleted by hand
// (invariant 8).
func TestEngineLapseSkipsOnlySilentProcesses(t *testing.T) {
	for i, kind := range []string{"fair", "rw-write", "fair", "rw-write"} {
		since := time.Duration(i/2) * 5 * time.Second // since the grant: before and after the first poll
		inBubble(t, fmt.Sprint(kind, " ", since), func(t *testing.T) {
			s := newScene(t, handoff.Options{}, kind, kind)
			own := s.waits(0)
			released(t, s.held)
			s.held = <-own // by a message: Redis has a note of the grant until its first renewal
			var order []chan lock.Lease
			for i := range 6 {
				order = append(order, s.waits(i%2))
			}
			time.Sleep(since)
			s.m.Del("k{1}")
			_, err := s.ls[1].Acquire(lock.WithWait(t.Context(), 0), "k{1}") // which hands it to the first of the queue
			testkit.IsError(t, err, lock.ErrBusy, "Acquire of a newcomer")
			for i := range order {
				released(t, inTurn(t, order, i))
			}
			_ = s.held.Release(t.Context())
		})
	}
}

// A waiter of another process is overtaken by no more than a cohort, in number and in time (invariant 8).
func TestEngineCohortIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    handoff.Options
		work time.Duration
		most int64 // holders of the other process after the waiter has queued
	}{
		"number":  {handoff.Options{Cohort: 5, CohortTime: time.Hour}, time.Millisecond, 5},
		"one":     {handoff.Options{Cohort: 1, CohortTime: time.Hour}, time.Millisecond, 1},
		"default": {handoff.Options{CohortTime: time.Hour}, time.Millisecond, 16},
		"time":    {handoff.Options{Cohort: 1000}, 20 * time.Millisecond, 3},
	} {
		inBubble(t, name, func(t *testing.T) {
			_, links := network(t, 2)
			l := links[0].process(t, c.o).Handoff()
			ctx, stop := context.WithCancel(t.Context())
			var rivals sync.WaitGroup
			var entered atomic.Int64
			for range 40 {
				rivals.Go(func() {
					for {
						lease, err := l.Acquire(ctx, "k{1}")
						if err != nil {
							return
						}
						entered.Add(1)
						time.Sleep(c.work)
						_ = lease.Release(ctx)
					}
				})
			}
			other := links[1].process(t, c.o).Handoff()
			for range 3 {
				time.Sleep(100 * time.Millisecond)
				before := entered.Load()
				lease := locktest.Obtain(t, other, "k{1}")
				// One may be inside when it queues, and one more entered while its request was on its way.
				if got := entered.Load() - before; got > c.most+1 {
					t.Errorf("%d others entered before it, want %d at most", got, c.most)
				}
				released(t, lease)
			}
			stop()
			rivals.Wait()
		})
	}
}

// Fair serves in the order of arrival, over processes, and whatever the messages do (invariant 8).
func TestEngineFairIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, handoff.Options{}, "fair", "fair", "fair")
		var order []chan lock.Lease
		for i := range 30 {
			order = append(order, s.waits(i*7%3))
		}
		s.links[1].dropsMessages.Store(true)
		for i := range order {
			released(t, s.held)
			s.held = inTurn(t, order, i)
		}
		_ = s.held.Release(t.Context())
	})
}

// A queue has more dead waiters than a script may handle: the server is not busy with all of them at once, and a living
// waiter after them gets in soon.
func TestEngineManyAreGone(t *testing.T) {
	for _, name := range allLocks {
		inBubble(t, name, func(t *testing.T) {
			m, links := network(t, 2)
			holder := links[0].process(t, handoff.Options{}).ReadWrite().Write()
			held := locktest.Obtain(t, holder, "k{1}")
			for i := range 1500 {
				_, err := m.ZAdd(handoff.KeysOf("k{1}").Queue, 0, fmt.Sprintf("v2-gone.%d.1.2500", i))
				testkit.Must(t, err)
			}
			got, _ := waits(t.Context(), pick(links[1].process(t, handoff.Options{}), name), "k{1}")
			locktest.Release(t, held)
			if n := queued(m, "k{1}"); n < 501 {
				t.Errorf("one release has removed %d of 1501 waiters, want 1000 at most", 1501-n)
			}
			_, err := holder.Acquire(lock.WithWait(t.Context(), 0), "k{1}")
			testkit.IsError(t, err, lock.ErrBusy, "Acquire, which may not overtake the living waiter")
			released(t, <-got)
			nothingLeft(t, m, "k{1}")
		})
	}
}
