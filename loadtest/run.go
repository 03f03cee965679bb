package loadtest

import (
	"context"
	"net/url"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/loadtest/follow"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
	"lastitem/target"
)

// Run runs the plan, with its defaults, against one mode of the service behind c, and judges the result. It sets the
// stock of every product, warms up on a separate product, sends the load, waits for the last answers and for unknown
// outcomes, and reads the ledgers. progress may be nil; it is called by one goroutine at a time.
//
// When ctx ends during the load, Run sends no more requests, waits for those in flight, at most for Plan.Timeout,
// judges the result and marks it Partial, without an error. An error means that there is no result: the plan does not
// fit the mode, the service cannot be reached, or ctx ended before the load began.
func Run(ctx context.Context, c *Control, mode api.Mode, p plan.Plan, progress func(Progress)) (Result, error) {
	p = p.WithDefaults()
	if err := plan.Fits(mode, p); err != nil {
		return Result{}, err
	}
	return run(ctx, c.newService(p, mode), p, progress)
}

// run runs a plan, with its defaults and checked, against a service.
func run(ctx context.Context, s service, p plan.Plan, progress func(Progress)) (Result, error) {
	phase := phases(Progress{Mode: s.mode.Name, Plan: p.Name}, progress)
	phase(Resetting)
	if err := s.ready(ctx, &p); err != nil {
		return Result{}, err
	}
	if s.buyers != nil {
		phase(Arranging)
		var err error
		if s.script.visit, err = s.buyers(ctx, p); err != nil {
			return Result{}, err
		}
	}
	address, err := url.Parse(s.address)
	if err != nil { // it has been parsed once
		return Result{}, err
	}
	loading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if s.foreign {
		s.script.note = hopeful(stop, s.script.note)
	}
	d, err := newDriver(p, client.Target{URL: address, Insecure: s.insecure, Headers: s.buyers != nil}, s.script,
		!s.mode.Baseline)
	if err != nil {
		return Result{}, err
	}
	d.lang = s.lang
	defer d.close()
	if p.Warmup > 0 {
		phase(Warming)
		if err := s.warm(ctx, d); err != nil {
			return Result{}, err
		}
	}
	res := Result{Mode: s.mode.Name, Foreign: s.foreign, Store: p.StoreOf(s.mode), Repetition: 1, Engine: p.Engine,
		Replicas: s.replicas, Plan: d.plan}
	followers := d.follow(s)
	if err := d.load(loading, &res, phase(Driving), progress); err != nil {
		followers.Stop(0)
		return Result{}, err
	}
	if res.Partial && ctx.Err() == nil {
		return Result{}, context.Cause(loading)
	}
	if s.mode.Baseline { // it has no stock to judge, only its speed
		res.Finding = judge.Unclaimed
		return res, nil
	}
	// From here on an interruption does not stop the run: the sent requests must be judged.
	ctx = context.WithoutCancel(ctx)
	phase(Settling)
	if told := followers.Stop(target.DrainPatience); p.Follow > 0 {
		res.Tickets = ticketFigures(told, &res)
		res.Series = d.rec.series.list()
	}
	if p.Reserving.On() {
		books := settleHeld(ctx, s, &res)
		phase(Judging)
		judgeHeld(&res, s, books)
		return res, nil
	}
	after, cancel := context.WithTimeout(ctx, afterwards(s, &res))
	defer cancel()
	books := settleAll(after, s, &res)
	phase(Judging)
	judgeAll(&res, s, books)
	return res, nil
}

// load sends the plan and writes the measurements into res.
func (d *driver) load(ctx context.Context, res *Result, base Progress, progress func(Progress)) error {
	// No request is in flight now, so any CPU time is used by other programs.
	quiet := cpuOver(quietWindow)
	if err := ctx.Err(); err != nil {
		return plan.Fault(text.Of("interrupted before the load: %w"), err)
	}
	stop := d.watch(base, progress)
	before, own, began := readCPU(), ownCPU(), time.Now()
	d.drive(ctx)              // returns when the last answer is there, also after an interruption
	res.Started = d.rec.start // after the connections of a burst were opened: the times of the history count from here
	during := readCPU().since(before)
	res.GeneratorCores = (ownCPU() - own).Seconds() / time.Since(began).Seconds()
	res.BusyCores = during.cores(during.busy)
	stop()
	d.rec.fill(res)
	if d.script.endings != nil {
		res.Cancels = d.rec.holds().History
	}
	res.Dropped, res.Extra = int(d.dropped.Load()), int(d.extra.Load())
	if d.plan.Reserving.On() {
		res.Holds = d.rec.holds()
		res.Holds.Buyers, res.Holds.SalesPerSecond = int(d.arrived.Load()), res.AcceptedPerSecond
		res.Holds.Took, res.Holds.Reserving = d.took, d.plan.Reserving
	}
	res.Partial = ctx.Err() != nil
	res.Discounted = discounted(res, d.lang)
	res.Noisy = noise(res, quiet, during, d.lang)
	return nil
}

// follow begins to follow the tickets that the load wins, if the plan wants it.
func (d *driver) follow(s service) *follow.Followers {
	f := follow.New(d.plan.Follow, s.ticket, d.rec.now, d.rec.series.complete)
	for _, w := range d.workers {
		if d.plan.Follow > 0 {
			w.won = f.Add
		}
	}
	return f
}

// phases returns a function that reports the start of a phase, and returns the state for the reports within it.
func phases(base Progress, progress func(Progress)) func(Phase) Progress {
	return func(p Phase) Progress {
		base.Phase = p
		if progress != nil {
			progress(base)
		}
		return base
	}
}
