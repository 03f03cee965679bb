package textbook_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/lock/textbook"
)

// The quorum takes so long that nothing is left of the TTL.
func TestRedlockGrantedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, half = time.Second, 600 * time.Millisecond
		var all []textbook.RedlockNode
		var keys []func() []string
		var granted atomic.Int64
		for range 3 {
			c, m, _ := locktest.Bubble(t)
			c.AddHook(locktest.SendHook{Name: "set", Send: func(_ context.Context, send func() error) error {
				time.Sleep(half)
				err := send()
				if err == nil {
					granted.Add(1)
				}
				time.Sleep(half)
				return err
			}})
			all, keys = append(all, textbook.RedlockNode{Client: c}), append(keys, m.Keys)
		}
		l := textbook.NewRedlock(textbook.RedlockOptions{Nodes: all, TTL: ttl, NodeTimeout: 2 * ttl}, nil)
		_, err := l.Acquire(lock.WithWait(t.Context(), 0), "k")
		if !errors.Is(err, lock.ErrBusy) || !strings.Contains(err.Error(), "too late") {
			t.Errorf("Acquire = %v, want ErrBusy: too late", err)
		}
		synctest.Wait()
		if n := granted.Load(); n != 3 {
			t.Errorf("%d of three granted: nothing is shown", n)
		}
		for i, all := range keys {
			if left := all(); len(left) != 0 {
				t.Errorf("node %d keeps %v", i, left)
			}
		}
	})
}

func TestRedlockValidity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 1500 * time.Millisecond
		var all []textbook.RedlockNode
		for range 3 {
			c, _, _ := locktest.Bubble(t)
			c.AddHook(locktest.SendHook{Name: "set", Send: func(_ context.Context, send func() error) error {
				time.Sleep(slow)
				return send()
			}})
			all = append(all, textbook.RedlockNode{Client: c})
		}
		start := time.Now()
		lease := locktest.Take(t, textbook.NewRedlock(textbook.RedlockOptions{Nodes: all, TTL: locktest.TTL, NodeTimeout: locktest.TTL}, nil), "k")
		<-lease.Context().Done()
		if lived, want := time.Since(start), locktest.TTL-locktest.TTL/100-2*time.Millisecond; lived != want {
			t.Errorf("valid until %s after the first command, want %s", lived, want)
		}
	})
}

// Without INFO, as in miniredis, the boot mark still tells an empty node.
func TestRedlockGuardOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []textbook.RedlockNode
		var flush []func()
		for range 3 {
			c, m, _ := locktest.Bubble(t)
			all, flush = append(all, textbook.RedlockNode{Client: c}), append(flush, m.FlushAll)
		}
		l := textbook.NewRedlock(textbook.RedlockOptions{Nodes: all, TTL: locktest.TTL, RestartGuard: locktest.TTL}, nil)
		refused := func(when string) {
			t.Helper()
			if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, lock.ErrUnavailable) || !errors.Is(err, textbook.ErrRestarted) {
				t.Errorf("Acquire %s = %v, want ErrRestarted", when, err)
			}
		}
		refused("on new nodes")
		synctest.Wait() // the third node may have been marked only now
		time.Sleep(locktest.TTL - time.Second)
		refused("shortly before the longest TTL is over")
		time.Sleep(time.Second)
		locktest.Warm(t, l, "k")
		flush[0]()
		locktest.Warm(t, l, "k")
		time.Sleep(locktest.TTL / 2)
		flush[1]()
		flush[2]()
		refused("with two of three empty")
		time.Sleep(locktest.TTL)
		locktest.Warm(t, l, "k")
	})
}

// Two nodes have a dead holder's grant, the three others are down, and two of those are slow to fail: that must not count as a held lock.
func TestRedlockQuorumLossIsNotBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 10 * time.Millisecond
		var all []textbook.RedlockNode
		for i := range 5 {
			c, m, _ := locktest.Bubble(t)
			if i < 2 {
				if err := m.Set("k", "somebody"); err != nil {
					t.Fatal(err)
				}
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
		time.Sleep(time.Second) // the releases in the background
	})
}
