package shop_test

import (
	"errors"
	"fmt"
	"testing"

	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
	"lastitem/internal/testenv"
)

// The mode belongs to the payload of a key: another mode neither replays the answer nor sells.
func TestKeyOfAnotherMode(t *testing.T) {
	t.Parallel()
	for _, e := range stocktest.Envs {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			env := e.Open(t)
			env.Kafka = testenv.EmbeddedKafka(t).Seeds
			h := stocktest.Open(t, env, 1, stock.Modes())
			modes := []string{"idempotent", "queue", "kafka"}
			for i, first := range modes {
				product := h.Product(t, 9, 0)
				key := fmt.Sprint(product)
				if _, err := h.Replicas[0].Deduct(t.Context(), first, stock.SQL, product, 1, key); err != nil {
					t.Fatalf("%s: Deduct() = %v, want nil", first, err)
				}
				for j, mode := range modes {
					r, err := h.Replicas[0].Deduct(t.Context(), mode, stock.SQL, product, 1, key)
					switch {
					case i == j && (err != nil || !r.Replayed):
						t.Errorf("%s again: Deduct() = %+v, %v, want a replay", mode, r, err)
					case i != j && !errors.Is(err, stock.ErrKeyReused):
						t.Errorf("%s after %s: Deduct() = %+v, %v, want ErrKeyReused", mode, first, r, err)
					}
				}
				if got, want := h.Books(t, product, stock.SQL), (stocktest.Books{Initial: 9, Stock: 8, Sold: 1, Orders: 1, Keys: 1}); got != want {
					t.Errorf("books after %s = %+v, want %+v", first, got, want)
				}
			}
		})
	}
}

// In Redis too: the same key for another product is another payload.
func TestRedisLuaKeyOfAnotherProduct(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		a, b := h.Product(t, 5, 0), h.Product(t, 5, 0)
		key := fmt.Sprint(a, b)
		if _, err := h.Replicas[0].Deduct(t.Context(), "redis-lua", stock.Redis, a, 1, key); err != nil {
			t.Fatal(err)
		}
		if r, err := h.Replicas[1].Deduct(t.Context(), "redis-lua", stock.Redis, b, 1, key); !errors.Is(err, stock.ErrKeyReused) {
			t.Errorf("Deduct() of another product with the same key = %+v, %v, want ErrKeyReused", r, err)
		}
		cart := stocktest.Request(b, 1, key)
		cart.Items = append(cart.Items, stock.Item{ProductID: a, Quantity: 1})
		if r, err := h.Replicas[0].Shop.Deduct(t.Context(), "redis-lua", cart); !errors.Is(err, stock.ErrKeyReused) {
			t.Errorf("Deduct() of a cart with the same key = %+v, %v, want ErrKeyReused", r, err)
		}
		if got, want := h.Books(t, b, stock.Redis), (stocktest.Books{Initial: 5, Stock: 5}); got != want {
			t.Errorf("books of the other = %+v, want %+v", got, want)
		}
	})
}
