package redisdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
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

const (
	// announceEvery is how often a process says again which products it knows: a failover may have lost that.
	announceEvery = 30 * time.Second
	// scanEvery is how often a process looks for products that nobody has announced.
	scanEvery = 10 * time.Minute
)

// roll lists the products of which something is left to do for a background task of all replicas.
type roll struct {
	s       *Store
	set     string       // the set in Redis that has them
	family  string       // of a key that each of them has
	mine    sync.Map     // those that this process has written down -> when it last did so
	scanned atomic.Int64 // when the last search for those that nobody has written down began, in microseconds
}

// announce adds a product. That comes before there is anything to do, so that nothing is left alone; no product is ever
// removed.
func (r *roll) announce(ctx context.Context, product int64) error {
	last, _ := r.mine.Load(product)
	if at, ok := last.(time.Time); ok && time.Since(at) < announceEvery {
		return nil
	}
	now := time.Now()
	err := r.s.c.SAdd(ctx, r.s.prefix+r.set, product).Err() // alone it changes nothing
	if err != nil && last == nil {
		return fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
	}
	r.mine.Store(product, now) // if that failed, it was not the first time, and this process knows the product
	return nil
}

// all lists the products, and now and then looks for those that nobody has announced.
func (r *roll) all(ctx context.Context) (products []int64, err error) {
	now, last := time.Now().UnixMicro(), r.scanned.Load()
	if now-last >= scanEvery.Microseconds() && r.scanned.CompareAndSwap(last, now) {
		err = r.s.eachServer(ctx, func(ctx context.Context, server redis.Cmdable) error {
			_, err := r.s.scan(ctx, server, r.family, func(product int64) (int64, error) { return 0, r.announce(ctx, product) })
			return err
		})
		if err != nil {
			r.scanned.Store(last)
		}
	}
	products, failed := r.announced(ctx)
	return products, errors.Join(err, failed)
}

// announced lists the products that this process or another one has announced.
func (r *roll) announced(ctx context.Context) (products []int64, err error) {
	members, err := r.s.c.SMembers(ctx, r.s.prefix+r.set).Result() // the set may be on a node that is out
	if err != nil {
		err = fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
	}
	found := map[int64]bool{}
	for _, m := range members {
		if product, failed := strconv.ParseInt(m, 10, 64); failed == nil {
			found[product] = true
		}
	}
	r.mine.Range(func(product, _ any) bool {
		found[product.(int64)] = true
		err = errors.Join(err, r.announce(ctx, product.(int64)))
		return true
	})
	return slices.Sorted(maps.Keys(found)), err
}
