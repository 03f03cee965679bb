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

// A server loses its memory and all connections. A holder whose process is subscribed, or sends anything afterwards, learns of it within a
// second, however long its TTL is (invariant 2).
func TestEngineReconnectRenewsHolds(t *testing.T) {
	for _, name := range allLocks {
		for how, after := range map[string]func(t *testing.T, l, other lock.Locker) (noticed func()){
			"listens": func(t *testing.T, l, other lock.Locker) func() {
				subscribe(t, l, other)
				return func() {}
			},
			"sends": func(t *testing.T, l, _ lock.Locker) func() {
				locktest.Warm(t, l, "k{0}") // over a connection that will be lost
				return func() {
					synctest.Wait()
					released(t, locktest.Obtain(t, l, "k{0}"))
				}
			},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m, links := network(t, 2)
					o := handoff.Options{TTL: 10 * time.Minute}
					l, other := pick(links[0].process(t, o), name), pick(links[1].process(t, o), "rw-write")
					notice := after(t, l, other)
					var held []lock.Lease
					for i := range 250 {
						held = append(held, locktest.Obtain(t, l, fmt.Sprintf("k{%d}", 1+i)))
					}
					m.FlushAll()
					links[0].cut()
					rival := locktest.Obtain(t, other, "k{1}")
					start := time.Now()
					notice()
					for _, lease := range held {
						<-lease.Context().Done()
						if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
							t.Fatalf("cause = %v, want ErrLost", cause)
						}
					}
					if took := time.Since(start); took > time.Second {
						t.Errorf("the last of %d holders learned of its loss after %s, want a second at most", len(held), took)
					}
					released(t, rival)
				})
			})
		}
	}
}

// A server that was out of reach for a while and comes back unchanged costs no holder its lock, and each holder a renewal or two.
func TestEngineReconnectKeepsHolds(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 2)
		c, counted := links[0].client(), &spy{}
		c.AddHook(counted)
		l, other := pick(links[0].processOn(t, c, handoff.Options{TTL: time.Hour}), name), pick(links[1].process(t, handoff.Options{}), name)
		subscribe(t, l, other)
		var held []lock.Lease
		for i := range 250 {
			held = append(held, locktest.Obtain(t, l, fmt.Sprintf("k{%d}", 1+i)))
		}
		before := counted.scripts.Load()
		const cuts = 4
		for range cuts {
			links[0].cut()
			time.Sleep(5 * time.Second)
		}
		if n := counted.scripts.Load() - before; n < 3*cuts || n > 9*cuts {
			t.Errorf("%d scripts for %d holds after %d reconnects, want 3 of 100 holds each, or a few more", n, len(held), cuts)
		}
		for _, lease := range held {
			released(t, lease)
		}
	})
}
