package loadtest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/loadtest/plan"
)

// driver runs one plan: it owns the workers, and decides when each of them sends.
type driver struct {
	plan    plan.Plan
	lang    string // of sentences
	script  script
	rec     *recorder
	engines []client.Engine
	workers []*worker // as many as may be in flight; the open loop starts them as needed

	dropped  atomic.Int64 // open loop: arrivals that found MaxInFlight requests in flight
	inFlight atomic.Int64 // sent and not answered; in an open loop also queued and not sent yet
	extra    atomic.Int64 // requests sent beyond the plan's, see [plan.Plan].SellOut
	late     atomic.Int64 // when the first of them was sent, on the recorder's clock; 0 = none yet
	arrived  atomic.Int64 // arrivals that are over
	planned  int64        // how many arrivals there will be; 0 = the duration decides

	took time.Duration // see [ReservationFigures]
}

// newDriver returns the driver of a plan with its defaults.
func newDriver(p plan.Plan, to client.Target, script script, history bool) (*driver, error) {
	to.Timeout = p.Timeout
	to.Workers = p.VUs
	if p.Open() {
		to.Workers = p.MaxInFlight
	}
	clients := to.Workers
	if p.Reserving.DoubleClicks > 0 || script.endings != nil {
		to.Workers *= 2
	}
	engines, err := client.NewEngines(p.Engine, to)
	if err != nil {
		return nil, err
	}
	d := &driver{plan: p, script: script, rec: newRecorder(history), engines: engines}
	for i, engine := range engines[:clients] {
		w := &worker{id: i, plan: p, script: script, engine: engine}
		if len(engines) > clients {
			w.second = engines[clients+i]
		}
		d.workers = append(d.workers, w)
	}
	switch {
	case p.Open():
		d.planned = int64(plan.NewSchedule(p).Len())
	case p.Loops > 0:
		d.planned = int64(p.Loops) * int64(p.VUs)
	default:
		d.planned = int64(p.Requests)
	}
	return d, nil
}

// close closes all connections.
func (d *driver) close() {
	for _, engine := range d.engines {
		engine.Close()
	}
}

// drive sends the plan's requests and returns after the last answer. When ctx ends, it sends no more, but still waits
// for the requests in flight, at most for the plan's timeout, because cutting them off would make their outcomes
// unknown.
func (d *driver) drive(ctx context.Context) {
	if d.plan.Open() {
		d.open(ctx)
	} else {
		d.closed(ctx)
	}
}

// closed runs a closed loop.
func (d *driver) closed(ctx context.Context) {
	budget := d.budget()
	if d.plan.Burst {
		each(d.workers, func(w *worker) { _ = w.engine.Connect() }) // Do tries again, and reports the error
	}
	d.rec.begin()
	each(d.workers, func(w *worker) {
		pick, next := d.plan.Picker(w.id), d.plan.Visits(w.id)
		for n := 0; ctx.Err() == nil && budget(n); n++ {
			d.inFlight.Add(1)
			w.arrive(ctx, d.rec, pick(), -1, next())
			d.inFlight.Add(-1)
			d.arrived.Add(1)
		}
	})
}

// each calls f for all workers at once, in their places, and returns when all calls have.
func each(workers []*worker, f func(w *worker)) {
	var done sync.WaitGroup
	done.Add(len(workers))
	for _, w := range workers {
		w.engine.Go(func() {
			defer done.Done()
			f(w)
		})
	}
	done.Wait()
}

// budget returns a function that decides whether a VU that has sent n requests sends another.
func (d *driver) budget() func(n int) bool {
	switch {
	case d.plan.Loops > 0:
		return func(n int) bool { return n < d.plan.Loops }
	case d.plan.Duration > 0:
		return func(int) bool { return d.rec.now() < int64(d.plan.Duration) && !d.stopped() }
	default: // one budget for all: a fast VU sends more than a slow one
		var taken atomic.Int64
		return func(int) bool { return taken.Add(1) <= int64(d.plan.Requests) || d.goOn() }
	}
}

// stopped says whether the plan has been ended early.
func (d *driver) stopped() bool {
	select {
	case <-d.plan.Stop:
		return true
	default:
		return false
	}
}

