package redisdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

const (
	// announceEvery is how often a process says again which products it holds: a failover may have lost that.
	announceEvery = 30 * time.Second
	// scanEvery is how often a process looks for products with reservations that nobody has announced.
	scanEvery = 10 * time.Minute
)

// announce adds a product to those that the sweepers of all replicas look at. That comes before the product's first
// reservation, so that none is left alone; nothing is ever removed.
func (r *Reservations) announce(ctx context.Context, product int64) error {
	last, _ := r.holding.Load(product)
	if at, ok := last.(time.Time); ok && time.Since(at) < announceEvery {
		return nil
	}
	now := time.Now()
	err := r.s.c.SAdd(ctx, r.s.prefix+"holding", product).Err() // alone it changes nothing
	if err != nil && last == nil {
		return fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
	}
	r.holding.Store(product, now) // if that failed, it was not the first time, and the sweeper of this process knows it
	return nil
}

// Sweep ends overdue reservations, atMost of each product, and deletes as many that ended long ago. It returns the
// largest number of one product: fewer than atMost = no more are due. A product or a reservation that cannot be read is
// left out; the error says which.
func (r *Reservations) Sweep(ctx context.Context, atMost int, replica string) (seen int, err error) {
	products, err := r.held(ctx)
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
	products, err := r.announced(ctx)
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

// held lists the products that may have reservations, and now and then looks for those that nobody has announced.
func (r *Reservations) held(ctx context.Context) (products []int64, err error) {
	now, last := time.Now().UnixMicro(), r.scanned.Load()
	if now-last >= scanEvery.Microseconds() && r.scanned.CompareAndSwap(last, now) {
		if err = r.scanReservations(ctx); err != nil {
			r.scanned.Store(last)
		}
	}
	products, failed := r.announced(ctx)
	return products, errors.Join(err, failed)
}

// announced lists the products that this process or another one has announced.
func (r *Reservations) announced(ctx context.Context) (products []int64, err error) {
	members, err := r.s.c.SMembers(ctx, r.s.prefix+"holding").Result() // the set may be on a node that is out
	if err != nil {
		err = fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
	}
	found := map[int64]bool{}
	for _, m := range members {
		if product, failed := strconv.ParseInt(m, 10, 64); failed == nil {
			found[product] = true
		}
	}
	r.holding.Range(func(product, _ any) bool {
		found[product.(int64)] = true
		err = errors.Join(err, r.announce(ctx, product.(int64)))
		return true
	})
	return slices.Sorted(maps.Keys(found)), err
}

// scanReservations finds products with reservations by their keys.
func (r *Reservations) scanReservations(ctx context.Context) error {
	return r.s.eachServer(ctx, func(ctx context.Context, server redis.Cmdable) error {
		_, err := r.s.scan(ctx, server, "due", func(product int64) (int64, error) { return 0, r.announce(ctx, product) })
		return err
	})
}
