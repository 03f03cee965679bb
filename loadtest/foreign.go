package loadtest

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/say/redact"
	"lastitem/say/text"
)

// Foreign describes a service that is not ours: how to request a product, what an answer means, and how to set and read
// the stock.
type Foreign struct {
	// Name stands for the mode in the result.
	Name string
	// URL is the address of the service, http or https.
	URL string
	// Request is "METHOD /path" or "METHOD /path body", Headers are "Name: value"; in both {{product}}, {{quantity}}
	// and {{key}} are replaced. Each request has a new key, and its repetitions have the same one. KeyHeader is a
	// header for the key; "" = none.
	Request   string
	Headers   []string
	KeyHeader string
	// Read classifies an answer, and takes the order's id from it; only its Outcome and OrderID count.
	Read func(status int, body []byte) judge.Op
	// Reset sets the stock of a product and deletes its orders; nil = a run begins with the stock that there is.
	Reset func(ctx context.Context, product, stock int64) error
	// Ledger reads the stock of a product that had initial units; nil = it cannot be read, and the verdict is
	// INCONCLUSIVE.
	Ledger func(ctx context.Context, product, initial int64) (*api.Ledger, error)
	// Named completes the answers by the orders of the ledger; nil = the ledger has no orders.
	Named func(ops []judge.Op, rows []api.Order) []judge.Op
	// Lang is the language of the judge's sentences: "zh", else English.
	Lang string
}

// Placeholders of a foreign request.
const (
	holdProduct  = "{{product}}"
	holdQuantity = "{{quantity}}"
	holdKey      = "{{key}}"
)

// RunForeign runs the plan against a service that is not ours, against no claim, since it makes none. It judges the run
// from what the clients saw and from the stock before and after or, where the orders can be read, from these. It sets
// the stock before, by Reset; without it Plan.Stock is the stock that it finds. It ignores Store, Segments and Wait,
// and sends no warm-up, because that would sell units. Answers of which the first are all failures end the run with an
// error that has the first of them. Otherwise it is like [Run].
func RunForeign(ctx context.Context, f Foreign, plan Plan, progress func(Progress)) (Result, error) {
	plan = plan.WithDefaults()
	plan.Warmup = 0 // the result describes the run as it was made
	base, script, err := f.prepare(plan)
	if err != nil {
		return Result{}, err
	}
	phase := phases(Progress{Mode: f.Name, Plan: plan.Name}, progress)
	phase(Resetting)
	before, err := f.ready(ctx, &plan)
	if err != nil {
		return Result{}, err
	}
	loading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	script.classify = hopeful(script.classify, stop)
	d, err := newDriver(plan, client.Target{URL: base, Opaque: true}, script, true)
	if err != nil {
		return Result{}, err
	}
	d.lang = f.Lang
	defer d.close()
	res := Result{Mode: f.Name, Foreign: true, Repetition: 1, Engine: plan.Engine, Plan: plan, Finding: judge.Unclaimed}
	if err := d.load(loading, &res, phase(Driving), progress); err != nil {
		return Result{}, err
	}
	if res.Partial && ctx.Err() == nil {
		return Result{}, context.Cause(loading)
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards(&res))
	defer cancel()
	phase(Settling)
	now := f.settleAll(after, &res, before)
	phase(Judging)
	judgeForeign(&res, f, before, now)
	return res, nil
}

// hopeless is after how many failures a load without any other answer is ended.
const hopeless = 50

// hopeful is classify that stops a load of which every answer is a failure: it proves nothing, and the service may be
// in trouble.
func hopeful(classify func(*client.Answer) client.Reading, stop func(error)) func(*client.Answer) client.Reading {
	var failed atomic.Int64
	var other atomic.Bool
	var first atomic.Pointer[string]
	return func(a *client.Answer) client.Reading {
		read := classify(a)
		switch {
		case read.Kind != client.Failed:
			other.Store(true)
		case !other.Load():
			said := strings.TrimSpace(fmt.Sprintf("%s %.300s", read.Code, a.Body))
			first.CompareAndSwap(nil, &said)
			if n := failed.Add(1); n >= hopeless {
				stop(fault(text.Of("ended after %d failures without another answer; the first: %s"), n, *first.Load()))
			}
		}
		return read
	}
}

