//go:build unix

package redisbatch_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/redisbatch"
	"lastitem/internal/testenv"
	"lastitem/internal/wire"
)

var add = redis.NewScript(`return redis.call('INCRBY', KEYS[1], ARGV[1])`)

// contenders send one EVALSHA and wait for its answer: the client alone, its own AutoPipeline, the batcher, the batcher with a limit for
// each batch, and the batcher that does not let other callers run first.
var contenders = []struct {
	name string
	make func(b *testing.B, c *redis.Client) func(key string) error
}{
	{"plain", func(b *testing.B, c *redis.Client) func(string) error {
		return func(key string) error { return add.EvalSha(b.Context(), c, []string{key}, 1).Err() }
	}},
	{"auto", func(b *testing.B, c *redis.Client) func(string) error {
		a, err := c.AutoPipeline()
		if err != nil {
			b.Fatal(err)
		}
		return func(key string) error { return add.EvalSha(b.Context(), a, []string{key}, 1).Err() }
	}},
	{"ours", func(_ *testing.B, c *redis.Client) func(string) error { return through(redisbatch.New(c, 0)) }},
	{"limit", func(_ *testing.B, c *redis.Client) func(string) error {
		return through(redisbatch.New(c, 2*time.Second))
	}},
	{"hasty", func(_ *testing.B, c *redis.Client) func(string) error { return through(redisbatch.New(c, 0).Hasty()) }},
}

func through(b *redisbatch.Batcher) func(string) error {
	return func(key string) error {
		c := redisbatch.Call{Script: add, Keys: []string{key}, Args: []any{1}}
		b.Do(&c)
		return c.Err
	}
}

// Each operation is one EVALSHA, to a server on loopback (near) or to one with a round trip of 5 ms (far). cpu-ns is the CPU time of this
// process, which includes the relay's for far; server-ns is the CPU time of Redis. For benchstat, run it several times with -count 1, so
// that the contenders take turns.
func BenchmarkEvalSHA(b *testing.B) {
	s := testenv.Redis(b)
	relay, err := wire.NewDelayed("redis", s.Client.Options().Addr, wire.Raw, 2500*time.Microsecond)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(relay.Close)
	for _, to := range []struct{ name, addr string }{{"near", s.Client.Options().Addr}, {"far", relay.Addr}} {
		for _, goroutines := range []int{1, 16, 64, 256} {
			for _, with := range contenders {
				b.Run(fmt.Sprintf("to=%s/g=%d/%s", to.name, goroutines, with.name), func(b *testing.B) {
					o := *s.Client.Options()
					o.Addr, o.PoolSize = to.addr, 20
					c := redis.NewClient(&o)
					defer func() { _ = c.Close() }()
					measure(b, s, goroutines, with.make(b, c))
				})
			}
		}
	}
}

func measure(b *testing.B, s *testenv.RedisServer, goroutines int, send func(key string) error) {
	add.Load(b.Context(), s.Client)
	work := func(n int) {
		var left atomic.Int64
		left.Store(int64(n))
		var wg sync.WaitGroup
		for g := range goroutines {
			key := s.Prefix + strconv.Itoa(g)
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					if err := send(key); err != nil {
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
	server, client := testenv.RedisCPUTime(b, s.Client), testenv.CPUTime(b)
	b.ResetTimer()
	work(b.N)
	b.StopTimer()
	b.ReportMetric(float64(testenv.CPUTime(b)-client)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(testenv.RedisCPUTime(b, s.Client)-server)/float64(b.N), "server-ns/op")
}
