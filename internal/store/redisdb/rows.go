package redisdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// The answer of a cart is stored with its first product, and a reset of that product deletes it: the same request sells
// again. Its earlier orders of the other products remain, in other lists, and no key says where. So sell.lua notes the
// first product and its run on them, and readers check that the product still has that run.

// row is an order as Redis has it.
type row struct {
	ledger.Order
	First int64  `json:"first"` // the first product of the order's cart; 0 = the order's own, or the cart has no key
	Run   string `json:"run"`   // the run of that product in which the cart was sold
}

// decodeOrders decodes the orders of a product. It removes the key from those whose answer a reset has deleted, as
// Reset of sqldb does, so that no key is on the orders of two sales. The runs are read after the orders: orders of a
// repeated sale are only there if the run has ended.
func (r *Store) decodeOrders(ctx context.Context, texts []string, product int64) ([]ledger.Order, error) {
	all, firsts := make([]ledger.Order, len(texts)), make([]row, len(texts))
	pipe, runs := r.c.Pipeline(), map[int64]*redis.StringCmd{}
	for i, text := range texts {
		if err := json.Unmarshal([]byte(text), &firsts[i]); err != nil {
			return nil, fmt.Errorf("%w: an order of product %d: %w", store.ErrUnavailable, product, err)
		}
		all[i] = firsts[i].Order
		if first := firsts[i].First; first != 0 && runs[first] == nil {
			runs[first] = pipe.HGet(ctx, r.key("answers", first), "")
		}
	}
	if len(runs) == 0 {
		return all, nil
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, readError(err, product)
	}
	for i, f := range firsts {
		if f.First != 0 && runs[f.First].Val() != f.Run {
			all[i].Key = nil
		}
	}
	return all, nil
}
