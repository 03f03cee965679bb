package shop

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/stock"
)

// outage lets the modes whose lock only saves work deduct without it while its service is out: then nobody waits for the lock. There is one
// per shop.
//
//	A   Acquire ··· 25 ms ··· probe: no answer within half a second ── out: deducts without the lock, as does all that comes
//	B                                                               Acquire: no lock, at once
//	every half a second, if there are requests: probe ── answered: the lock is taken again
type outage struct {
	absent error                       // why there is no such service; nil = there is
	ask    func(context.Context) error // probes the service; nil = it is never asked
	down   func() error                // why the service is known to be out; answers at once
	log    *slog.Logger                // nil = none
	spawn  func(func())

	mu       sync.Mutex
	why      error         // nil = the lock is taken
	gone     chan struct{} // closed when the service goes out
	again    time.Time     // when the service is probed next
	pause    time.Duration // before the first probe of the next outage; it doubles while one follows the other without a lock in between
	probing  chan struct{} // closed when the probe under way has ended; nil = there is none
	answered time.Time     // when the service last answered a probe
}

const (
	suspicious  = 25 * time.Millisecond  // that a lock takes so long
	probeWithin = 500 * time.Millisecond // and this is how long the service may take to answer, and the time between two probes
	firstPause  = time.Second
	mostPause   = time.Minute
)

// newOutage is about Redis, where the locks of the engine are.
func (s *Shop) newOutage() *outage {
	o := &outage{absent: s.backends.has(stock.NeedRedis), log: s.options.Log, spawn: s.running.Go, gone: make(chan struct{})}
	if o.absent == nil && s.backends.Lockers.Engine == nil {
		o.absent = errors.New("no lock engine")
	}
	if o.absent != nil && o.log != nil && s.backends.SQL != nil {
		o.log.Info("deductions go without the lock that saves them work", "modes", "idempotent, lease-seq", "err", o.absent)
	}
	o.down = func() error { return s.backends.down(stock.NeedRedis) }
	if ask := s.backends.Ask; ask != nil {
		o.ask = func(ctx context.Context) error { return ask(ctx, stock.NeedRedis) }
	}
	if s.options.Gauge != nil {
		s.options.Gauge("shop_optional_lock_out", "1 while the modes whose lock only saves work deduct without it, because Redis is out or there is none.", func() float64 {
			if o.out() != nil {
				return 1
			}
			return 0
		})
	}
	return o
}

// out is why the lock is not taken now, nil if it is. It lets the service be probed when that is due.
func (o *outage) out() error {
	if o.absent != nil {
		return o.absent
	}
	down := o.down()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case down != nil && o.why == nil:
		o.goOut(down)
	case down == nil && o.why != nil && time.Now().After(o.again):
		o.startProbe()
	}
	return o.why
}

// goOut notes that the service is out. The mutex is held.
func (o *outage) goOut(why error) {
	if o.why != nil {
		return
	}
	o.pause = min(max(2*o.pause, firstPause), mostPause)
	o.why, o.again = why, time.Now().Add(o.pause)
	close(o.gone)
	if o.log != nil {
		o.log.Warn("deductions go on without the lock that saves them work", "err", why)
	}
}

// failed notes an error of the lock.
func (o *outage) failed(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.goOut(why)
}

// startProbe begins a probe, unless one is under way. The mutex is held.
func (o *outage) startProbe() (ended <-chan struct{}) {
	if o.probing != nil {
		return o.probing
	}
	done := make(chan struct{})
	o.probing = done
	o.spawn(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), probeWithin)
		defer cancel()
		var err error
		if o.ask != nil {
			err = o.ask(ctx)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.probing = nil
		switch {
		case err != nil:
			o.goOut(err)
			o.again = time.Now().Add(probeWithin)
		case o.why != nil:
			o.why, o.gone = nil, make(chan struct{})
			if o.log != nil {
				o.log.Info("deductions take the lock again")
			}
		}
		if err == nil {
			o.answered = time.Now()
		}
	})
	return done
}

// look probes the service, if nobody has just done so, and returns why it is out.
func (o *outage) look() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == nil && time.Since(o.answered) > suspicious {
		ended := o.startProbe()
		o.mu.Unlock()
		<-ended
		o.mu.Lock()
	}
	return o.why
}

// watch calls giveUp if the service goes out before ctx has ended.
func (o *outage) watch(ctx context.Context, giveUp func(error)) {
	first := time.AfterFunc(suspicious, func() {
		for ctx.Err() == nil {
			if err := o.look(); err != nil {
				giveUp(err)
				return
			}
			select {
			case <-time.After(probeWithin / 2):
			case <-ctx.Done():
			}
		}
	})
	context.AfterFunc(ctx, func() { first.Stop() })
}

// acquire takes the lock, or returns a lease on nothing if the service is out.
func (o *outage) acquire(ctx context.Context, take func(context.Context) (lock.Lease, error)) (lock.Lease, error) {
	if o.out() != nil {
		return unlocked{ctx}, nil
	}
	asking, giveUp := context.WithCancelCause(ctx)
	waiting, taken := context.WithCancel(asking)
	o.watch(waiting, giveUp)
	lease, err := take(asking)
	taken()
	if err == nil {
		o.mu.Lock()
		o.pause = 0
		o.mu.Unlock()
		return &sparedLease{lease, o, giveUp}, nil
	}
	gaveUp := ctx.Err() == nil && asking.Err() != nil
	giveUp(nil)
	if errors.Is(err, lock.ErrUnavailable) && !errors.Is(err, stock.ErrLockClosed) && !gaveUp {
		o.failed(err)
		gaveUp = true
	}
	if gaveUp {
		return unlocked{ctx}, nil
	}
	return nil, err
}

// unlocked is the lease of a deduction that has no lock.
type unlocked struct{ ctx context.Context }

// Context returns the context of the request.
func (u unlocked) Context() context.Context { return u.ctx }

// Fence returns 0: there is no token.
func (unlocked) Fence() uint64 { return 0 }

// Release does nothing.
func (unlocked) Release(context.Context) error { return nil }

// sparedLease is a lease whose release nobody waits for while the service is out.
type sparedLease struct {
	lock.Lease
	o   *outage
	end context.CancelCauseFunc
}

// Release gives the lease up; if the service is out, in the background.
func (l *sparedLease) Release(ctx context.Context) error {
	l.o.mu.Lock()
	gone := l.o.gone
	l.o.mu.Unlock()
	waiting, released := context.WithCancel(context.WithoutCancel(ctx))
	l.o.watch(waiting, func(error) {})
	var err error
	l.o.spawn(func() {
		defer l.end(nil)
		defer released()
		err = l.Lease.Release(waiting)
	})
	select {
	case <-waiting.Done():
		return err
	case <-gone:
		return nil
	}
}
