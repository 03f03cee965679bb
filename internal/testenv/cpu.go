package testenv

import (
	"strconv"
	"strings"
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

// RedisCPUTime is the CPU time of a server until now, user and system.
func RedisCPUTime(t testing.TB, c *redis.Client) (sum time.Duration) {
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
