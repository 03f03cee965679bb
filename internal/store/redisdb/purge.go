package redisdb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/store"
)

var purgeScript = script("purge")

// scanCount is how many keys one SCAN inspects; Redis does nothing else meanwhile.
const scanCount = 500

// Purge removes answers to sales that are older than keep, which is above 0, at the latest at twice that age, and
// returns how many. It finds the products with SCAN. If one product fails, Purge still handles the others, and returns
// the error.
func (r *Store) Purge(ctx context.Context, keep time.Duration) (int64, error) {
	var sum atomic.Int64 // the masters are scanned at the same time
	err := r.eachServer(ctx, func(ctx context.Context, server redis.Cmdable) error {
		gone, err := r.scan(ctx, server, "answers", func(product int64) (int64, error) {
			answers := []string{r.key("answers", product), r.key("answers-old", product), r.key("answers-moved", product)}
			n, err := purgeScript.Run(ctx, r.c, answers, keep.Milliseconds()).Int64()
			return n, writeError(err)
		})
		sum.Add(gone)
		return err
	})
	return sum.Load(), err
}

// eachServer calls do for the server, on a cluster for all masters at the same time.
func (r *Store) eachServer(ctx context.Context, do func(ctx context.Context, server redis.Cmdable) error) error {
	cluster, ok := r.c.(*redis.ClusterClient)
	if !ok {
		return do(ctx, r.c)
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return do(ctx, master) })
}

// scan calls do for the products that have a key of a family on one server, and sums what it returns. If one product
// fails, the others are still handled.
func (r *Store) scan(ctx context.Context, server redis.Cmdable, family string,
	do func(product int64) (int64, error)) (int64, error) {
	var errs []error
	var cursor uint64
	head := r.prefix + family + ":{"
	glob := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)
	sum, err := store.InSteps(ctx, func() (gone int64, more bool, err error) {
		var keys []string
		if keys, cursor, err = server.Scan(ctx, cursor, glob.Replace(head)+"*}", scanCount).Result(); err != nil {
			return 0, false, fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
		}
		for _, key := range keys {
			id, ok := strings.CutSuffix(strings.TrimPrefix(key, head), "}")
			product, err := strconv.ParseInt(id, 10, 64)
			if !ok || err != nil {
				continue // not a key of ours
			}
			n, err := do(product)
			gone += n
			errs = append(errs, err)
		}
		return gone, cursor != 0, nil
	})
	return sum, errors.Join(append(errs, err)...)
}
