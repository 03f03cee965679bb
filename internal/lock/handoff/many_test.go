package handoff_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock/handoff"
)

// Every key that a process waits for is polled each two seconds, by itself, however many of its callers wait for it. The polls spread out, also when all waits began together, and after
// all keys lost their connection together.
func TestEnginePollsOfManyKeysSpreadOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 100
		m, links := network(t, 1)
		c, counted := links[0].client(), &spy{}
		t.Cleanup(func() { _ = c.Close() })
		c.AddHook(counted)
		l := engine(t, c, handoff.Options{}).Handoff()
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		t.Cleanup(func() {
			cancel()
			waiting.Wait()
		})
		for i := range keys {
			key := fmt.Sprintf("many{%d}", i)
			if err := m.Set(key, "somebody else"); err != nil {
				t.Fatal(err)
			}
			for range 8 {
				waiting.Go(func() {
					if _, err := l.Acquire(ctx, key); err == nil {
						t.Errorf("%s: let in beside its holder", key)
					}
				})
			}
		}
		synctest.Wait()
		for _, when := range []string{"all began together", "all lost their connection"} {
			time.Sleep(20 * time.Second)
			polls := make([]int64, 80) // in 50 ms each, 4 s in all
			for i := range polls {
				before := counted.scripts.Load()
				time.Sleep(50 * time.Millisecond)
				polls[i] = counted.scripts.Load() - before
			}
			sum := int64(0)
			for _, n := range polls {
				sum += n
			}
			if most := slices.Max(polls); sum < 2*keys || sum > 5*keys/2 || most > 15 {
				t.Errorf("%s: %d polls of %d keys in 4 s, and %d in one 50 ms, want one for each key in 1.75 to 2 s, spread out", when, sum, keys, most)
			}
			links[0].cut()
		}
	})
}
