package replica

import (
	"testing"
	"time"

	"lastitem/internal/backend"
	"lastitem/internal/stock"
	"lastitem/internal/testenv"
)

// An attempt to get a lock waits for Redis for half of SHOP_LOCK_TIMEOUT: a Redis that is silent for 1.6 s delays it, where by default it would
// have been given up after a second.
func TestLockTimeout(t *testing.T) {
	t.Parallel()
	redis := testenv.RedisNodes(t, 1)[0].URL
	r, err := New(Config{
		Replica: "1", Redis: redis, DefaultMode: "noop", LockTTL: time.Minute, Conns: 2, HealthEvery: noProbes,
		WorkTimeout: testenv.Still, RedisTimeout: testenv.Still, SettleTimeout: testenv.Still, LockTimeout: 2 * testenv.Still,
	}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	if err := r.Shop.SetStock(t.Context(), 1, 5, 0); err != nil {
		t.Fatal(err)
	}
	c, err := backend.OpenRedis(redis, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	if err := c.Do(t.Context(), "CLIENT", "PAUSE", 1600, "ALL").Err(); err != nil {
		t.Fatal(err)
	}
	_, err = r.Shop.Deduct(t.Context(), "handoff", stock.Request{Items: []stock.Item{{ProductID: 1, Quantity: 1}}})
	if took := time.Since(began); err != nil || took < time.Second {
		t.Errorf("Deduct() while Redis is silent = %v after %v, want a sale when it answers again", err, took)
	}
}
