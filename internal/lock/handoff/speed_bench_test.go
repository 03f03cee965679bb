package handoff

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// cycles has so many goroutines acquire and release, each the key that key returns for it, and reports what that costs
// as [testenv.CPUPerOp] does.
func cycles(b *testing.B, goroutines int, key func(s *testenv.RedisServer, g int) string, use func(lock.Lease)) {
	s := testenv.Redis(b)
	o := *s.Client.Options()
	o.ContextTimeoutEnabled = true
	c := redis.NewClient(&o)
	defer func() { _ = c.Close() }()
	onTransition, onHoldTransition = nil, nil // the checks of the tests
	defer func() { onTransition, onHoldTransition = checkTransition, checkHoldTransition }()
	e, err := New(c, Options{})
	testkit.Must(b, err)
	defer func() { _ = e.Close(b.Context()) }()
	testenv.CPUPerOp(b, s.Client, goroutines, func(g int) func() error {
		l, key := e.Handoff(), key(s, g)
		return func() error {
			lease, err := l.Acquire(b.Context(), key)
			if err != nil {
				return err
			}
			use(lease)
			return lease.Release(b.Context())
		}
	})
}

// edited is a script of the engine with one text replaced.
func edited(b *testing.B, name, from, to string, keys int) *script {
	source := source(name)
	if strings.Count(source, from) != 1 {
		b.Fatalf("the script has not one %q", from)
	}
	return compiled(strings.Replace(source, from, to, 1), keys)
}

// The numbers in the comments below are of 'make bench-tricks' on two cores that did nothing else: medians of twelve
// rounds, by benchstat, p < 0.01.

// BenchmarkFreeLock is sixteen goroutines with a free lock each. It shows what the scripts' order and their short
// replies are worth: functions-first defines the functions of pass.lua before the commands for a free lock, which do
// not need them (1.20 times the CPU time of Redis); whole-replies answers for a free lock as for any other (1.14 times,
// and 1.06 times that of the client).
func BenchmarkFreeLock(b *testing.B) {
	acquire, release := engineAcquire, engineRelease
	const part = "-- include pass.lua\n"
	for _, v := range []struct {
		name             string
		acquire, release *script
	}{
		{"kept", acquire, release},
		{"functions-first", compiled(part+strings.Replace(source("acquire"), part, "", 1), 5),
			compiled(part+strings.Replace(source("release"), part, "", 1), 4)},
		{"whole-replies", edited(b, "acquire", "  return reserve(ARGV[5])\nend",
			"  return {1, reserve(ARGV[5]), 0, '0', 0}\nend", 5),
			edited(b, "release", "  return 1\nend", "  return {1, -1, 0, 0, '0', 0}\nend", 4)},
	} {
		b.Run("variant="+v.name, func(b *testing.B) {
			engineAcquire, engineRelease = v.acquire, v.release
			defer func() { engineAcquire, engineRelease = acquire, release }()
			cycles(b, 16, func(s *testenv.RedisServer, g int) string {
				return s.Prefix + "{" + decimal(g) + "}"
			}, func(lock.Lease) {})
		})
	}
}

// BenchmarkPassingOn is goroutines that pass one lock on. It shows what it is worth that a lease's context is made at
// the first call of Context: with variant=context it is needed each time. Made under the engine's mutex whenever a lock
// is granted, it would take 1.16 times the CPU time of this process with 8 goroutines, and 1.12 times with 64.
func BenchmarkPassingOn(b *testing.B) {
	for _, goroutines := range []int{8, 64} {
		for name, use := range map[string]func(lock.Lease){"kept": func(lock.Lease) {}, "context": func(l lock.Lease) {
			_ = l.Context()
		}} {
			b.Run(fmt.Sprintf("g=%d/variant=%s", goroutines, name), func(b *testing.B) {
				cycles(b, goroutines, func(s *testenv.RedisServer, _ int) string { return s.Prefix + "{hot}" }, use)
			})
		}
	}
}
