package stock_test

import (
	"slices"
	"testing"

	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
)

// sellTwice sells the one unit of a product twice, by one schedule: A stops after its read, B sells, A goes on.
func sellTwice(t *testing.T, h *stocktest.Harness, a, b *stocktest.Replica, mode string, s stock.Store) stocktest.Books {
	t.Helper()
	product := h.Product(t, 1, 0)
	first := hold(t, a, step.Read, mode, s, product, "a")
	b.Sell(t, mode, s, product, 1, "b")
	first.sells(t)
	return h.Books(t, product, s)
}

func TestBreaksBySchedule(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		for _, c := range []struct {
			mode  string
			store stock.Store
			b     int // the replica of B
		}{
			{"unsafe", stock.Redis, 0}, {"unsafe-sql", stock.SQL, 0}, {"mutex-per-request", stock.Redis, 0},
			{"mutex", stock.Redis, 1}, {"mutex", stock.SQL, 1},
		} {
			if got := sellTwice(t, h, h.Replicas[0], h.Replicas[c.b], c.mode, c.store); got != soldTwice {
				t.Errorf("%s on %s: books = %+v, want %+v", c.mode, c.store, got, soldTwice)
			}
		}
	})
}

// With the lock deleted, as an expiry would, the lock modes do what unsafe does: they trust it. This stands for the hazards slow and
// pause, and for failover if the Redis of the lock forgets.
func TestLockLostSellsTwice(t *testing.T) {
	t.Parallel()
	h := stocktest.Open(t, stocktest.Embedded(t), 2, stock.Modes())
	trusting := []string{
		"setnx", "setnx-expire", "setnx-ttl", "setnx-owner", "lua-lock", "lock-then-check", "watchdog", "handoff", "fair", "rwlock",
		"global-lock", "segmented", "multi-lock",
	}
	for _, m := range stock.Modes() {
		if !slices.Contains(trusting, m.Name) {
			continue
		}
		for _, s := range m.Stores {
			t.Run(m.Name+" "+string(s), func(t *testing.T) { lockLost(t, h, m.Name, s) })
		}
	}
}

func lockLost(t *testing.T, h *stocktest.Harness, mode string, s stock.Store) {
	product, b := h.Product(t, 1, 0), h.Replicas[1]
	a := hold(t, h.Replicas[0], step.Read, mode, s, product, "a")
	b.Refuse(t, stock.ErrLockBusy, mode, s, product, 1, "b")
	h.DeleteLocks(t)
	b.Sell(t, mode, s, product, 1, "b")
	a.sells(t)
	h.WantBooks(t, product, s, soldTwice)
}
