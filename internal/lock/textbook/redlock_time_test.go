package textbook_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/textbook"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
)

// three are the masters of a Redlock in a bubble.
type three [3]*miniredis.Miniredis

func newThree(t *testing.T) (all three) {
	t.Helper()
	for i := range all {
		_, all[i], _ = locktest.Bubble(t)
	}
	return all
}

// process returns a Redlock with clients of its own, which have a hook.
func (s three) process(t *testing.T, o textbook.RedlockOptions, hook locktest.SendHook) *textbook.Redlock {
	t.Helper()
	for _, m := range s {
		c := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true,
			Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		})
		t.Cleanup(func() { _ = c.Close() })
		locktest.Tell(t, c)
		c.AddHook(hook)
		o.Nodes = append(o.Nodes, textbook.RedlockNode{Client: c})
	}
	return textbook.NewRedlock(o, nil)
}

// usual are the options of most tests.
var usual = textbook.RedlockOptions{TTL: locktest.TTL}

func (s three) lives(t *testing.T) *textbook.Redlock {
	t.Helper()
	return s.process(t, usual, locktest.SendHook{Name: "none of them"})
}

// dies returns a Redlock that dies when it has been granted the key on the given number of nodes, or when told to.
func (s three) dies(t *testing.T, after int64) (*textbook.Redlock, *atomic.Bool) {
	t.Helper()
	var dead atomic.Bool
	var granted atomic.Int64
	gone := errors.New("the process died")
	return s.process(t, usual, locktest.SendHook{Send: func(_ context.Context, send func() error) error {
		if dead.Load() {
			return gone
		}
		err := send()
		if err == nil && granted.Add(1) == after {
			dead.Store(true)
		}
		if dead.Load() {
			return gone
		}
		return err
	}}), &dead
}

// left counts the keys on all nodes.
func (s three) left() (n int) {
	for _, m := range s {
		n += len(m.Keys())
	}
	return n
}

// in wants that the next caller gets the lock within a TTL, and that nothing is left after that.
func (s three) in(t *testing.T) {
	t.Helper()
	start := time.Now()
	lease := locktest.Acquire(t.Context(), t, s.lives(t), "k")
	if took := time.Since(start); took > locktest.TTL+100*time.Millisecond {
		t.Errorf("the next one got in after %s, the TTL is %s", took, locktest.TTL)
	}
	locktest.Release(t, lease)
	time.Sleep(locktest.TTL)
	if n := s.left(); n != 0 {
		t.Errorf("%d keys are left behind", n)
	}
}

func TestRedlockDeaths(t *testing.T) {
	bubbled := func(name string, f func(t *testing.T, s three)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, newThree(t)) }) })
	}
	bubbled("holding", func(t *testing.T, s three) {
		l, dead := s.dies(t, 0)
		lease := locktest.Take(t, l, "k")
		dead.Store(true)
		s.in(t)
		locktest.WantLost(t, lease, 0)
	})
	bubbled("waiting", func(t *testing.T, s three) {
		lease := locktest.Take(t, s.lives(t), "k")
		l, dead := s.dies(t, 0)
		died := locktest.Attempt(t.Context(), l, "k")
		time.Sleep(locktest.TTL / 10)
		dead.Store(true)
		testkit.IsError(t, <-died, lock.ErrUnavailable, "the dead waiter's Acquire")
		locktest.WantBusy(t, s.lives(t), "k", "after the death of a waiter")
		locktest.Release(t, lease)
		s.in(t)
	})
	for i, name := range []string{"after the first grant", "after the second", "after the third"} {
		bubbled(name, func(t *testing.T, s three) {
			l, _ := s.dies(t, int64(i)+1)
			_, _ = l.Acquire(lock.WithWait(t.Context(), 0), "k") // whatever it returns before its process dies
			s.in(t)
		})
	}
}

// Contexts end at any moment of an acquire; the process lives on, and releases its grants, at once or, if an answer was
// late, in the background.
func TestRedlockCallersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const late = 10 * time.Millisecond
		s := newThree(t)
		l := s.process(t, usual, locktest.SendHook{Send: func(_ context.Context, send func() error) error {
			time.Sleep(rand.N(late))
			err := send()
			time.Sleep(rand.N(late))
			return err
		}})
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(3*late))
			lease, err := l.Acquire(ctx, "k")
			switch {
			case err == nil:
				locktest.Release(t, lease)
			case !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("Acquire = %v, want ErrBusy with the cause", err)
			}
			cancel()
			// HELLO, SET, EVALSHA, the first time EVAL, and HELLO again on a second connection, each of them late both ways
			time.Sleep(10 * late)
			if n := s.left(); n != 0 {
				t.Fatalf("%d keys are left behind", n)
			}
		}
		locktest.Say(t, "a hundred callers left at any moment, and no key is left on any node")
	})
}

