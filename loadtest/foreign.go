package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

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
	// Settle is for how long its books must not change before they count, where they do not add up at once; 0 = 10 s.
	Settle time.Duration
	// Watch is how long after the last answer they are read at least; 0 = until they add up.
	Watch time.Duration
}

// defaultSettle is how long a worker behind a queue may rest between two orders.
const defaultSettle = 10 * time.Second

func (f Foreign) settle() time.Duration { return cmp.Or(f.Settle, defaultSettle) }

// RunForeign runs the plan against a service that is not ours, against no claim, since it makes none. Before the first
// run of a product it tries one purchase of it, see [target.Remote.Try]. It judges the run from what the clients saw
// and from the stock before and after or, where the orders can be read, from these. It sets the stock before, by the
// resets of the description; without them Plan.Stock is the stock that it finds. It ignores Store, Segments and Wait,
// and sends no warm-up, because that would sell units. Answers of which the first are all failures end the run with an
// error that has the first of them. Otherwise it is like [Run].
func RunForeign(ctx context.Context, f Foreign, p plan.Plan, progress func(Progress)) (Result, error) {
	p = p.WithDefaults()
	p.Warmup, p.Store = 0, "" // the result describes the run as it was made
	if f.Buy != nil {
		p.Engine = plan.EngineResty // which keeps the headers of answers
	}
	if f.Arrange != nil {
		p.SellOut = 0 // no more buyers than were arranged
	}
	if err := f.Validate(p); err != nil {
		return Result{}, err
	}
	w := newWitness()
	res, err := run(ctx, f.newService(map[int64]int64{}, w), p, progress)
	if err != nil {
		return res, err
	}
	if n := inFlight(res.History); n > 0 {
		res.Why = append(res.Why, text.Of("at most %d [purchase was|purchases were] in flight at once").With(n).In(f.Lang))
	}
	if res.Rested > 0 {
		said := text.Of("the books were watched for %s after the last answer, and not longer: --settle 30s " +
			"watches longer")
		if f.Watch > 0 {
			said = text.Of("the books were watched for %s after the last answer")
		}
		res.Why = append(res.Why, said.With(res.Rested.Round(time.Millisecond)).In(f.Lang))
	}
	res.Why = append(res.Why, w.strange(res.History, f.Lang)...)
	return res, nil
}

// inFlight is the most purchases that were under way at the same time.
func inFlight(history []judge.Op) (most int) {
	type edge struct {
		at   int64
		step int
	}
	edges := make([]edge, 0, 2*len(history))
	for _, op := range history {
		edges = append(edges, edge{op.Call, 1}, edge{op.Return, -1})
	}
	// Of equal times the return comes first: one client that goes on at once does not meet itself.
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step)) })
	now := 0
	for _, e := range edges {
		now += e.step
		most = max(most, now)
	}
	return most
}

// newService returns the service for a run, which notes in before the stock of each product, and in w the answers.
func (f Foreign) newService(before map[int64]int64, w *witness) service {
	call, _ := f.Caller() // At has called it once
	w.promises = f.Promises
	read := func(_ judge.ReservationKind, r target.Reply) target.Answer {
		said := f.Read(r)
		if said.Outcome == judge.Refused {
			said.Code = client.CodeRefused
		}
		return said
	}
	s := service{
		mode: api.Mode{Name: f.Name}, foreign: true, address: f.URL, insecure: f.Insecure, lang: f.Lang, patience: f.settle(),
		watch: f.Watch, gone: f.Agreed,
		script: script{call: call, read: read, keyed: f.HasKey(), note: w.note, endings: endingsOf(f.Remote)},
		ready:  func(ctx context.Context, p *plan.Plan) error { return f.ready(ctx, p, before, w) },
		judge: func(in judge.Input, product int64, b bookkeeping) judge.Report {
			r := f.judge(in, before[product], b, w)
			r.Product = f.ProductName(product)
			return r
		},
	}
	if f.Buy != nil {
		s.script.base = f.URL
		s.buyers = func(ctx context.Context, p plan.Plan) (func(target.Ask) (target.Ask, bool), error) {
			return client.Buyers(ctx, f.Remote, p)
		}
	}
	if f.Stock != (target.Source{}) {
		s.ledger = func(ctx context.Context, product int64) (*api.Ledger, error) {
			return f.Ledger(ctx, product, before[product])
		}
	}
	return s
}

