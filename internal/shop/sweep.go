package shop

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"lastitem/internal/stock"
	"lastitem/internal/store/sqldb"
)

// Every replica sweeps each store in turns of its own. A turn begins with the oldest overdue reservation and goes on
// until none is left, or until sweepTurn is over: the next one looks again at what it has passed over. Reservations
// that ended long ago are purged beside that. So no store waits for another, and no purge for a backlog.
const (
	sweepBatch        = 500
	sweepTurn         = 30 * time.Second
	batchLimit        = 15 * time.Second // for one batch
	scripted          = 100              // the batch of one script, during which Redis does nothing else
	purgeReservations = time.Minute      // the mean time between two purges
	keepEnded         = time.Hour        // for which a reservation without a payment is kept
	readWithin        = 2 * time.Second  // the oldest overdue reservation
)

// sweep sweeps every [Options.Sweep] until the shop is closed, and returns what ends it. The oldest overdue reservation
// is read whether it sweeps or not.
func (r *reservations) sweep() (closers []func(context.Context) error) {
	const sweeping = "sweep of reservations"
	o := r.options
	if r.redis != nil {
		r.watch(stock.NeedRedis, r.redis.Overdue)
		closers = append(closers, r.repeat(sweeping, stock.NeedRedis, o.Sweep, func(ctx context.Context) error {
			return turn(ctx, scripted, func(ctx context.Context) (int, error) {
				return r.redis.Sweep(ctx, scripted, o.Replica)
			})
		}))
	}
	if r.sql == nil {
		return closers
	}
	r.watch(stock.NeedSQL, r.sql.Overdue)
	closers = append(closers, r.repeat(sweeping, stock.NeedSQL, o.Sweep, func(ctx context.Context) error {
		var after sqldb.Due
		return turn(ctx, sweepBatch, func(ctx context.Context) (seen int, err error) {
			after, seen, err = r.sql.Sweep(ctx, after, sweepBatch, o.Replica)
			return seen, err
		})
	}))
	if o.Sweep > 0 && o.KeepReservations > 0 {
		closers = append(closers, r.repeat("purge of reservations", stock.NeedSQL, purgeReservations,
			func(ctx context.Context) error { return r.sql.Purge(ctx, keepEnded, o.KeepReservations) }))
	}
	return closers
}

// turn calls batch until one is not full, or sweepTurn is over.
func turn(ctx context.Context, full int, batch func(context.Context) (seen int, err error)) error {
	var errs []error
	for begun, seen := time.Now(), full; seen >= full && ctx.Err() == nil && time.Since(begun) < sweepTurn; {
		one, cancel := context.WithTimeout(ctx, batchLimit)
		var err error
		seen, err = batch(one)
		cancel()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// repeat calls do about every so often until it is told to end, unless a backend is known to be out, and logs its
// errors. 0 = never.
func (r *reservations) repeat(what string, on stock.Backend, every time.Duration,
	do func(context.Context) error) (end func(context.Context) error) {
	if every <= 0 {
		return func(context.Context) error { return nil }
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-time.After(every/2 + rand.N(every)): // replicas that start together do not stay together
			case <-ctx.Done():
				return
			}
			if r.backends.down(nil, on) != nil {
				continue
			}
			if err := do(ctx); err != nil && ctx.Err() == nil {
				r.warn(what, on, err)
			}
		}
	}()
	return func(ctx context.Context) error {
		stop()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *reservations) warn(what string, on stock.Backend, err error) {
	if r.options.Log != nil {
		r.options.Log.Warn("reservations", slog.String("what", what), slog.Any("backend", on), slog.Any("err", err))
	}
}

// watch registers for how long the oldest overdue reservation of a store has waited. It is read when it is
// asked for, by itself: it must tell of sweeps that hang, fail or are switched off.
func (r *reservations) watch(on stock.Backend, overdue func(context.Context) (time.Duration, error)) {
	if r.options.Gauge == nil {
		return
	}
	r.options.Gauge("shop_overdue_hold_seconds", "For how long the oldest overdue reservation has waited for a sweep; "+
		"absent if that cannot be read.", map[string]string{"backend": string(on)}, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), readWithin)
		defer cancel()
		late, err := overdue(ctx)
		if err != nil {
			r.warn("read of the oldest overdue reservation", on, err)
			return math.NaN()
		}
		return late.Seconds()
	})
}
