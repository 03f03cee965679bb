package testenv

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// CPUTime is the CPU time of this process until now, user and system.
func CPUTime(t testing.TB) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// redisCPUTime is the CPU time of a server until now, user and system.
func redisCPUTime(t testing.TB, c *redis.Client) (sum time.Duration) {
	t.Helper()
	info, err := c.Info(t.Context(), "cpu").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, _ := strconv.ParseFloat(value, 64)
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	return sum
}

// CPUPerOp runs b.N operations on so many goroutines, and reports the CPU time of this process (cpu-ns/op) and of a
// Redis (server-ns/op) for one of them. Unlike the time, they hardly depend on what else the machine does. worker
// returns the operation of a goroutine, from 0; the first error of an operation ends the goroutine and fails the
// benchmark. To compare two variants by benchstat, run them alternately: several times with -count 1.
func CPUPerOp(b *testing.B, c *redis.Client, goroutines int, worker func(g int) (operation func() error)) {
	b.Helper()
	work := func(n int) {
		var left atomic.Int64
		left.Store(int64(n))
		var wg sync.WaitGroup
		for g := range goroutines {
			operation := worker(g)
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					if err := operation(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	work(20 * goroutines) // connects
	b.ReportAllocs()
	server, own := redisCPUTime(b, c), CPUTime(b)
	b.ResetTimer()
	work(b.N)
	b.StopTimer()
	b.ReportMetric(float64(CPUTime(b)-own)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(redisCPUTime(b, c)-server)/float64(b.N), "server-ns/op")
}
