package textbook_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	gates "lastitem/internal/wire"
)

// The answer to SETNX comes after its client has given up. The caller is told that it holds nothing, so the key must be deleted; a
// rival's key must stay.
func TestSetNXTakesBackWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	for _, name := range []string{"setnx", "setnx-expire"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var gate *gates.Proxy
			address := locktest.Redirected(t, s.URL, func(to string) string {
				g, err := gates.NewProxy("redis", to, gates.Redis)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(g.Close)
				gate = g
				return g.Addr
			})
			o, err := redis.ParseURL(address)
			if err != nil {
				t.Fatal(err)
			}
			o.MaxRetries, o.ContextTimeoutEnabled, o.ReadTimeout = -1, true, 5*time.Second
			far := redis.NewClient(o)
			t.Cleanup(func() { _ = far.Close() })
			make := func(c *redis.Client) lock.Locker { return all[name].process(t, c, time.Hour, nil) }
			l, rival, key := make(far), make(locktest.RedisClient(t, s)), s.Prefix+name
			locktest.Warm(t, l, key)
			held := gate.Add(gates.Rule{Answer: true, Match: func(c gates.Call) bool {
				return strings.EqualFold(c.Words[0], "set") && c.Words[1] == key
			}})
			if _, err := l.Acquire(lock.WithWait(t.Context(), 0), key); !errors.Is(err, lock.ErrUnavailable) {
				t.Fatalf("Acquire without an answer = %v, want ErrUnavailable", err)
			}
			<-held.Reached()
			if n, err := s.Client.Exists(t.Context(), key).Result(); n != 0 || err != nil {
				t.Errorf("the key of nobody is still there (%v)", err)
			}
			lease := locktest.Obtain(t, rival, key)
			held.Pass()
			locktest.WantBusy(t, l, key, "the rival holds it")
			locktest.Release(t, lease)
		})
	}
}
