//go:build unix

package redisbatch_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/redisbatch"
	"lastitem/stack/wire"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

var add = redis.NewScript(`return redis.call('INCRBY', KEYS[1], ARGV[1])`)

// contenders send one EVALSHA and wait for its answer: the client alone, its own AutoPipeline, the batcher as it is,
// with a limit for each batch, the batcher that does not let other callers run first, and the one whose batches take
// all calls that wait.
var contenders = []struct {
	name string
	make func(b *testing.B, c *redis.Client) func(key string) error
}{
	{"plain", func(b *testing.B, c *redis.Client) func(string) error {
		return func(key string) error { return add.EvalSha(b.Context(), c, []string{key}, 1).Err() }
	}},
	{"auto", func(b *testing.B, c *redis.Client) func(string) error {
		a, err := c.AutoPipeline()
		testkit.Must(b, err)
		return func(key string) error { return add.EvalSha(b.Context(), a, []string{key}, 1).Err() }
	}},
	{"kept", func(_ *testing.B, c *redis.Client) func(string) error { return through(redisbatch.New(c, 0)) }},
	{"limit", func(_ *testing.B, c *redis.Client) func(string) error {
		return through(redisbatch.New(c, 2*time.Second))
	}},
	{"hasty", func(_ *testing.B, c *redis.Client) func(string) error { return through(redisbatch.New(c, 0).Hasty()) }},
	{"whole", func(_ *testing.B, c *redis.Client) func(string) error { return through(redisbatch.New(c, 0).Whole()) }},
}

func through(b *redisbatch.Batcher) func(string) error {
	return func(key string) error {
		c := redisbatch.Call{Script: add, Keys: []string{key}, Args: []any{1}}
		b.Do(&c)
		return c.Err
	}
}

// Each operation is one EVALSHA, to a server on loopback (near) or to one with a round trip of 5 ms (far), whose cpu-ns
// includes that of the relay. See [testenv.CPUPerOp].
func BenchmarkEvalSHA(b *testing.B) {
	s := testenv.Redis(b)
	relay, err := wire.NewDelayed("redis", s.Client.Options().Addr, wire.Raw, 2500*time.Microsecond)
	testkit.Must(b, err)
	b.Cleanup(relay.Close)
	add.Load(b.Context(), s.Client)
	for _, to := range []struct{ name, addr string }{{"near", s.Client.Options().Addr}, {"far", relay.Addr}} {
		for _, goroutines := range []int{1, 16, 64, 256} {
			for _, with := range contenders {
				b.Run(fmt.Sprintf("to=%s/g=%d/variant=%s", to.name, goroutines, with.name), func(b *testing.B) {
					o := *s.Client.Options()
					o.Addr, o.PoolSize = to.addr, 20
					c := redis.NewClient(&o)
					defer func() { _ = c.Close() }()
					send := with.make(b, c)
					testenv.CPUPerOp(b, s.Client, goroutines, func(g int) func() error {
						key := s.Prefix + strconv.Itoa(g)
						return func() error { return send(key) }
					})
				})
			}
		}
	}
}

// Each operation is one EVALSHA beside 32 goroutines that keep the processors busy. The median counts: an answer
// that is not there at once costs any client the time of the whole run queue.
func BenchmarkBusy(b *testing.B) {
	s := testenv.Redis(b)
	add.Load(b.Context(), s.Client)
	for _, procs := range []int{1, 2} {
		for _, with := range contenders {
			b.Run(fmt.Sprintf("procs=%d/variant=%s", procs, with.name), func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				var busy sync.WaitGroup
				var done atomic.Bool
				for range 32 {
					busy.Go(func() {
						for !done.Load() {
						}
					})
				}
				send, took := with.make(b, s.Client), []time.Duration(nil)
				for b.Loop() {
					began := time.Now()
					testkit.Check(b, send(s.Prefix+"busy"))
					took = append(took, time.Since(began))
				}
				done.Store(true)
				busy.Wait()
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
			})
		}
	}
}

// Each operation is two scripts and 8 KB to hash, by sixteen goroutines: about what the lock engine does for a free
// lock.
func BenchmarkPair(b *testing.B) {
	s := testenv.Redis(b)
	take := redis.NewScript(`if redis.call('HMGET', KEYS[1], 'owner', 'fence')[1] then return 0 end
local fence = redis.call('INCR', KEYS[2])
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'fence', fence)
redis.call('PEXPIRE', KEYS[1], 30000)
return fence`)
	drop := redis.NewScript(`if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[2], 30000)
return redis.call('DEL', KEYS[1])`)
	take.Load(b.Context(), s.Client)
	drop.Load(b.Context(), s.Client)
	for _, with := range []string{"kept", "whole"} {
		b.Run("variant="+with, func(b *testing.B) {
			batcher := redisbatch.New(s.Client, 2*time.Second)
			if with == "whole" {
				batcher.Whole()
			}
			testenv.CPUPerOp(b, s.Client, 16, func(g int) func() error {
				lock, work := s.Prefix+"{"+strconv.Itoa(g)+"}", make([]byte, 4096)
				call := func(script *redis.Script) error {
					sum := sha256.Sum256(work)
					copy(work, sum[:])
					c := redisbatch.Call{Script: script, Keys: []string{lock, lock + ":fence"}, Args: []any{"token"}}
					batcher.Do(&c)
					return c.Err
				}
				return func() error { return errors.Join(call(take), call(drop)) }
			})
		})
	}
}
