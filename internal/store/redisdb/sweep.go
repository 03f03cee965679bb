package redisdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

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

// Sweep ends overdue reservations, atMost of each product, and deletes as many that ended long ago. It returns the
// largest number of one product: fewer than atMost = no more are due. A product or a reservation that cannot be read is
// left out; the error says which.
func (r *Reservations) Sweep(ctx context.Context, atMost int, replica string) (seen int, err error) {
	products, err := r.holding.all(ctx)
	for _, product := range products {
		if ctx.Err() != nil {
			break
		}
		list, one := r.arrow(ctx, sweepScript, r.holdKeys(product), atMost, escaped(replica))
		if one != nil {
			err = errors.Join(err, fmt.Errorf("the reservations of product %d: %w", product, one))
			continue
		}
		for _, n := range list[:2] {
			n, _ := n.(int64)
			seen = max(seen, int(n))
		}
		modes, _ := list[2].([]any)
		for i := range modes {
			r.Tell(ledger.Reservation{Mode: textAt(modes, i), State: ledger.Expired,
				Items: []ledger.ReservationItem{{ProductID: product}}}, ledger.Held)
		}
		for _, id := range list[3:] {
			err = errors.Join(err, fmt.Errorf("%w: redis: reservation %v of product %d", store.ErrUnavailable, id, product))
		}
	}
	return seen, err
}

// Overdue returns for how long the oldest overdue reservation has waited for a sweep; 0 = none has.
func (r *Reservations) Overdue(ctx context.Context) (longest time.Duration, err error) {
	products, err := r.holding.announced(ctx)
	if len(products) == 0 {
		return 0, err
	}
	pipe := r.s.c.Pipeline()
	clock, oldest := pipe.Time(ctx), make([]*redis.ZSliceCmd, len(products))
	for i, product := range products {
		oldest[i] = pipe.ZRangeWithScores(ctx, r.s.key("due", product), 0, 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
	}
	for _, due := range oldest {
		for _, z := range due.Val() {
			longest = max(longest, clock.Val().Sub(time.UnixMicro(int64(z.Score))))
		}
	}
	return longest, err
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
