package redisdb

import (
	"context"
	"encoding/json"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// Read returns the count of a product that is not segmented.
func (r *Store) Read(ctx context.Context, product int64) (int64, error) {
	v, err := r.c.Get(ctx, r.key("stock", product)).Result()
	if err != nil {
		return 0, readError(err, product)
	}
	return store.ParseCount(v, product)
}

// Set writes the count absolutely, whatever it is now.
func (r *Store) Set(ctx context.Context, product, stock int64) error {
	return writeError(r.c.Set(ctx, r.key("stock", product), stock, 0).Err())
}

// FinishSet is Set for a deduction that has already written the count of another product: it works even if Redis is out
// of memory, because otherwise the units of the other product would be lost.
func (r *Store) FinishSet(ctx context.Context, product, stock int64) error {
	return r.finishSet(ctx, r.key("stock", product), stock)
}

func (r *Store) finishSet(ctx context.Context, key string, stock int64) error {
	err := r.c.Set(ctx, key, stock, 0).Err()
	if redis.HasErrorPrefix(err, "OOM") {
		err = finishScript.Run(ctx, r.c, []string{key}, "SET", stock).Err()
	}
	return writeError(err)
}

// Add adds delta, which may be negative, to the count, whatever it is now, and returns what it is then. A product that
// is not there begins at 0.
func (r *Store) Add(ctx context.Context, product, delta int64) (int64, error) {
	key := []string{r.key("stock", product)}
	n, err := r.c.IncrBy(ctx, key[0], delta).Result()
	if delta > 0 && redis.HasErrorPrefix(err, "OOM") { // the units must go back even if Redis has no memory for new data
		n, err = finishScript.Run(ctx, r.c, key, "INCRBY", delta).Int64()
	}
	return n, writeError(err)
}

// Append adds an order. It is a command of its own: a crash between the write of the count and this one leaks the
// units.
func (r *Store) Append(ctx context.Context, o ledger.Order) error {
	row, err := json.Marshal(o)
	if err != nil {
		return err
	}
	key := []string{r.key("orders", o.ProductID)}
	err = r.c.RPush(ctx, key[0], row).Err()
	if redis.HasErrorPrefix(err, "OOM") { // the count is already written: without the order the units would be lost
		err = finishScript.Run(ctx, r.c, key, "RPUSH", row).Err()
	}
	return writeError(err)
}
