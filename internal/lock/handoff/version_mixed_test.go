package handoff_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

// critical is a critical section that notices if two are in it, or if a later one has no higher fence.
type critical struct {
	t      *testing.T
	inside atomic.Int32
	fence  atomic.Uint64
}

func (c *critical) enter(version string, fence uint64) {
	if n := c.inside.Add(1); n != 1 {
		c.t.Errorf("%s: %d are in the critical section", version, n)
	}
	if last := c.fence.Swap(fence); fence <= last {
		c.t.Errorf("%s: fence %d after %d, want it to rise", version, fence, last)
	}
	time.Sleep(time.Millisecond)
	c.inside.Add(-1)
}

// Processes of both versions want one lock, as in a rolling upgrade. They exclude each other, their fences rise, and both make progress. A
// process of version 2 that is refused tries again, as a client does.
func TestVersionsExcludeEachOther(t *testing.T) {
	t.Parallel()
	for _, commit := range []string{"5e4522f", "d127aa7"} {
		t.Run(commit, func(t *testing.T) {
			t.Parallel()
			const processes, holds = 2, 25
			s := testenv.Redis(t)
			key, section, end := s.Prefix+"{1}", &critical{t: t}, time.Now().Add(testenv.Still)
			refused, busy := atomic.Int32{}, atomic.Int32{}
			var wg sync.WaitGroup
			for i := range processes {
				old := v1{t, s.Client, commit, fmt.Sprintf("ABCDEFGHIJKLMNO%d", i)}
				old.subscribe()
				wg.Go(func() {
					for n := 1; n <= holds && time.Now().Before(end) && !t.Failed(); n++ {
						fence := old.acquire(key, n, 1)
						for fence == 0 && time.Now().Before(end) {
							busy.Add(1)
							time.Sleep(time.Millisecond)
							fence = old.poll(key, n)
						}
						section.enter("version 1", fence)
						if !old.release(key, n) {
							t.Error("version 1 had lost its lock")
						}
						time.Sleep(3 * time.Millisecond)
					}
				})
				e := onServer(t, s, handoff.Options{})
				for _, name := range []string{"handoff", "fair"} {
					wg.Go(func() {
						for held := 0; held < holds && time.Now().Before(end) && !t.Failed(); {
							lease, err := pick(e, name).Acquire(lock.WithWait(t.Context(), locktest.Soon), key)
							switch {
							case errors.Is(err, handoff.ErrVersion):
								refused.Add(1)
								time.Sleep(time.Millisecond)
								continue
							case err != nil:
								t.Errorf("version 2: %v", err)
								return
							}
							held++
							section.enter("version 2", lease.Fence())
							locktest.Release(t, lease)
						}
					})
				}
			}
			wg.Wait()
			if time.Now().After(end) {
				t.Errorf("the processes did not get %d holds each within %s", holds, testenv.Still)
			}
			if refused.Load() == 0 || busy.Load() == 0 {
				t.Errorf("version 2 was refused %d times, version 1 waited %d times: they never met", refused.Load(), busy.Load())
			}
		})
	}
}
