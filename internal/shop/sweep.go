package shop

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"lastitem/contract/ledger"
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

// startSweeper sweeps every [Options.Sweep] until the shop is closed. The oldest overdue reservation is read whether it
// sweeps or not.
func (s *Shop) startSweeper() {
	o, db, redis := s.options, s.backends.SQL, s.backends.Redis
	if redis != nil {
		redis.KeepReservations(o.KeepReservations)
		s.watchReservations(stock.NeedRedis, redis.Overdue)
		s.repeat("sweep of reservations", stock.NeedRedis, o.Sweep, func(ctx context.Context) error {
			return turn(ctx, scripted, func(ctx context.Context) (int, error) { return redis.Sweep(ctx, scripted, o.Replica) })
		})
	}
	if db == nil {
		return
	}
	s.watchReservations(stock.NeedSQL, db.Overdue)
	s.repeat("sweep of reservations", stock.NeedSQL, o.Sweep, func(ctx context.Context) error {
		var after sqldb.Due
		return turn(ctx, sweepBatch, func(ctx context.Context) (seen int, err error) {
			after, seen, err = db.Sweep(ctx, after, sweepBatch, o.Replica)
			return seen, err
		})
	})
	if o.Sweep > 0 && o.KeepReservations > 0 {
		s.repeat("purge of reservations", stock.NeedSQL, purgeReservations, func(ctx context.Context) error {
			return db.PurgeReservations(ctx, keepEnded, o.KeepReservations)
		})
	}
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

// repeat calls do about every so often until the shop is closed, unless a backend is known to be out, and logs its
// errors. 0 = never.
func (s *Shop) repeat(what string, on stock.Backend, every time.Duration, do func(context.Context) error) {
	if every <= 0 {
		return
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
			if s.backends.down(nil, on) != nil {
				continue
			}
			if err := do(ctx); err != nil && ctx.Err() == nil {
				s.warn(what, on, err)
			}
		}
	}()
	s.closers = append(s.closers, func(ctx context.Context) error {
		stop()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

func (s *Shop) warn(what string, on stock.Backend, err error) {
	if s.options.Log != nil {
		s.options.Log.Warn("reservations", slog.String("what", what), slog.Any("backend", on), slog.Any("err", err))
	}
}

// watchReservations registers for how long the oldest overdue reservation of a store has waited. It is read when it is
// asked for, by itself: it must tell of sweeps that hang, fail or are switched off.
func (s *Shop) watchReservations(on stock.Backend, overdue func(context.Context) (time.Duration, error)) {
	if s.options.Gauge == nil {
		return
	}
	s.options.Gauge("shop_overdue_hold_seconds", "For how long the oldest overdue reservation has waited for a sweep; "+
		"absent if that cannot be read.", map[string]string{"backend": string(on)}, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), readWithin)
		defer cancel()
		late, err := overdue(ctx)
		if err != nil {
			s.warn("read of the oldest overdue reservation", on, err)
			return math.NaN()
		}
		return late.Seconds()
	})
}

// OnEnd has f told of each reservation that this process has ended. f must not block.
func (s *Shop) OnEnd(f func(ledger.Reservation)) {
	if s.backends.SQL != nil {
		s.backends.SQL.OnEnd(f)
	}
	if s.backends.Redis != nil {
		s.backends.Redis.OnEnd(f)
	}
}
