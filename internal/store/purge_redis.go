package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/purge.lua
var purgeSource string

var purgeScript = redis.NewScript(purgeSource)

// scanCount is how many keys one SCAN inspects; Redis does nothing else meanwhile.
const scanCount = 500

// Purge removes old orders, and answers older than keep.Keys (at the latest at twice that age), and returns how many. It finds the
// products with SCAN. If one product fails, Purge still handles the others, and returns the error.
func (r *Redis) Purge(ctx context.Context, keep Retention) (sum Purged, err error) {
	cluster, ok := r.c.(*redis.ClusterClient)
	if !ok {
		return r.purgeAll(ctx, r.c, keep)
	}
	sums := make(chan Purged, 1) // the masters are scanned at the same time
	sums <- Purged{}
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		one, err := r.purgeAll(ctx, master, keep)
		all := <-sums
		all.add(one)
		sums <- all
		return err
	})
	return <-sums, err
}

// purgeAll purges the products of one server.
func (r *Redis) purgeAll(ctx context.Context, server redis.Cmdable, keep Retention) (sum Purged, err error) {
	var errs []error
	var cursor uint64
	head := r.prefix + "initial:{"
	glob := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)
	found, err := batches(ctx, func() (all Purged, more bool, err error) {
		var keys []string
		if keys, cursor, err = server.Scan(ctx, cursor, glob.Replace(head)+"*}", scanCount).Result(); err != nil {
			return all, false, fmt.Errorf("%w: redis: %w", ErrUnavailable, err)
		}
		for _, key := range keys {
			id, ok := strings.CutSuffix(strings.TrimPrefix(key, head), "}")
			product, err := strconv.ParseInt(id, 10, 64)
			if !ok || err != nil {
				continue // not a key of ours
			}
			gone, err := batches(ctx, func() (Purged, bool, error) { return r.purge(ctx, product, keep) })
			all.add(gone)
			errs = append(errs, err)
		}
		return all, cursor != 0, nil
	})
	sum.add(found)
	return sum, errors.Join(append(errs, err)...)
}

// purge removes one batch of one product.
func (r *Redis) purge(ctx context.Context, product int64, keep Retention) (gone Purged, more bool, err error) {
	before := "" // nothing is old
	if keep.Orders > 0 {
		before = strconv.FormatInt(cutoff(keep.Orders), 10)
	}
	keys := append([]string{r.key("orders", product)}, r.answerKeys(product)...)
	v, err := purgeScript.Run(ctx, r.c, append(keys, r.key("purged", product)), before, purgeBatch, keep.Keys.Milliseconds(), newRunName()).Int64Slice()
	if err != nil {
		return gone, false, writeError(err)
	}
	if len(v) != 3 {
		return gone, false, fmt.Errorf("%w: redis: the purge answered %v", ErrUnknown, v)
	}
	return Purged{Orders: v[0], Units: v[1], Keys: v[2]}, v[0] == purgeBatch, nil
}
