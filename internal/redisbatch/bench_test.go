//go:build unix

package redisbatch_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/redisbatch"
	"lastitem/internal/testenv"
	"lastitem/internal/wire"
)

var add = redis.NewScript(`return redis.call('INCRBY', KEYS[1], ARGV[1])`)

// contenders send one EVALSHA and wait for its answer: the client alone, its own AutoPipeline, the batcher as it is, with a limit for
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
	{"kept", func(_ *testing.B, c *redis.Client) func(string) error { return through(redisbatch.New(c, 0)) }},
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

// Each operation is one EVALSHA, to a server on loopback (near) or to one with a round trip of 5 ms (far), whose cpu-ns includes that of the
// relay. See [testenv.CPUPerOp].
func BenchmarkEvalSHA(b *testing.B) {
	s := testenv.Redis(b)
	relay, err := wire.NewDelayed("redis", s.Client.Options().Addr, wire.Raw, 2500*time.Microsecond)
	if err != nil {
		b.Fatal(err)
	}
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
