package handoff_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit/locktest"
)

// said is an error reply of a server.
type said string

func (s said) Error() string { return string(s) }
func (said) RedisError()     {}

// refusing is a process whose scripts the server answers with an error while there is one.
func refusing(t *testing.T, w *link, o handoff.Options) (*handoff.Engine, *atomic.Pointer[said]) {
	var refusal atomic.Pointer[said]
	c := w.client()
	c.AddHook(locktest.SendHook{Name: "evalsha", Send: func(_ context.Context, send func() error) error {
		if err := refusal.Load(); err != nil {
			return *err
		}
		return send()
	}})
	return w.processOn(t, c, o), &refusal
}

// A server that is not ready, or whose slot moves, is asked again: for an acquire until the wait is over, for a release
// within the time for a call. A waiter's polls may be refused for as long as it waits.
func TestEngineAsksAgain(t *testing.T) {
	for _, code := range []string{"TRYAGAIN", "ASK", "MOVED", "CLUSTERDOWN", "LOADING", "MASTERDOWN"} {
		for _, name := range allLocks {
			inBubble(t, code+"/"+name, func(t *testing.T) {
				m, links := network(t, 2)
				e, refusal := refusing(t, links[0], handoff.Options{})
				l, rival, not := pick(e, name), links[1].process(t, handoff.Options{}).ReadWrite().Write(), said(code+" not now")
				locktest.Warm(t, l, "k{1}")
				refused := func(d time.Duration, f func()) {
					refusal.Store(&not)
					f()
					time.Sleep(d)
					refusal.Store(nil)
				}
				start := time.Now()
				refused(0, func() {
					_, err := l.Acquire(lock.WithWait(t.Context(), time.Second), "k{1}")
					if took := time.Since(start); !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), code) ||
						took < time.Second || took > 1200*time.Millisecond {
						t.Errorf("Acquire = %v after %s, want ErrUnavailable with the answer after 1s", err, took)
					}
				})
				var got chan lock.Lease
				var failed chan error
				obtained := func() (lease lock.Lease) {
					select {
					case lease = <-got:
					case err := <-failed:
						t.Fatalf("Acquire = %v", err)
					}
					return lease
				}
				refused(5*time.Second, func() { got, failed = waits(t.Context(), l, "k{1}") })
				held := obtained()
				refused(1500*time.Millisecond, func() { go func() { locktest.Release(t, held) }() })
				synctest.Wait()
				held = locktest.Obtain(t, rival, "k{1}")
				got, failed = waits(t.Context(), l, "k{1}")
				refused(20*time.Second, func() {})
				locktest.Release(t, held)
				released(t, obtained())
				nothingLeft(t, m, "k{1}")
			})
		}
	}
}
