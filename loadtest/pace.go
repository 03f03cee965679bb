package loadtest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"lastitem/loadtest/client"
)

// driver runs one plan: it owns the workers, and decides when each of them sends.
type driver struct {
	plan    Plan
	lang    string // of sentences
	script  script
	rec     *recorder
	engines []client.Engine
	workers []*worker // as many as may be in flight; the open loop starts them as needed

	dropped  atomic.Int64 // open loop: arrivals that found MaxInFlight requests in flight
	inFlight atomic.Int64 // sent and not answered; in an open loop also queued and not sent yet
	extra    atomic.Int64 // requests sent beyond the plan's, see [Plan].SellOut
	late     atomic.Int64 // when the first of them was sent, on the recorder's clock; 0 = none yet
	planned  int64        // how many arrivals there will be; 0 = the duration decides
}

// newDriver returns the driver of a plan with its defaults.
func newDriver(p Plan, target client.Target, script script, history bool) (*driver, error) {
	target.Timeout = p.Timeout
	target.Workers = p.VUs
	if p.Open() {
		target.Workers = p.MaxInFlight
	}
	engines, err := client.NewEngines(p.Engine, target)
	if err != nil {
		return nil, err
	}
	d := &driver{plan: p, script: script, rec: newRecorder(history), engines: engines}
	for i, engine := range engines {
		d.workers = append(d.workers, &worker{id: i, plan: p, script: script, engine: engine})
	}
	switch {
	case p.Open():
		d.planned = int64(NewSchedule(p).Len())
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
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	budget := d.budget()
	for _, w := range d.workers {
		ready.Add(1)
		done.Go(func() {
			pick := picker(d.plan, w.id)
			if d.plan.Burst {
				_ = w.engine.Connect() // Do tries again, and reports the error
			}
			ready.Done()
			<-start // all VUs begin at once
			for n := 0; ctx.Err() == nil && budget(n); n++ {
				d.inFlight.Add(1)
				w.order(ctx, d.rec, pick(), -1)
				d.inFlight.Add(-1)
			}
		})
	}
	ready.Wait()
	d.rec.begin()
	close(start)
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
		now-d.late.Load() < int64(p.SellOut) && now-since < int64(p.Wait+AnswerTime)
	if more {
		d.extra.Add(1)
	}
	return more
}

// arrival is one request of an open loop.
type arrival struct {
	at      time.Duration // when it is due, since the start
	product int64
}

// open runs an open loop. The pacer sleeps until the next arrival is due, and queues all arrivals that are due when it
// wakes: timers are late by up to a millisecond, and spinning would take a core from the servers. An arrival that finds
// MaxInFlight requests in flight is dropped and counted. It never waits: waiting would close the loop.
func (d *driver) open(ctx context.Context) {
	var done sync.WaitGroup
	// The queue has room for MaxInFlight requests, so that it never blocks the pacer.
	queue := make(chan arrival, d.plan.MaxInFlight)
	started := 0
	pick := picker(d.plan, 0)
	due := NewSchedule(d.plan)
	d.rec.begin()
	for at, ok := due.Next(); ok; at, ok = due.Next() {
		if !rest(ctx, at-time.Since(d.rec.start)) || d.stopped() {
			break
		}
		if d.inFlight.Load() >= int64(d.plan.MaxInFlight) {
			d.dropped.Add(1)
			continue
		}
		// All started workers are busy: start another. A slow service gets many workers, a fast one few, whose connections
		// stay warm.
		if int(d.inFlight.Add(1)) > started {
			w := d.workers[started]
			started++
			done.Go(func() { d.serve(ctx, w, queue) })
		}
		queue <- arrival{at: at, product: pick()}
	}
	close(queue)
	done.Wait()
}

// serve sends the queued requests; once ctx has ended, it only empties the queue.
func (d *driver) serve(ctx context.Context, w *worker, queue <-chan arrival) {
	for a := range queue {
		if ctx.Err() == nil {
			w.order(ctx, d.rec, a.product, int64(a.at))
		}
		d.inFlight.Add(-1)
	}
}

// warm sends requests for product until the plan's warm-up is over, at least one over every connection that the run
// begins with, and does not count them. An open loop warms only warmWorkers workers.
func (d *driver) warm(ctx context.Context, product int64) {
	if d.plan.Warmup <= 0 {
		return
	}
	workers := d.workers
	if d.plan.Open() {
		workers = workers[:min(len(workers), warmWorkers)]
	}
	until := time.Now().Add(d.plan.Warmup)
	var done sync.WaitGroup
	for _, w := range workers {
		done.Go(func() {
			for first := true; ctx.Err() == nil && (first || time.Now().Before(until)); first = false {
				w.order(ctx, nil, product, -1)
			}
		})
	}
	done.Wait()
}

// warmWorkers is how many clients warm up an open loop.
const warmWorkers = 8
