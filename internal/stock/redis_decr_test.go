package stock_test

import (
	"errors"
	"testing"

	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
)

// Units taken below zero go back, and a smaller request still gets its units.
func TestRedisDecrPutsBack(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		a, b := h.Replicas[0], h.Replicas[1]
		product := h.Product(t, 3, 0)
		held := a.Hold(t, step.Read)
		first := stocktest.Go(t, func() (stock.Receipt, error) {
			return a.Deduct(held.Ctx, "redis-decr", stock.Redis, product, 3, "a")
		})
		held.Await(t)
		b.Sell(t, "redis-decr", stock.Redis, product, 1, "b")
		held.Resume()
		var refused *stock.SoldOutError
		if r := first(); !errors.As(r.Err, &refused) || refused.Available != 2 {
			t.Errorf("A's Deduct(3 of 2) = %v, want sold out with 2 left", r.Err)
		}
		b.Sell(t, "redis-decr", stock.Redis, product, 2, "b")
		h.WantBooks(t, product, stock.Redis, stocktest.Books{Initial: 3, Stock: 0, Sold: 3, Orders: 2})
	})
}
