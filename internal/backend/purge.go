package backend

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"lastitem/internal/store/redisdb"
	"lastitem/internal/store/sqldb"
)

// Purge sets how often old answers to idempotency keys are removed, and from which age on.
type Purge struct {
	Every time.Duration // 0 = never
	Keep  time.Duration // 0 = forever
}

// refusalsEvery is the longest time between two purges of refusals: at four thousand a second they are 30 MB by then.
const refusalsEvery = 10 * time.Second

// purger purges one store, over a separate connection, until it is closed. Every replica has one per store; those of
// several replicas may run at the same time.
type purger struct {
	name  string
	every time.Duration
	purge func(context.Context, time.Duration) (int64, error)
	close func() error
}

// startPurges starts a purger for each store that keeps answers.
func (s *Set) startPurges(cfg Config) error {
	every, keep := cfg.Purge.Every, cfg.Purge.Keep
	if every <= 0 {
		return nil
	}
	var all []purger
	var errs []error
	if s.Redis != nil && keep > 0 {
		c, err := cfg.OwnRedis("purge")
		if err == nil {
			all = append(all, purger{"redis", every, redisdb.New(c, cfg.Prefix).Purge, c.Close})
		}
		errs = append(errs, err)
	}
	if s.SQL != nil {
		db, err := cfg.OwnSQL("purge")
		if err == nil {
			var own *sqldb.Store
			own, err = sqldb.New(db)
			all = append(all, purger{"sql", min(every, refusalsEvery), own.PurgeRefusals, func() error { return closeSQL(db) }})
			if keep > 0 {
				all = append(all, purger{"sql", every, own.Purge, func() error { return nil }})
			}
		}
		errs = append(errs, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, p := range all {
		running.Go(func() { p.run(ctx, keep, s.log) })
	}
	s.ending = func() error {
		stop()
		running.Wait()
		var errs []error
		for _, p := range all {
			errs = append(errs, p.close())
		}
		return errors.Join(errs...)
	}
	return errors.Join(errs...)
}

// run purges at slightly random intervals, so that replicas which start together do not purge together.
func (p purger) run(ctx context.Context, keep time.Duration, log *slog.Logger) {
	var last string
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.every - p.every/4 + rand.N(p.every/2+1)):
		}
		gone, err := p.purge(ctx, keep)
		if gone > 0 {
			log.Info("purged", "store", p.name, "keys", gone)
		}
		why := ""
		if err != nil && ctx.Err() == nil {
			why = err.Error()
		}
		if why != "" && why != last { // the health check says that a store is down; this says what else is wrong
			log.Warn("purge: trying again", "store", p.name, "every", p.every, "err", err)
		}
		last = why
	}
}
