package handoff_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

// A key that is a list refuses every acquire, and so every cleanup: none of them is repeated.
func TestEngineIdleAfterRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, links := network(t, 1)
		c, counted := links[0].client(), &spy{}
		t.Cleanup(func() { _ = c.Close() })
		c.AddHook(counted)
		l := engine(t, c, handoff.Options{}).Handoff()
		if _, err := m.Lpush("k{list}", "an element"); err != nil {
			t.Fatal(err)
		}
		for range 300 {
			if _, err := l.Acquire(t.Context(), "k{list}"); !errors.Is(err, lock.ErrUnavailable) {
				t.Fatalf("Acquire of a list = %v, want ErrUnavailable", err)
			}
		}
		time.Sleep(5 * time.Second)
		before := counted.scripts.Load()
		time.Sleep(time.Minute)
		if n := counted.scripts.Load() - before; n != 0 {
			t.Errorf("an idle engine sent %d commands in a minute", n)
		}
	})
}

// While a server stays out of reach, a cleanup is sent only for as long as what its attempt may have left behind can live.
func TestEngineCleanupsEnd(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 1)
		c, counted := links[0].client(), &spy{}
		t.Cleanup(func() { _ = c.Close() })
		c.AddHook(counted)
		l := pick(engine(t, c, handoff.Options{}), name)
		held := locktest.Obtain(t, l, "k{held}")
		links[0].down.Store(true)
		links[0].cut()
		for i := range 20 {
			if _, err := l.Acquire(t.Context(), fmt.Sprintf("k{%d}", i)); !errors.Is(err, lock.ErrUnavailable) {
				t.Fatalf("Acquire without a server = %v, want ErrUnavailable", err)
			}
		}
		_ = held.Release(t.Context())
		time.Sleep(locktest.TTL / 2)
		before := counted.scripts.Load()
		time.Sleep(5 * time.Second)
		if counted.scripts.Load() == before {
			t.Error("nothing is cleaned up while something may be left behind")
		}
		time.Sleep(2 * time.Minute)
		before = counted.scripts.Load()
		time.Sleep(time.Minute)
		if n := counted.scripts.Load() - before; n != 0 {
			t.Errorf("%d commands in a minute that begins more than two after the last attempt", n)
		}
	})
}

// More cleanups than are remembered: a release whose answer was lost is among those that are, although it came last.
func TestEngineCleanupIsNotCrowdedOut(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		m, links := network(t, 1)
		if _, err := m.Lpush("k{list}", "an element"); err != nil {
			t.Fatal(err)
		}
		l := pick(links[0].process(t, handoff.Options{}), name)
		held := locktest.Obtain(t, l, "k{1}")
		refused := make(chan error)
		const n = 1500
		for range n {
			go func() {
				_, err := l.Acquire(t.Context(), "k{list}")
				refused <- err
			}()
		}
		for range n {
			if err := <-refused; !errors.Is(err, lock.ErrUnavailable) {
				t.Fatalf("Acquire of a list = %v, want ErrUnavailable", err)
			}
		}
		links[0].calls.Store(true)
		if err := held.Release(t.Context()); err == nil {
			t.Fatal("Release = nil without an answer")
		}
		links[0].heal()
		start := time.Now()
		for m.Exists("k{1}") && time.Since(start) < locktest.TTL/2 {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("the lock was free %s after the server was back", took)
		}
	})
}

// A lock whose key has been made a list does not break the renewal of the locks that are renewed in the same command.
func TestEngineRenewsBesideAWrongType(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	const ttl = 9 * time.Second // on a busy machine a renewal may be seconds late
	e := onServer(t, s, handoff.Options{TTL: ttl})
	for _, name := range []string{"handoff", "rw-read"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := pick(e, name)
			good, bad := s.Prefix+name+"{1}", s.Prefix+name+"{2}"
			well, spoilt := locktest.Obtain(t, l, good), locktest.Obtain(t, l, bad)
			key := handoff.KeysOf(bad).Lock
			if name == "rw-read" {
				key = handoff.KeysOf(bad).Readers
			}
			if err := errors.Join(s.Client.Del(t.Context(), key).Err(), s.Client.LPush(t.Context(), key, "an element").Err()); err != nil {
				t.Fatal(err)
			}
			<-spoilt.Context().Done()
			time.Sleep(ttl + ttl/2)
			if err := well.Context().Err(); err != nil {
				t.Errorf("the lease beside it ended: %v", err)
			}
			_ = spoilt.Release(t.Context())
			locktest.Release(t, well)
		})
	}
}
