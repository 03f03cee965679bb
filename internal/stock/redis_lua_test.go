package stock_test

import (
	"errors"
	"testing"

	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
)

func TestRedisLuaCart(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		a, b := h.Product(t, 5, 0), h.Product(t, 2, 0)
		req := stocktest.Request(a, 1, "cart")
		req.Items = append(req.Items, stock.Item{ProductID: b, Quantity: 2})
		first, err := h.Replicas[0].Shop.Deduct(t.Context(), "redis-lua", req)
		if err != nil || first.Remaining != nil {
			t.Fatalf("Deduct() of a cart = %+v, %v, want an order, and no one count", first, err)
		}
		if again, err := h.Replicas[1].Shop.Deduct(t.Context(), "redis-lua", req); err != nil || !again.Replayed {
			t.Errorf("Deduct() again = %+v, %v, want a replay", again, err)
		}
		req.Key = []byte("another")
		var short *stock.SoldOutError
		if _, err := h.Replicas[1].Shop.Deduct(t.Context(), "redis-lua", req); !errors.As(err, &short) || short.ProductID != b || short.Available != 0 {
			t.Errorf("Deduct() of a cart that is short of the second = %v, want that named", err)
		}
		for product, want := range map[int64]stocktest.Books{
			a: {Initial: 5, Stock: 4, Sold: 1, Orders: 1}, b: {Initial: 2, Stock: 0, Sold: 2, Orders: 1},
		} {
			h.WantBooks(t, product, stock.Redis, want)
		}
	})
}