// goOn reports whether to send another request beyond the plan's: it does so while no request has been refused for good
// (as sold out, or because the service does not take such requests), the service has not oversold and still sells, and
// time is left.
func (d *driver) goOn() bool {
	p := d.plan
	if p.SellOut == 0 || p.Products > 1 || int64(p.Requests)*p.Quantity <= p.Stock {
		return false
	}
	now := d.rec.now()
	d.late.CompareAndSwap(0, now)
	accepted, final, last := d.rec.sales()
	since := max(last, d.late.Load())
	more := final == 0 && accepted*p.Quantity <= p.Stock &&
		now-d.late.Load() < int64(p.SellOut) && now-since < int64(p.Wait+plan.AnswerTime)
	if more {
		d.extra.Add(1)
	}
	return more
}

// open runs an open loop. The pacer sleeps until the next arrival is due, and starts all arrivals that are due when it
// wakes: timers are late by up to a millisecond, and spinning would take a core from the servers. An arrival that finds
// MaxInFlight requests in flight is dropped and counted. It never waits: waiting would close the loop.
func (d *driver) open(ctx context.Context) {
	var done sync.WaitGroup
	idle := newIdlers(d.workers)
	pick, next := d.plan.Picker(0), d.plan.Visits(0)
	due := plan.NewSchedule(d.plan)
	d.rec.begin()
	for at, ok := due.Next(); ok; at, ok = due.Next() {
		if !rest(ctx, at-time.Since(d.rec.start)) || d.stopped() {
			break
		}
		w := idle.take()
		if w == nil {
			d.dropped.Add(1)
			continue
		}
		product, v := pick(), next()
		done.Add(1)
		d.inFlight.Add(1)
		w.engine.Go(func() {
			defer done.Done()
			if ctx.Err() == nil {
				w.arrive(ctx, d.rec, product, int64(at), v)
				d.arrived.Add(1)
			}
			d.inFlight.Add(-1)
			idle.put(w)
		})
	}
	done.Wait()
}

// idlers are the workers without a request. The one that was busy last comes first: a slow service gets many workers, a
// fast one few, whose connections stay warm.
type idlers struct {
	mu  sync.Mutex
	all []*worker
}

// newIdlers returns the workers, the first of them on top.
func newIdlers(workers []*worker) *idlers {
	all := slices.Clone(workers)
	slices.Reverse(all)
	return &idlers{all: all}
}

// take removes a worker; nil if none is idle.
func (i *idlers) take() *worker {
	i.mu.Lock()
	defer i.mu.Unlock()
	last := len(i.all) - 1
	if last < 0 {
		return nil
	}
	w := i.all[last]
	i.all = i.all[:last]
	return w
}

// put gives a worker back.
func (i *idlers) put(w *worker) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, w)
}

// warm sends requests for product until the plan's warm-up is over, at least one over every connection that the run
// begins with, and does not count them. An open loop warms only warmWorkers workers. Holds that may be scaled are then
// scaled by what the requests took.
func (d *driver) warm(ctx context.Context, product int64) {
	if d.plan.Warmup <= 0 {
		return
	}
	workers := d.workers
	if d.plan.Open() {
		workers = workers[:min(len(workers), warmWorkers)]
	}
	var rec *recorder
	chosen := d.plan
	if chosen.Reserving.Scaled {
		rec = newRecorder(false)
		rec.begin()
		d.plan.Reserving.For = plan.SettleReservations // else slow payments would come too late to be measured
		d.tell()
	}
	until := time.Now().Add(d.plan.Warmup)
	each(workers, func(w *worker) {
		for first := true; ctx.Err() == nil && (first || time.Now().Before(until)); first = false {
			w.arrive(ctx, rec, product, -1, plan.Visit{Act: plan.Pays})
		}
	})
	if rec != nil {
		took := rec.holds().Latency
		d.took = max(took[judge.Reserve].P50, took[judge.Confirm].P50).Round(time.Millisecond)
		d.plan = chosen.Scaled(d.took)
		d.tell()
	}
}

// tell tells the workers a plan that has changed.
func (d *driver) tell() {
	for _, w := range d.workers {
		w.plan = d.plan
	}
}

// warmWorkers is how many clients warm up an open loop.
const warmWorkers = 8
