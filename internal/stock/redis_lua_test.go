package stock_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/idempotency"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
)

func TestRedisLuaReplays(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 5, 0)
		deduct := func(r *stocktest.Replica, quantity int64, key string) (stock.Receipt, error) {
			return r.Deduct(t.Context(), "redis-lua", stock.Redis, product, quantity, key)
		}
		first, err := deduct(h.Replicas[0], 2, "sale")
		if err != nil || first.Stored == nil || first.Replayed {
			t.Fatalf("first Deduct() = %+v, %v, want a stored answer", first, err)
		}
		if want := stocktest.Answer(first, nil); !bytes.Equal(first.Stored.Body, want.Body) || first.Stored.Status != want.Status {
			t.Errorf("answer stored = %d %s, want %d %s", first.Stored.Status, first.Stored.Body, want.Status, want.Body)
		}
		refused, err := deduct(h.Replicas[0], 4, "refusal")
		if !errors.Is(err, stock.ErrSoldOut) || refused.Stored == nil {
			t.Fatalf("Deduct(4 of 3) = %+v, %v, want ErrSoldOut and a stored answer", refused, err)
		}
		if want := stocktest.Answer(stock.Receipt{}, err); !bytes.Equal(refused.Stored.Body, want.Body) {
			t.Errorf("refusal stored = %s, want %s", refused.Stored.Body, want.Body)
		}
		for _, r := range h.Replicas {
			for key, stored := range map[string]*idempotency.Answer{"sale": first.Stored, "refusal": refused.Stored} {
				quantity := map[string]int64{"sale": 2, "refusal": 4}[key]
				again, err := deduct(r, quantity, key)
				if diff := cmp.Diff(stock.Receipt{Stored: stored, Replayed: true}, again); err != nil || diff != "" {
					t.Errorf("repeated %s on %s: %v (-want +got):\n%s", key, r.Options.Replica, err, diff)
				}
			}
		}
		if _, err := deduct(h.Replicas[1], 1, "sale"); !errors.Is(err, stock.ErrKeyReused) {
			t.Errorf("Deduct(1) with the key of Deduct(2) = %v, want ErrKeyReused", err)
		}
		if got, want := h.Books(t, product, stock.Redis), (stocktest.Books{Initial: 5, Stock: 3, Sold: 2, Orders: 1}); got != want {
			t.Errorf("books = %+v, want %+v", got, want)
		}
	})
}

// Repetitions under load: every request is sent twice, and charged once.
func TestRedisLuaTwice(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) { h.ExactTwice(t, "redis-lua", stock.Redis) })
}

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
			if got := h.Books(t, product, stock.Redis); got != want {
				t.Errorf("books of %d = %+v, want %+v", product, got, want)
			}
		}
	})
}

// A stored body comes back byte for byte.
func TestRedisLuaAnyBody(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 9, 0)
		body := []byte("\x00\xff'\"\\?:name @p\r\n\u2028%d")
		req := stocktest.Request(product, 1, "k\x00\xff")
		req.Answer = func(stock.Receipt, error) idempotency.Answer { return idempotency.Answer{Status: 299, Body: body} }
		for i := range 2 {
			r, err := h.Replicas[i].Shop.Deduct(t.Context(), "redis-lua", req)
			if err != nil || r.Stored.Status != 299 || !bytes.Equal(r.Stored.Body, body) || r.Replayed != (i > 0) {
				t.Errorf("Deduct() %d = %+v, %v, want 299 %q", i, r, err, body)
			}
		}
	})
}
