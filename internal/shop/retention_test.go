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
				h.Replicas[0].Sell(t, first, stock.SQL, product, 1, key)
				for j, mode := range modes {
					r, err := h.Replicas[0].Deduct(t.Context(), mode, stock.SQL, product, 1, key)
					switch {
					case i == j && (err != nil || !r.Replayed):
						t.Errorf("%s again: Deduct() = %+v, %v, want a replay", mode, r, err)
					case i != j && !errors.Is(err, stock.ErrKeyReused):
						t.Errorf("%s after %s: Deduct() = %+v, %v, want ErrKeyReused", mode, first, r, err)
					}
				}
				h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 9, Stock: 8, Sold: 1, Orders: 1, Keys: 1}, first)
			}
		})
	}
}
