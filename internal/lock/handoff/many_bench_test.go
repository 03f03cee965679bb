package handoff_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"lastitem/internal/lock/handoff"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// BenchmarkWaitingForMany reports what it costs a process to wait for 20,000 keys that others hold: its CPU time in percent of a core, and
// that of the server, over some seconds in which nothing else happens. The numbers of ns/op and allocations say nothing here.
func BenchmarkWaitingForMany(b *testing.B) {
	const keys = 20_000
	c := connect(b, options(b, testenv.RedisNodes(b, 1)[0]))
	e, err := handoff.New(c, handoff.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close(context.Background()) })
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	b.Cleanup(func() { cancel(); wg.Wait() })
	for i := range keys {
		key := fmt.Sprintf("k{%d}", i)
		if err := c.Set(ctx, key, "somebody else", time.Hour).Err(); err != nil {
			b.Fatal(err)
		}
		wg.Go(func() { _, _ = e.Handoff().Acquire(ctx, key) })
	}
	wait.Until(b, "a queue for each key", func() bool { return c.DBSize(ctx).Val() >= 2*keys })
	time.Sleep(5 * time.Second)
	b.ResetTimer()
	for b.Loop() {
		own, server, start := testenv.CPUTime(b), testenv.RedisCPUTime(b, c), time.Now()
		time.Sleep(10 * time.Second)
		took := time.Since(start)
		b.ReportMetric(100*float64(testenv.CPUTime(b)-own)/float64(took), "own-%cpu")
		b.ReportMetric(100*float64(testenv.RedisCPUTime(b, c)-server)/float64(took), "server-%cpu")
	}
}
