package loadtest

import (
	"context"
	"net/url"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/say/text"
	"lastitem/target"
)

// Control is a running lastitem, and what a judge must know of it.
type Control struct {
	*target.Shop
	// Replicas is how many processes are behind the address; 0 = not known. With one, the claim for threads is checked;
	// with more, the claim for replicas, and a run that a single replica served is vacuous. If it is not known, the number
	// of replicas that answered decides which claim is checked.
	Replicas int
	// Lang is the language of the judge's sentences: "zh", else English.
	Lang string
}

// NewControl returns the control of the service at an address: see [target.NewShop].
func NewControl(address, token string) (*Control, error) {
	shop, err := target.NewShop(address, token)
	return &Control{Shop: shop}, err
}

// service is what a run puts its load on: a mode of lastitem, or somebody's own service.
type service struct {
	mode     api.Mode // of somebody's own only its name
	foreign  bool
	address  string
	replicas int
	lang     string
	script   script
	// ready sets the stock of every product of the plan. Where it cannot, it sets the plan's stock to what there is.
	ready func(ctx context.Context, p *Plan) error
	warm  func(ctx context.Context, d *driver) error
	// ledger reads the ledger of a product; nil = it cannot be read.
	ledger func(ctx context.Context, product int64) (*api.Ledger, error)
	// judge judges a product by what was read.
	judge func(in judge.Input, product int64, b bookkeeping) judge.Report
	// reservations reads those of a product.
	reservations func(ctx context.Context, product int64, store api.Store) (*api.Reservations, error)
}

// newService returns a mode of lastitem.
func (c *Control) newService(p Plan, m api.Mode) service {
	return service{
		mode: m, address: c.URL, replicas: c.Replicas, lang: c.Lang, script: c.script(p, m),
		ready:  func(ctx context.Context, p *Plan) error { return reset(ctx, c, m, *p) },
		warm:   func(ctx context.Context, d *driver) error { return warmUp(ctx, c, d, m) },
		ledger: c.Ledger,
		judge: func(in judge.Input, _ int64, b bookkeeping) judge.Report {
			report := judge.Judge(in)
			if b.err != nil {
				report.Missing = append(report.Missing, text.ErrorIn(c.Lang, b.err))
			}
			return report
		},
		reservations: c.Reservations,
	}
}

// script is how one mode is asked. The deductions that name no buyer are made once; a request only picks one.
func (c *Control) script(p Plan, m api.Mode) script {
	made := make([]target.Call, p.Products)
	for i := range made {
		made[i] = target.Ask{Mode: m.Name, Store: p.Store, Product: p.Product + int64(i), Quantity: p.Quantity,
			Wait: p.Wait}.Call()
	}
	return script{
		call: func(a target.Ask) target.Call {
			i := a.Product - p.Product
			if a.Kind != "" || a.Buyer != "" || i < 0 || i >= int64(len(made)) {
				return c.Call(a)
			}
			call := made[i]
			call.Key = a.Key
			return call
		},
		read: target.Read, keyed: p.Retry > 0 || m.KeyRequired, mode: m.Name, carts: m.Cart,
	}
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
