package shop

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"lastitem/internal/ledger"
	"lastitem/internal/stock"
	"lastitem/internal/store"
)

// A sweep ends overdue reservations in batches of sweepBatch, and goes on from where the last batch ended until a batch
// is not full. Every replica sweeps; two that meet end each reservation once, since the row decides. purgeHolds is how
// often a sweeper deletes reservations that ended long ago, and keepEnded for how long one without a payment is kept.
const (
	sweepBatch = 100
	sweepLimit = 30 * time.Second
	purgeHolds = time.Minute
	keepEnded  = time.Hour
)

// sweeper ends overdue reservations of one shop.
type sweeper struct {
	*Shop
	overdue atomic.Int64 // for how long the oldest has waited, nanoseconds
	purged  time.Time
}

// startSweeper sweeps every [Options.Sweep] until the shop is closed.
func (s *Shop) startSweeper() {
	if s.backends.Redis != nil {
		s.backends.Redis.KeepHolds(s.options.KeepHolds)
	}
	if s.options.Sweep <= 0 || s.backends.SQL == nil && s.backends.Redis == nil {
		return
	}
	w := &sweeper{Shop: s, purged: time.Now()}
	if s.options.Gauge != nil {
		s.options.Gauge("shop_overdue_hold_seconds", "For how long the oldest overdue reservation has waited for a sweep.",
			func() float64 { return time.Duration(w.overdue.Load()).Seconds() })
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-time.After(s.options.Sweep/2 + rand.N(s.options.Sweep)): // replicas that start together do not stay together
				w.sweep(ctx)
			case <-ctx.Done():
				return
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

// OnEnd has f told of each reservation that this process has ended. f must not block.
func (s *Shop) OnEnd(f func(ledger.Hold)) {
	if s.backends.SQL != nil {
		s.backends.SQL.OnEnd(f)
	}
	if s.backends.Redis != nil {
		s.backends.Redis.OnEnd(f)
	}
}

// sweep runs one sweep of every store, unless it is known to be out.
func (w *sweeper) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	var overdue time.Duration
	var err error
	if w.backends.SQL != nil && w.backends.down(nil, stock.NeedSQL) == nil {
		overdue, err = w.sweepSQL(ctx)
	}
	if w.backends.Redis != nil && w.backends.down(nil, stock.NeedRedis) == nil {
		for seen := sweepBatch; seen == sweepBatch && ctx.Err() == nil; {
			var one error
			seen, one = w.backends.Redis.Sweep(ctx, sweepBatch, w.options.Replica)
			err = errors.Join(err, one)
		}
		late, one := w.backends.Redis.Overdue(ctx)
		overdue, err = max(overdue, late), errors.Join(err, one)
	}
	w.overdue.Store(int64(overdue))
	if err != nil && ctx.Err() == nil && w.options.Log != nil {
		w.options.Log.LogAttrs(ctx, slog.LevelWarn, "sweep of reservations", slog.Any("err", err))
	}
}

// sweepSQL returns for how long the oldest reservation that is overdue still has been so.
func (w *sweeper) sweepSQL(ctx context.Context) (time.Duration, error) {
	db := w.backends.SQL
	var errs []error
	for after, full := (store.Due{}), true; full && ctx.Err() == nil; {
		next, seen, err := db.Sweep(ctx, after, sweepBatch, w.options.Replica)
		after, full = next, seen == sweepBatch
		errs = append(errs, err)
	}
	overdue, err := db.Overdue(ctx)
	errs = append(errs, err)
	if time.Since(w.purged) > purgeHolds && w.options.KeepHolds > 0 {
		w.purged = time.Now()
		errs = append(errs, db.PurgeHolds(ctx, keepEnded, w.options.KeepHolds))
	}
	return overdue, errors.Join(errs...)
}
