package handoff_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// In a cluster every hash tag has its own channel. When a channel is confirmed, its own keys are polled and no others: the cost of a waiter
// does not depend on how many there are.
func TestEngineClusterWaitersCostTheSame(t *testing.T) {
	t.Parallel()
	o := testenv.RedisCluster(t, 3)
	process := func(counted redis.Hook) *handoff.Engine {
		own := *o
		c := redis.NewClusterClient(&own)
		t.Cleanup(func() { _ = c.Close() })
		if counted != nil {
			c.AddHook(counted)
		}
		return engine(t, c, handoff.Options{})
	}
	holder, admin := process(nil).Handoff(), redis.NewClusterClient(o)
	t.Cleanup(func() { _ = admin.Close() })
	for _, n := range []int{50, 150, 300} {
		counted := &spy{}
		l := process(counted).Handoff()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		key := func(i int) string { return fmt.Sprintf("of-%d{%d}", n, i) }
		for i := range n {
			held := locktest.Obtain(t, holder, key(i))
			t.Cleanup(func() { _ = held.Release(context.Background()) })
		}
		start := time.Now()
		for i := range n {
			wg.Go(func() { _, _ = l.Acquire(ctx, key(i)) })
			time.Sleep(time.Millisecond) // so that their channels are confirmed one after the other
		}
		for i := range n {
			wait.Until(t, "a waiter in the queue", func() bool { return admin.ZCard(t.Context(), handoff.KeysOf(key(i)).Queue).Val() == 1 })
		}
		each := float64(counted.scripts.Load()) / float64(n)
		polls := time.Since(start).Seconds() // a slow machine's waiters are polled meanwhile, less than once a second
		t.Logf("%d waiters: %.1f scripts each, in %.1f s", n, each, polls)
		if each < 1 || each > 4+polls {
			t.Errorf("%d waiters: %.1f scripts each in %.1f s, want 1 at least, 4 at most, and a poll a second", n, each, polls)
		}
		cancel()
		wg.Wait()
	}
}
