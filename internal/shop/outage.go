package shop

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/stock"
)

// outage lets the modes whose lock only saves work deduct without it while its service is out: then nobody waits for
// the lock. There is one per shop.
//
//	A   Acquire ··· 25 ms ··· probe: no answer within half a second ── out: A and all others go on without the lock
//	B                                                                       Acquire: no lock, at once ··· probe: answered ── C: locks
type outage struct {
	absent error                       // why there is no such service; nil = there is
	ask    func(context.Context) error // probes the service; nil = there are no probes
	down   func() error                // why the service is known to be out; answers at once
	log    *slog.Logger
	spawn  func(func())

	mu       sync.Mutex
	why      error              // nil = the lock is taken
	up       context.Context    // ends when the service goes out
	fall     context.CancelFunc // ends it
	again    time.Time          // when the service is probed next, if it is out
	pause    time.Duration      // the last time until then; it doubles while no lock is got in between
	probing  bool
	answered time.Time // the last probe
}

const (
	suspicious = 25 * time.Millisecond // that a lock takes so long
	// and this is how long the service may take to answer, and the time between two probes
	probeWithin = 500 * time.Millisecond
	firstPause  = time.Second
	mostPause   = time.Minute
)

// newOutage is about Redis, where the locks of the engine are.
func (s *Shop) newOutage() *outage {
	o := &outage{absent: s.backends.has(stock.NeedRedis), log: cmp.Or(s.options.Log, slog.New(slog.DiscardHandler)),
		spawn: s.requests.running.Go}
	o.up, o.fall = context.WithCancel(context.Background())
	if o.absent == nil && s.backends.Lockers.Engine == nil {
		o.absent = errors.New("no lock engine")
	}
	if o.absent != nil && s.backends.SQL != nil {
		o.log.Info("deductions go without the lock that only saves work", "err", o.absent)
	}
	o.down = func() error { return s.backends.down(nil, stock.NeedRedis) }
	if ask := s.backends.Ask; ask != nil {
		o.ask = func(ctx context.Context) error { return ask(ctx, stock.NeedRedis) }
	}
	if s.options.Gauge != nil {
		const help = "1 while the modes whose lock only saves work deduct without it, because Redis is out or there is none."
		s.options.Gauge("shop_optional_lock_out", help, nil, func() float64 {
			if _, why := o.state(); why != nil {
				return 1
			}
			return 0
		})
	}
	return o
}

// state is why the lock is not taken now; nil if it is, until up ends. It has the service probed when that is due.
func (o *outage) state() (up context.Context, why error) {
	if o.absent != nil {
		return nil, o.absent
	}
	down := o.down()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case down != nil:
		o.goOut(down)
	case o.why != nil && time.Now().After(o.again):
		o.spawn(o.probe)
	}
	return o.up, o.why
}

// goOut notes that the service is out. The mutex is held.
func (o *outage) goOut(why error) {
	if o.why != nil {
		return
	}
	o.pause = min(max(2*o.pause, firstPause), mostPause)
	o.why, o.again = why, time.Now().Add(o.pause)
	o.fall()
	o.log.Warn("deductions go on without the lock that only saves work", "err", why)
}

// probe asks the service whether it answers, unless somebody has just done so.
func (o *outage) probe() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.probing || o.why == nil && time.Since(o.answered) < suspicious {
		return
	}
	o.probing = true
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), probeWithin)
	defer cancel()
	var err error
	if o.ask != nil {
		err = o.ask(ctx)
	}
	o.mu.Lock()
	o.probing = false
	switch {
	case err != nil:
		o.goOut(err)
		o.again = time.Now().Add(probeWithin)
		return
	case o.why != nil:
		o.why = nil
		o.up, o.fall = context.WithCancel(context.Background())
		o.log.Info("deductions take the lock again")
	}
	o.answered = time.Now()
}

// acquire takes the lock, or returns a lease on nothing if the service is out.
func (o *outage) acquire(ctx context.Context, take func(context.Context) (lock.Lease, error)) (lock.Lease, error) {
	up, why := o.state()
	if why != nil {
		return unlocked{ctx}, nil //nolint:nilerr // it goes on without the lock
	}
	asking, giveUp := context.WithCancel(ctx)
	stop := context.AfterFunc(up, giveUp)
	slow := time.AfterFunc(suspicious, o.probe)
	lease, err := take(asking)
	slow.Stop()
	stop()
	if err == nil {
		o.mu.Lock()
		o.pause = 0
		o.mu.Unlock()
		return &sparedLease{lease, o, up, giveUp}, nil
	}
	giveUp()
	switch {
	case up.Err() != nil && ctx.Err() == nil: // it went out meanwhile
	case errors.Is(err, lock.ErrUnavailable) && !errors.Is(err, stock.ErrLockClosed):
		o.mu.Lock()
		o.goOut(err)
		o.mu.Unlock()
	default:
		return nil, err
	}
	return unlocked{ctx}, nil
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
	up  context.Context
	end context.CancelFunc
}

// Release gives the lease up; if the service is out, in the background.
func (l *sparedLease) Release(ctx context.Context) error {
	released := make(chan error, 1)
	slow := time.AfterFunc(suspicious, l.o.probe)
	defer slow.Stop()
	l.o.spawn(func() {
		defer l.end()
		released <- l.Lease.Release(context.WithoutCancel(ctx))
	})
	select {
	case err := <-released:
		return err
	case <-l.up.Done():
		return nil
	}
}