// Ready resets the stock of every product of the plan, and reads it. An error: a run would prove nothing. Without Reset
// it sets the stock of the plan to what it has read.
func (f Foreign) Ready(ctx context.Context, p *Plan) error {
	_, err := f.ready(ctx, p)
	return err
}

func (f Foreign) ready(ctx context.Context, p *Plan) (map[int64]level, error) {
	levels := map[int64]level{}
	for i := range p.Products {
		product := p.Product + int64(i)
		if f.Reset != nil {
			if err := f.Reset(ctx, product, p.Stock); err != nil {
				return nil, fault(text.Of("the stock of product %d cannot be reset: %w"), product, err)
			}
		}
		if f.Ledger == nil {
			continue
		}
		l, err := f.Ledger(ctx, product, p.Stock)
		if err != nil {
			return nil, fault(text.Of("the stock of product %d cannot be read: %w"), product, err)
		}
		levels[product] = levelOf(l, nil)
		switch stock := levels[product].stock; {
		case f.Reset != nil && stock != p.Stock:
			return nil, fault(text.Of("the reset of product %d left a stock of %d, want %d"), product, stock, p.Stock)
		case len(l.Orders) > 0:
			return nil, fault(text.Of("product %d has %d orders before the run: delete them, by --reset-url, "+
				"--reset-sql or --reset-redis"),
				product, len(l.Orders))
		case stock < p.Quantity:
			return nil, fault(text.Of("the stock of product %d is %d, a run before may have sold it: set it again, or give "+
				"--reset-url, --reset-sql or --reset-redis, which set it before each run"), product, stock)
		case f.Reset == nil:
			p.Stock = stock
		}
	}
	return levels, nil
}

// Validate returns the mistakes in the description of the service, or in the plan for it; nil if there are none.
func (f Foreign) Validate(p Plan) error {
	_, _, err := f.prepare(p)
	return err
}

// prepare checks the plan and the template, and makes the script.
func (f Foreign) prepare(p Plan) (*url.URL, script, error) {
	if err := p.Validate(); err != nil {
		return nil, script{}, err
	}
	base, err := url.Parse(f.URL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, script{}, fault(text.Of("--url must be a URL like http://127.0.0.1:8080, not %q"), redact.Address(f.URL))
	}
	s, err := f.script(p)
	return base, s, err
}

// script parses the template.
func (f Foreign) script(p Plan) (script, error) {
	// A path holds no blank, so the first two end the method and the path; the body may hold any.
	method, rest, _ := strings.Cut(strings.TrimSpace(f.Request), " ")
	path, body, _ := strings.Cut(strings.TrimSpace(rest), " ")
	body = strings.TrimSpace(body)
	if method == "" || strings.ToUpper(method) != method || !strings.HasPrefix(path, "/") {
		return script{}, fault(text.Of(`--request must be like 'POST /path {"id":{{product}}}', not %q`), f.Request)
	}
	keyed := f.KeyHeader != "" || strings.Contains(f.Request+strings.Join(f.Headers, ""), holdKey)
	// The body is either JSON or a form; a header may say otherwise.
	contentType := "application/x-www-form-urlencoded"
	if strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[") {
		contentType = "application/json"
	}
	headers := make([][2]string, 0, len(f.Headers)+1)
	for _, h := range f.Headers {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(h, "\r\n") {
			return script{}, fault(text.Of("--header %q: want 'Name: value'"), h)
		}
		if strings.EqualFold(name, "Content-Type") {
			contentType = strings.TrimSpace(value)
			continue
		}
		headers = append(headers, [2]string{name, strings.TrimSpace(value)})
	}
	if f.KeyHeader != "" {
		headers = append(headers, [2]string{f.KeyHeader, holdKey})
	}
	if p.Retry > 0 && !keyed && !p.RetryUnsafe {
		return script{}, fault(text.Of("--retry needs %s in --request, --key-header, or --retry-unsafe: a repetition may "+
			"deduct twice"), holdKey)
	}
	return script{
		keyed:    keyed,
		classify: client.ByOutcome(f.Read),
		fill: func(c *client.Call, product int64, key, _ string) {
			fill := strings.NewReplacer(holdProduct, strconv.FormatInt(product, 10),
				holdQuantity, strconv.FormatInt(p.Quantity, 10), holdKey, key)
			c.Method, c.Path, c.ContentType, c.Body = method, fill.Replace(path), contentType, []byte(fill.Replace(body))
			for _, h := range headers {
				c.Headers = append(c.Headers, [2]string{h[0], fill.Replace(h[1])})
			}
		},
	}, nil
}

