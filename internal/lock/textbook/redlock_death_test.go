package textbook_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/lock/textbook"
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

// process returns a Redlock with clients of its own, whose commands pass through f.
func (s three) process(t *testing.T, f func(ctx context.Context, send func() error) error) *textbook.Redlock {
	t.Helper()
	var nodes []textbook.RedlockNode
	for _, m := range s {
		c := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true,
			Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		})
		t.Cleanup(func() { _ = c.Close() })
		c.AddHook(locktest.SendHook{Name: "", Send: f})
		nodes = append(nodes, textbook.RedlockNode{Client: c})
	}
	return textbook.NewRedlock(textbook.RedlockOptions{Nodes: nodes, TTL: locktest.TTL}, nil)
}

func (s three) lives(t *testing.T) *textbook.Redlock {
	t.Helper()
	return s.process(t, func(_ context.Context, send func() error) error { return send() })
}

// dies returns a Redlock that dies when it has been granted the key on the given number of nodes, or when told to.
func (s three) dies(t *testing.T, after int64) (*textbook.Redlock, *atomic.Bool) {
	t.Helper()
	var dead atomic.Bool
	var granted atomic.Int64
	gone := errors.New("the process died")
	return s.process(t, func(_ context.Context, send func() error) error {
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
	}), &dead
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
	lease, err := s.lives(t).Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
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
		died := make(chan error, 1)
		go func() {
			_, err := l.Acquire(t.Context(), "k")
			died <- err
		}()
		time.Sleep(locktest.TTL / 10)
		dead.Store(true)
		if err := <-died; !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("the dead waiter's Acquire = %v, want ErrUnavailable", err)
		}
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

// Contexts end at any moment of an acquire; the process lives on, and releases its grants, at once or, if an answer was late, in the
// background.
func TestRedlockCallersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const late = 10 * time.Millisecond
		s := newThree(t)
		l := s.process(t, func(_ context.Context, send func() error) error {
			time.Sleep(rand.N(late))
			err := send()
			time.Sleep(rand.N(late))
			return err
		})
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
			time.Sleep(10 * late) // HELLO, SET, EVALSHA, the first time EVAL, and HELLO again on a second connection, each of them late both ways
			if n := s.left(); n != 0 {
				t.Fatalf("%d keys are left behind", n)
			}
		}
	})
}