// The quorum takes so long that nothing is left of the TTL.
func TestRedlockGrantedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, half = time.Second, 600 * time.Millisecond
		s := newThree(t)
		var granted atomic.Int64
		l := s.process(t, textbook.RedlockOptions{TTL: ttl, NodeTimeout: 2 * ttl},
			locktest.SendHook{Name: "set", Send: func(_ context.Context, send func() error) error {
				time.Sleep(half)
				err := send()
				if err == nil {
					granted.Add(1)
				}
				time.Sleep(half)
				return err
			}})
		_, err := l.Acquire(lock.WithWait(t.Context(), 0), "k")
		if !errors.Is(err, lock.ErrBusy) || !strings.Contains(err.Error(), "too late") {
			t.Errorf("Acquire = %v, want ErrBusy: too late", err)
		}
		locktest.Say(t, "TTL %s, every answer after %s: %v", ttl, 2*half, err)
		synctest.Wait()
		if granted.Load() != 3 || s.left() != 0 {
			t.Errorf("%d of three granted, want all, and %d keep their keys, want none", granted.Load(), s.left())
		}
	})
}

func TestRedlockValidity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 1500 * time.Millisecond
		o := textbook.RedlockOptions{TTL: locktest.TTL, NodeTimeout: locktest.TTL}
		l := newThree(t).process(t, o, locktest.SendHook{Name: "set", Send: func(_ context.Context, send func() error) error {
			time.Sleep(slow)
			return send()
		}})
		start := time.Now()
		lease := locktest.Take(t, l, "k")
		<-lease.Context().Done()
		if lived, want := time.Since(start), locktest.TTL-locktest.TTL/100-2*time.Millisecond; lived != want {
			t.Errorf("valid until %s after the first command, want %s", lived, want)
		}
		locktest.Say(t, "TTL %s, granted after %s, valid until %s after the first command", locktest.TTL, slow,
			time.Since(start))
	})
}

// Without INFO, as in miniredis, the boot mark still tells an empty node.
func TestRedlockGuardOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newThree(t)
		l := s.process(t, textbook.RedlockOptions{TTL: locktest.TTL, RestartGuard: locktest.TTL},
			locktest.SendHook{Name: "none of them"})
		refused := func(when string) {
			t.Helper()
			if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, lock.ErrUnavailable) ||
				!errors.Is(err, textbook.ErrRestarted) {
				t.Errorf("Acquire %s = %v, want ErrRestarted", when, err)
			}
		}
		refused("on new nodes")
		synctest.Wait() // the third node may have been marked only now
		time.Sleep(locktest.TTL - time.Second)
		refused("shortly before the longest TTL is over")
		time.Sleep(time.Second)
		locktest.Warm(t, l, "k")
		s[0].FlushAll()
		locktest.Warm(t, l, "k")
		time.Sleep(locktest.TTL / 2)
		s[1].FlushAll()
		s[2].FlushAll()
		refused("with two of three empty")
		time.Sleep(locktest.TTL)
		locktest.Warm(t, l, "k")
	})
}

// Two nodes have a dead holder's grant, the three others are down, and two of those are slow to fail: that must not
// count as a held lock.
func TestRedlockQuorumLossIsNotBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 10 * time.Millisecond
		var all []textbook.RedlockNode
		for i := range 5 {
			c, m, _ := locktest.Bubble(t)
			if i < 2 {
				testkit.Must(t, m.Set("k", "somebody"))
			} else {
				c.AddHook(locktest.SendHook{Name: "", Send: func(context.Context, func() error) error {
					time.Sleep(time.Duration(i-1) * slow)
					return &net.OpError{Op: "dial", Err: errors.New("down")}
				}})
			}
			all = append(all, textbook.RedlockNode{Name: fmt.Sprint("n", i), Client: c})
		}
		l := textbook.NewRedlock(textbook.RedlockOptions{Nodes: all, TTL: locktest.TTL}, nil)
		start := time.Now()
		_, err := l.Acquire(lock.WithWait(t.Context(), time.Minute), "k")
		if !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, lock.ErrBusy) {
			t.Errorf("Acquire = %v, want ErrUnavailable", err)
		}
		if got, want := nodesIn(err), []string{"n2", "n3", "n4"}; !slices.Equal(got, want) {
			t.Errorf("the error names %v, want %v: %v", got, want, err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("told after %s", took)
		}
		locktest.Say(t, "two nodes are taken, three are down: %v", err)
		time.Sleep(time.Second) // the releases in the background
	})
}
