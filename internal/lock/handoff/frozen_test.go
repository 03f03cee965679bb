package handoff_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
)

// silentProcessCost is the time that a silent process may cost its rivals: one grant that it does not answer, and the time until a poll finds this.
const silentProcessCost = 2500*time.Millisecond + 600*time.Millisecond

// A process that is silent while its connections stay open costs its rivals one grant timeout in all, however many of its waiters are in
// the queue, and wherever they are (invariant 6).
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
			t.Run(fmt.Sprintf("%s/%d", name, k), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
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
						released(t, <-got)
					}
					if took := time.Since(start); took > silentProcessCost {
						t.Errorf("the rivals waited %s for a silent process, want one grant timeout of 2.5 s", took)
					}
					links[1].heal() // it goes on, and all of its waiters get in, though at other places
					var wg sync.WaitGroup
					for _, got := range silenced {
						wg.Go(func() { released(t, <-got) })
					}
					wg.Wait()
				})
			})
		}
	}
}

// A process that is alive keeps its places, even if the lock of one of its holders expires or is deleted by hand (invariant 8).
func TestEngineLapseSkipsOnlySilentProcesses(t *testing.T) {
	for i, kind := range []string{"fair", "rw-write", "fair", "rw-write"} {
		since := time.Duration(i/2) * 5 * time.Second // since the grant: before and after the first poll
		t.Run(fmt.Sprint(kind, " ", since), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, links := network(t, 2)
				a, b := pick(links[0].process(t, handoff.Options{}), kind), pick(links[1].process(t, handoff.Options{}), kind)
				lost := locktest.Obtain(t, a, "k{1}")
				var order []chan lock.Lease
				for i := range 6 {
					got, _ := waits(t.Context(), []lock.Locker{a, b}[i%2], "k{1}")
					order = append(order, got)
				}
				time.Sleep(since)
				m.Del("k{1}")
				for i, got := range order {
					lease := <-got
					synctest.Wait()
					for j, later := range order[i+1:] {
						if len(later) > 0 {
							t.Fatalf("waiter %d was served with %d", i+1+j, i)
						}
					}
					released(t, lease)
				}
				_ = lost.Release(t.Context())
			})
		})
	}
}
