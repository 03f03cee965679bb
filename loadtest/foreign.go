package loadtest

import (
	"context"
	"fmt"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
	"lastitem/target"
)

// Foreign is a service that is not ours.
type Foreign struct {
	*target.Remote
	Name string // stands for the mode in the result
	Lang string // of the judge's sentences: "zh", else English
}

// RunForeign runs the plan against a service that is not ours, against no claim, since it makes none. It judges the run
// from what the clients saw and from the stock before and after or, where the orders can be read, from these. It sets
// the stock before, by the resets of the description; without them Plan.Stock is the stock that it finds. It ignores
// Store, Segments and Wait, and sends no warm-up, because that would sell units. Answers of which the first are all
// failures end the run with an error that has the first of them. Otherwise it is like [Run].
func RunForeign(ctx context.Context, f Foreign, p plan.Plan, progress func(Progress)) (Result, error) {
	p = p.WithDefaults()
	p.Warmup, p.Store = 0, "" // the result describes the run as it was made
	if err := f.Validate(p); err != nil {
		return Result{}, err
	}
	res, err := run(ctx, f.newService(map[int64]int64{}), p, progress)
	for _, v := range res.Verdicts {
		if v.Oversold > 0 && v.Answers[judge.Refused] == 0 {
			res.Why = append(res.Why, text.Of("no request was refused although the stock ran out: does the service answer "+
				"everything with the same status? --ok-body and --refused-body tell such answers apart").In(f.Lang))
		}
	}
	return res, err
}

// newService returns the service for a run, which notes in before the stock of each product.
func (f Foreign) newService(before map[int64]int64) service {
	call, _ := f.Caller() // At has called it once
	read := func(_ judge.ReservationKind, r target.Reply) target.Answer {
		said := f.Read(r)
		if said.Outcome == judge.Refused {
			said.Code = client.CodeRefused
		}
		return said
	}
	s := service{
		mode: api.Mode{Name: f.Name}, foreign: true, address: f.URL, lang: f.Lang,
		script: script{call: call, read: read, keyed: f.HasKey()},
		ready:  func(ctx context.Context, p *plan.Plan) error { return f.ready(ctx, p, before) },
		judge: func(in judge.Input, product int64, b bookkeeping) judge.Report {
			return f.judge(in, before[product], b)
		},
	}
	if f.Stock != (target.Source{}) {
		s.ledger = func(ctx context.Context, product int64) (*api.Ledger, error) {
			return f.Ledger(ctx, product, before[product])
		}
	}
	return s
}

// Ready resets the stock of every product of the plan, and reads it. An error: a run would prove nothing. Without
// resets it sets the stock of the plan to what it has read.
func (f Foreign) Ready(ctx context.Context, p *plan.Plan) error {
	return f.ready(ctx, p, map[int64]int64{})
}

// ready is Ready, and notes the stock of each product.
func (f Foreign) ready(ctx context.Context, p *plan.Plan, before map[int64]int64) error {
	for i := range p.Products {
		product := p.Product + int64(i)
		l, err := f.Prepare(ctx, product, p.Stock)
		if err != nil {
			return fmt.Errorf("loadtest: %w", err)
		}
		if l == nil {
			continue
		}
		before[product] = l.Stock[target.ForeignStore]
		if stock := before[product]; stock < p.Quantity {
			return plan.Fault(text.Of("the stock of product %d is %d, a run before may have sold it: set it again, or give "+
				"--reset-url, --reset-sql or --reset-redis, which set it before each run"), product, stock)
		}
		if !f.Resets() {
			p.Stock = before[product]
		}
	}
	return nil
}

// Validate returns the mistakes in the plan for the service; nil if there are none.
func (f Foreign) Validate(p plan.Plan) error {
	if p.Retry > 0 && !f.HasKey() && !p.RetryUnsafe {
		return plan.Fault(text.Of("--retry needs %s in --request, --key-header, or --retry-unsafe: a repetition may "+
			"deduct twice"), "{{key}}")
	}
	return p.Validate()
}

// judge judges a product that had so many units before the run.
func (f Foreign) judge(in judge.Input, before int64, b bookkeeping) judge.Report {
	in = judge.Input{History: in.History, Lang: in.Lang, Stopped: in.Stopped, Partial: in.Partial,
		WantSoldOut: in.WantSoldOut}
	var unread error
	switch {
	case b.err != nil:
		unread = text.Of("the stock after the run could not be read: %w").Errorf(b.err)
	case b.ledger == nil:
		unread = text.Of("the stock was not read: give --stock-url, --stock-sql or --stock-redis").Errorf()
	case f.Orders != (target.Source{}):
		in.Store, in.Ledger, in.History = target.ForeignStore, b.ledger, target.Named(in.History, b.ledger.Orders)
		return judge.Judge(in)
	default:
		return judge.Foreign(before, b.ledger.Stock[target.ForeignStore], in)
	}
	return judge.Report{Verdict: judge.Inconclusive, Lang: f.Lang, Missing: []string{text.ErrorIn(f.Lang, unread)}}
}
