package redisdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

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
