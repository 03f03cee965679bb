package loadtest

import "time"

// Phase is the current phase of a run.
type Phase string

// The phases of a run, in their order.
const (
	Resetting Phase = "reset"   // setting the stock
	Arranging Phase = "arrange" // preparing the buyers of somebody's service
	Warming   Phase = "warmup"  // sending requests that do not count
	Driving   Phase = "run"     // sending the plan, and waiting for the last answers
	Settling  Phase = "settle"  // waiting until every unknown outcome has happened or can no longer happen
	Judging   Phase = "judge"
)

// Progress is the state of a run in flight. It is reported at the start of each phase and several times a second while
// the load runs, never by two goroutines at once.
type Progress struct {
	Mode    string
	Plan    string // its name
	Phase   Phase
	Elapsed time.Duration // of the load
	// Done is the share of the plan that has been sent, 0 to 1.
	Done float64

	Accepted int64
	Refused  int64
	Failed   int64
	Dropped  int64
	InFlight int64
}

// progressEvery is how often the progress of the load is reported.
const progressEvery = 200 * time.Millisecond

// watch reports the driver's progress until the returned function is called, which waits for the last report.
func (d *driver) watch(base Progress, report func(Progress)) (stop func()) {
	if report == nil {
		return func() {}
	}
	ending, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ending:
				report(d.progress(base, time.Since(began)))
				return
			case <-tick.C:
				report(d.progress(base, time.Since(began)))
			}
		}
	}()
	return func() {
		close(ending)
		<-ended
	}
}

// progress completes base with the counters of the moment.
func (d *driver) progress(base Progress, elapsed time.Duration) Progress {
	kinds := d.rec.counts()
	base.Elapsed = elapsed
	base.Accepted, base.Refused, base.Failed = kinds[0], kinds[1], kinds[2]
	base.Dropped, base.InFlight = d.dropped.Load(), d.inFlight.Load()
	switch {
	case d.planned > 0:
		over := kinds[0] + kinds[1] + kinds[2]
		if d.plan.Reserving.On() { // a buyer sends several requests
			over = d.arrived.Load()
		}
		base.Done = float64(over+base.Dropped) / float64(d.planned)
	case d.plan.Duration > 0:
		base.Done = elapsed.Seconds() / d.plan.Duration.Seconds()
	}
	base.Done = min(base.Done, 1)
	return base
}
