package wire_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/testenv"
	"lastitem/internal/wire"
)

// BenchmarkProxy says what a command costs past a proxy: the difference between the two.
func BenchmarkProxy(b *testing.B) {
	s := testenv.Redis(b)
	addr := s.Client.Options().Addr
	p, err := wire.NewProxy("redis", addr, wire.Redis)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Close)
	for name, addr := range map[string]string{"direct": addr, "proxied": p.Addr} {
		b.Run("redis/"+name, func(b *testing.B) {
			o := *s.Client.Options()
			o.Addr = addr
			c := redis.NewClient(&o)
			b.Cleanup(func() { _ = c.Close() })
			for b.Loop() {
				if err := c.Get(b.Context(), s.Prefix+"stock:{101}").Err(); err != nil && err != redis.Nil { //nolint:errorlint // it is that
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("digest", func(b *testing.B) {
		for b.Loop() {
			wire.SQLDigest("UPDATE product_stock SET stock = 99, fence = 2, lease_seq = lease_seq + 1, version = version + 1 WHERE id = 101 AND fence <= 2")
		}
	})
	b.Run("key", func(b *testing.B) {
		for b.Loop() {
			wire.Key("lastitem:lock:handoff:{101}:ended:0123456789abcdef0123456789abcdef")
		}
	})
}