// Ready tries one purchase of every product of the plan that was not tried yet, resets its stock and reads it. An
// error: a run would prove nothing. Without resets it sets the stock of the plan to what it has read.
func (f Foreign) Ready(ctx context.Context, p *plan.Plan) error {
	return f.ready(ctx, p, map[int64]int64{}, newWitness())
}

// ready is Ready, and notes the stock of each product and the answer to its trial.
func (f Foreign) ready(ctx context.Context, p *plan.Plan, before map[int64]int64, w *witness) error {
	w.units, w.told = p.Quantity, f.Refused.Body != ""
	for i := range p.Products {
		product := p.Product + int64(i)
		if _, _, tried := f.Tried(product); !tried {
			if err := f.Try(ctx, product, p.Stock, p.Quantity, f.settle()); err != nil {
				return fmt.Errorf("loadtest: %w", err)
			}
		}
		sold, _, _ := f.Tried(product)
		w.tried(sold)
		l, err := f.Prepare(ctx, product, p.Stock)
		if err != nil {
			return fmt.Errorf("loadtest: %w", err)
		}
		if l == nil {
			continue
		}
		before[product] = l.Stock[target.ForeignStore]
		if stock := before[product]; stock < p.Quantity {
			return plan.Fault(text.Of("the stock of product %s is %d, a run before may have sold it: set it again, or give "+
				"--reset-url, --reset-sql or --reset-redis, which set it before each run"), f.ProductName(product), stock)
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
	if f.Arrange != nil && client.Arrivals(p.WithDefaults()) == 0 {
		return plan.Fault(text.Of("buyers are arranged before the load: say how many there are, by --requests, --loops or " +
			"--rate, and not by --duration alone"))
	}
	return p.Validate()
}

// judge judges a product that had so many units before the run.
func (f Foreign) judge(in judge.Input, before int64, b bookkeeping, w *witness) judge.Report {
	busy := target.InProgress(in.History)
	r := f.judgeBooks(in, before, b, w)
	if short := f.shortOf(b.ledger); short != "" && r.Verdict == judge.Exact {
		r.Missing = append(r.Missing, text.Of("a part of the stock fell below zero (%s), and the sum did not: if it is a "+
			"place where goods lie, more was sold there than there was").With(short).In(f.Lang))
		r = undecided(r)
	}
	if busy > 0 {
		r.Unchecked = append(r.Unchecked, target.SayBusyKeys.With(busy).In(f.Lang))
	}
	return r
}

// shortOf is a part of the stock that fell below zero, see [target.Remote.Short].
func (f Foreign) shortOf(l *api.Ledger) string {
	if l == nil {
		return ""
	}
	return f.Short(l.ProductID)
}

// keyed says whether rows have keys of requests.
func keyed(orders []api.Order) bool {
	return slices.ContainsFunc(orders, func(o api.Order) bool { return o.Key != "" })
}

// judgeBooks judges a product by what was read of it.
func (f Foreign) judgeBooks(in judge.Input, before int64, b bookkeeping, w *witness) judge.Report {
	in = judge.Input{History: in.History, Cancels: in.Cancels, Lang: in.Lang, Stopped: in.Stopped, Partial: in.Partial,
		WantSoldOut: in.WantSoldOut}
	var unread error
	switch {
	case b.err != nil:
		unread = text.Of("the books after the run could not be read: %w").Errorf(b.err)
	case b.ledger == nil:
		unread = text.Of("the stock was not read: give --stock-url, --stock-sql or --stock-redis").Errorf()
	case f.Orders != (target.Source{}):
		return f.judgeOrders(in, b, w)
	default:
		judged := func(in judge.Input) judge.Report {
			return judge.Foreign(before, b.ledger.Stock[target.ForeignStore], in)
		}
		open := w.promise(in.History, nil, in.Cancels)
		return excuse(w.doubt(judged(in), nil, open), readings(f.Remote, in, b, w), judged)
	}
	return judge.Report{Verdict: judge.Inconclusive, Lang: f.Lang, Missing: []string{text.ErrorIn(f.Lang, unread)}}
}

// judgeOrders judges a product by its orders.
func (f Foreign) judgeOrders(in judge.Input, b bookkeeping, w *witness) judge.Report {
	l := b.ledger
	asked := int64(0)
	for _, op := range in.History {
		asked = max(asked, op.Quantity)
	}
	_, quantity, _ := f.Tried(l.ProductID)
	if !quantity && asked > 1 { // every request is for as many
		for i := range l.Orders {
			l.Orders[i].Quantity = asked
		}
	}
	rows := len(l.Orders)
	linked := f.Link(l.ProductID, in.History, l.Orders, asked)
	unraced := f.unraced(in.Cancels)
	in.Cancels = renamed(in.Cancels, in.History, linked.Ops)
	orders, several := split(linked.Ops, linked.Orders, asked)
	l.Orders, in.History = orders, linked.Ops
	in.Store, in.Ledger, in.History = target.ForeignStore, l, target.Named(in.History, orders)
	open := w.promise(in.History, orders, in.Cancels)
	r := excuse(w.doubt(judgeRows(in), orders, open), readings(f.Remote, in, b, w), judgeRows)
	r.Orders = rows
	if !quantity {
		r.Unchecked = append(r.Unchecked, text.Of("how many units each order is about: the rows do not say it, and each "+
			"counts as the %d of its request").With(asked).In(f.Lang))
	}
	if several > 0 {
		r.Unchecked = append(r.Unchecked, text.Of("which units of %d [order|orders] each request got: [it is|they "+
			"are] about several requests, and the quantities count").With(several).In(f.Lang))
	}
	switch {
	case several > 0 || keyed(orders):
	case linked.Unnamed == 0:
		r.Unchecked = append(r.Unchecked, text.Of("whether two buyers were told each other's order: no member of the rows "+
			"has the key of its request, {{key}} in --request").In(f.Lang))
	default:
		r.Unchecked = append(r.Unchecked, text.Of("which order belongs to which answer: %d [answer names|answers name] none "+
			"of the orders that were read. --order-id gives the place of its id in an answer, and a member "+
			"idempotency_key the row's").With(linked.Unnamed).In(f.Lang))
	}
	r.Unchecked = append(r.Unchecked, unraced...)
	if linked.Unnamed > 0 && len(in.Cancels) > 0 {
		r.Missing = append(r.Missing, text.Of("which orders were cancelled: %d [answer names|answers name] none of the "+
			"orders that were read; sold: {order: PLACE} gives the place of its id").With(linked.Unnamed).In(f.Lang))
		oversold, lost := r.Oversold, r.LostUpdates
		if r = undecided(r); oversold+lost > 0 { // the orders that stand and the stock prove it, whatever their names
			r.Verdict, r.Found, r.Oversold, r.LostUpdates = judge.Broken, "O", oversold, lost
		}
	}
	if linked.Shared > 0 && r.Verdict == judge.Exact {
		r.Missing = append(r.Missing, text.Of("%d orders share with another the name by which the answers name them, such "+
			"as %s: may two orders have it, or were two buyers told one?").With(linked.Shared, linked.Member).In(f.Lang))
		r = undecided(r)
	}
	return r
}

// unraced says which of the endings that a load sends at once never met: a run of few sales does not come to them.
func (f Foreign) unraced(cancels []judge.ReservationOp) (all []string) {
	if f.Cancel != nil && !raced(cancels, judge.Cancel) {
		all = append(all, text.Of("whether two cancels at once put the units back twice: no order was cancelled twice at "+
			"once").In(f.Lang))
	}
	if f.Ship != nil && !raced(cancels, judge.Ship) {
		all = append(all, text.Of("whether an order can be shipped and cancelled: no order was shipped while it was "+
			"cancelled").In(f.Lang))
	}
	return all
}

// raced says whether a cancel and a request of a kind, about one order, were under way at the same time and were both
// answered as done or refused.
func raced(ops []judge.ReservationOp, kind judge.ReservationKind) bool {
	byOrder := map[string][]judge.ReservationOp{}
	for _, b := range ops {
		if b.Outcome != judge.OK && b.Outcome != judge.Refused {
			continue
		}
		for _, a := range byOrder[b.OrderID] {
			kinds := a.Kind == judge.Cancel && b.Kind == kind || a.Kind == kind && b.Kind == judge.Cancel
			if kinds && a.Call < b.Return && b.Call < a.Return {
				return true
			}
		}
		byOrder[b.OrderID] = append(byOrder[b.OrderID], b)
	}
	return false
}

// renamed are the requests that end orders, with the names that the orders now have in the answers.
func renamed(cancels []judge.ReservationOp, was, now []judge.Op) []judge.ReservationOp {
	names := map[string]string{}
	for i, op := range was {
		names[op.OrderID] = now[i].OrderID
	}
	all := slices.Clone(cancels)
	for i, op := range all {
		all[i].OrderID = names[op.OrderID]
	}
	return all
}
