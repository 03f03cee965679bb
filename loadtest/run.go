package loadtest

import (
	"context"
	"net/url"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/say/text"
)

// Run runs the plan, with its defaults, against one mode of the service behind c, and judges the result. It sets the
// stock of every product, warms up on a separate product, sends the load, waits for the last answers and for unknown
// outcomes, and reads the ledgers. progress may be nil; it is called by one goroutine at a time.
//
// When ctx ends during the load, Run sends no more requests, waits for those in flight, at most for Plan.Timeout,
// judges the result and marks it Partial, without an error. An error means that there is no result: the plan does not
// fit the mode, the service cannot be reached, or ctx ended before the load began.
func Run(ctx context.Context, c *Control, mode api.Mode, plan Plan, progress func(Progress)) (Result, error) {
	plan = plan.WithDefaults()
	if err := fits(plan, mode); err != nil {
		return Result{}, err
	}
	return run(ctx, c.newService(plan, mode), plan, progress)
}

// run runs a plan, with its defaults and checked, against a service.
func run(ctx context.Context, s service, plan Plan, progress func(Progress)) (Result, error) {
	phase := phases(Progress{Mode: s.mode.Name, Plan: plan.Name}, progress)
	phase(Resetting)
	if err := s.ready(ctx, &plan); err != nil {
		return Result{}, err
	}
	address, err := url.Parse(s.address)
	if err != nil { // it has been parsed once
		return Result{}, err
	}
	loading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if s.foreign {
		s.script.note = hopeful(stop)
	}
	d, err := newDriver(plan, client.Target{URL: address}, s.script, !s.mode.Baseline)
	if err != nil {
		return Result{}, err
	}
	d.lang = s.lang
	defer d.close()
	if plan.Warmup > 0 {
		phase(Warming)
		if err := s.warm(ctx, d); err != nil {
			return Result{}, err
		}
	}
	res := Result{Mode: s.mode.Name, Foreign: s.foreign, Store: storeOf(plan, s.mode), Repetition: 1, Engine: plan.Engine,
		Replicas: s.replicas, Plan: d.plan}
	if err := d.load(loading, &res, phase(Driving), progress); err != nil {
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
	if plan.Holding.On() {
		books := settleHeld(ctx, s, &res)
		phase(Judging)
		judgeHeld(&res, s, books)
		return res, nil
	}
	after, cancel := context.WithTimeout(ctx, afterwards(&res))
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
		return fault(text.Of("interrupted before the load: %w"), err)
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
	res.Dropped, res.Extra = int(d.dropped.Load()), int(d.extra.Load())
	if d.plan.Holding.On() {
		res.Holds = d.rec.holds()
		res.Holds.Buyers, res.Holds.SalesPerSecond = int(d.arrived.Load()), res.AcceptedPerSecond
		res.Holds.Took, res.Holds.Holding = d.took, d.plan.Holding
	}
	res.Partial = ctx.Err() != nil
	res.Discounted = discounted(res, d.lang)
	res.Noisy = noise(res, quiet, during, d.lang)
	return nil
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

// fits returns why the plan cannot run against the mode; nil if it can.
func fits(p Plan, m api.Mode) error {
	if err := p.Validate(); err != nil {
		return err
	}
	switch {
	case p.Holding.On() && !m.Reserves:
		return fault(text.Of("mode %s does not reserve: leave out --plan reserve"), m.Name)
	case !p.Holding.On() && m.Reserves:
		return fault(text.Of("mode %s reserves: use --plan reserve"), m.Name)
	}
	switch limit := p.Holding.PerBuyer > 0; {
	case limit && !m.PerBuyer && !m.Reserves:
		return fault(text.Of("mode %s knows no limit per buyer: leave out --per-buyer"), m.Name)
	case !limit && m.BreaksLimit():
		return fault(text.Of("mode %s breaks a limit per buyer: use --plan limit"), m.Name)
	}
	// Every other mode answers 409 on a segmented product, so the run would only measure refusals.
	if p.Segments > 0 && m.Segments == 0 {
		return fault(text.Of("mode %s knows no segments: leave out --segments"), m.Name)
	}
	if p.Store != "" && !m.Baseline && m.Claims[p.Store] == nil {
		return fault(text.Of("mode %s does not keep its stock in %s: leave out --store"), m.Name, p.Store)
	}
	if p.Retry > 0 && !p.RetryUnsafe && !m.Baseline && !m.Reserves && !idempotent(m, storeOf(p, m)) {
		return fault(text.Of("mode %s keeps no idempotency keys, a retry may deduct twice: leave out --retry, or add "+
			"--retry-unsafe"), m.Name)
	}
	return nil
}

// idempotent reports whether the mode claims that a repetition with the same key does no harm.
func idempotent(m api.Mode, s api.Store) bool { return m.Claim(s, api.Retry) == api.Exact }

// storeOf returns the store of the plan's requests; "" for a baseline.
func storeOf(p Plan, m api.Mode) api.Store {
	if p.Store != "" || len(m.Stores) == 0 {
		return p.Store
	}
	return m.Stores[0]
}