// judgeForeign judges each product. There is no claim to compare the reports with.
func judgeForeign(res *Result, f Foreign, before, after map[int64]level) {
	histories := map[int64][]judge.Op{}
	for _, op := range res.History {
		histories[op.ProductID] = append(histories[op.ProductID], op)
	}
	for i := range res.Plan.Products {
		product := res.Plan.Product + int64(i)
		if histories[product] == nil && res.Plan.Products > 1 {
			continue // not requested
		}
		in := judge.Input{
			History: histories[product], Lang: f.Lang, Stopped: res.Partial, Partial: res.Partial, WantSoldOut: wantSoldOut(res),
		}
		report := judge.Report{Verdict: judge.Inconclusive, Lang: f.Lang}
		was, is := before[product], after[product]
		missing := slices.Concat(was.missing(text.Of("before"), f.Lang), is.missing(text.Of("after"), f.Lang))
		switch {
		case len(missing) > 0:
			report.Missing = missing
		case f.Named != nil:
			in.Store, in.Ledger, in.History = is.store, is.ledger, f.Named(in.History, is.ledger.Orders)
			report = judge.Judge(in)
		default:
			report = judge.JudgeForeign(was.stock, is.stock, in)
		}
		if is.early && len(missing) == 0 {
			tooEarly(&report)
		}
		report.Mode, report.ProductID = res.Mode, product
		res.Verdicts = append(res.Verdicts, report)
		if report.Oversold > 0 && report.Answers[judge.Refused] == 0 {
			res.Why = append(res.Why, text.Of("no request was refused although the stock ran out: does the service answer "+
				"everything with the same status? --ok-body and --refused-body tell such answers apart").In(f.Lang))
		}
	}
	if finding, unmet := res.Unmet(); unmet != "" {
		res.Why, res.Finding = append(res.Why, unmet), finding
	}
}

// level is a reading of the stock. early says that a request without an answer could still change it.
type level struct {
	stock  int64
	store  api.Store
	ledger *api.Ledger // nil = not read
	err    error
	early  bool
}

// levelOf returns what a ledger of one store says.
func levelOf(l *api.Ledger, err error) level {
	if l != nil {
		for store, stock := range l.Stock {
			return level{stock: stock, store: store, ledger: l, err: err}
		}
	}
	return level{err: err}
}

// missing returns why there is no reading; nil if there is one.
func (l level) missing(when text.Text, lang string) []string {
	var why error
	switch {
	case l.err != nil:
		why = text.Of("the stock %s the run could not be read: %w").Errorf(when, l.err)
	case l.ledger == nil:
		why = text.Of("the stock %s the run was not read: give --stock-url, --stock-sql or --stock-redis").Errorf(when)
	default:
		return nil
	}
	return []string{text.ErrorIn(lang, why)}
}

// settleAll reads every product of the run; if outcomes are unknown, it waits until the stock has stopped changing.
// Nobody knows how long such a service goes on with a request after its client has left; settleServer is as good a
// guess as any.
func (f Foreign) settleAll(ctx context.Context, res *Result, before map[int64]level) map[int64]level {
	if f.Ledger == nil {
		return nil
	}
	left := func(op judge.Op) int64 { return op.Return }
	return atOnce(asked(res, left), func(product, last int64) level {
		read := func(ctx context.Context) (*api.Ledger, error) { return f.Ledger(ctx, product, before[product].stock) }
		if last < 0 {
			return levelOf(read(ctx))
		}
		l, late, err := settle(ctx, read, sameLedger, res.Started.Add(time.Duration(last)+settleServer))
		now := levelOf(l, err)
		now.early = !late
		return now
	})
}
