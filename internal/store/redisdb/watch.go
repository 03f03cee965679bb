package redisdb

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// Watch reads the count of a product that is not segmented and passes it to take. take returns the order to write,
// whose Remaining is the new count, or an error: then nothing is written. write sends the writes, and bounds how long
// their answer may take. The commands are WATCH, GET, MULTI, SET, RPUSH and EXEC on one connection. If anybody has
// written the count since the WATCH, EXEC does nothing and Watch returns store.ErrConflict.
func (r *Store) Watch(
	ctx context.Context, product int64, take func(have int64) (ledger.Order, error),
	write func(context.Context, func(context.Context) error) error,
) error {
	w := watched{r: r, product: product, take: take, write: write}
	err := r.c.Watch(ctx, func(tx *redis.Tx) error { return w.run(ctx, tx) }, r.key("stock", product))
	switch {
	case w.err != nil:
		return w.err
	case errors.Is(err, redis.TxFailedErr):
		return store.ErrConflict
	case !w.sent:
		return readError(err, product)
	}
	return writeError(err)
}

// watched is one call of [Store.Watch].
type watched struct {
	r       *Store
	product int64
	take    func(have int64) (ledger.Order, error)
	write   func(context.Context, func(context.Context) error) error
	err     error // why nothing was sent after the read
	sent    bool  // the transaction was sent
}

// run does everything between WATCH and EXEC.
func (w *watched) run(ctx context.Context, tx *redis.Tx) error {
	var o ledger.Order
	var row []byte
	v, err := tx.Get(ctx, w.r.key("stock", w.product)).Result()
	if err != nil {
		err = readError(err, w.product)
	}
	var have int64
	if err == nil {
		have, err = store.ParseCount(v, w.product)
	}
	if err == nil {
		o, err = w.take(have)
	}
	if err == nil {
		row, err = json.Marshal(o)
	}
	if err != nil {
		w.err = err
		return err
	}
	return w.write(ctx, func(ctx context.Context) error {
		w.sent = true
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, w.r.key("stock", w.product), *o.Remaining, 0)
			p.RPush(ctx, w.r.key("orders", w.product), row)
			return nil
		})
		return err
	})
}
