package loadtest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-resty/resty/v2"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/loadtest/client"
)

// Foreign describes a service that is not ours: how to request a product, what the status of an answer means, and where to read the
// remaining stock.
type Foreign struct {
	// URL is the address of the service, http or https.
	URL string
	// Request is "METHOD /path" or "METHOD /path body", where {{product}}, {{quantity}} and {{key}} are replaced; each request has a new
	// key, and its repetitions have the same one.
	Request string
	// OKStatus lists the statuses for "sold", default 200; RefusedStatus those for "none left", default 409. Every other status is an
	// unknown outcome.
	OKStatus, RefusedStatus []int
	// StockURL returns the stock to a GET; {{product}} is replaced. It may be a path of URL. Without it, or if it cannot be read, the
	// verdict is INCONCLUSIVE.
	StockURL string
	// StockJSONPath leads to the number, as in "data.items[0].stock"; "" = the whole answer is the number.
	StockJSONPath string
	// Lang is the language of the judge's sentences: "zh", else English.
	Lang string
}

// Placeholders of a foreign request.
const (
	holdProduct  = "{{product}}"
	holdQuantity = "{{quantity}}"
	holdKey      = "{{key}}"
)

// foreignName stands for the mode in the result of a service that has none.
const foreignName = "foreign"

// RunForeign runs the plan against a service that is not ours. It judges the run by [audit.JudgeForeign], from what the clients saw and
// from the stock before and after, against the claim to be exact. It does not set the stock; do that before. It ignores Plan.Stock,
// Store, Segments and Wait, and sends no warm-up, because that would sell units. Otherwise it is like [Run].
func RunForeign(ctx context.Context, f Foreign, plan Plan, progress func(Progress)) (Result, error) {
	plan = plan.WithDefaults()
	plan.Warmup = 0 // the result describes the run as it was made
	f.OKStatus, f.RefusedStatus = orList(f.OKStatus, http.StatusOK), orList(f.RefusedStatus, http.StatusConflict)
	base, script, err := f.prepare(plan)
	if err != nil {
		return Result{}, err
	}
	d, err := newDriver(plan, client.Target{URL: base, Opaque: true}, script, true)
	if err != nil {
		return Result{}, err
	}
	d.lang = f.Lang
	defer d.close()
	shelf := newShelf(f, base)
	defer shelf.close()
	phase := phases(Progress{Mode: foreignName, Plan: plan.Name}, progress)
	phase(Resetting)
	before := shelf.readAll(ctx, plan)
	res := Result{Mode: foreignName, Repetition: 1, Engine: plan.Engine, Plan: plan}
	if err := d.load(ctx, &res, phase(Driving), progress); err != nil {
		return Result{}, err
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards(&res))
	defer cancel()
	phase(Settling)
	now := shelf.settleAll(after, &res)
	phase(Judging)
	judgeForeign(&res, before, now, f.Lang)
	return res, nil
}

// orList returns the list, or a list of only d if it is empty.
func orList(list []int, d int) []int {
	if len(list) == 0 {
		return []int{d}
	}
	return list
}

// Validate returns the mistakes in the description of the service, or in the plan for it; nil if there are none.
func (f Foreign) Validate(p Plan) error {
	f.OKStatus, f.RefusedStatus = orList(f.OKStatus, http.StatusOK), orList(f.RefusedStatus, http.StatusConflict)
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
		return nil, script{}, fault(api.Text{En: "--url must be a URL like http://127.0.0.1:8080, not %q", Zh: "--url 应为 http://127.0.0.1:8080 这样的地址，不能是 %q"}, f.URL)
	}
	for _, status := range f.OKStatus {
		if slices.Contains(f.RefusedStatus, status) {
			return nil, script{}, fault(api.Text{En: "status %d is in --ok-status and in --refused-status", Zh: "状态码 %d 同时在 --ok-status 和 --refused-status 里"}, status)
		}
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
		return script{}, fault(api.Text{En: `--request must be like 'POST /path {"id":{{product}}}', not %q`, Zh: `--request 应为 'POST /path {"id":{{product}}}' 这样，不能是 %q`}, f.Request)
	}
	keyed := strings.Contains(f.Request, holdKey)
	if p.Retry > 0 && !keyed && !p.RetryUnsafe {
		return script{}, fault(api.Text{En: "--retry needs %s in --request, or --retry-unsafe: a repetition may deduct twice", Zh: "--retry 要求 --request 里有 %s，或者加 --retry-unsafe：重试可能重复扣减"}, holdKey)
	}
	// The body is either JSON or a form; the template has no place for another content type.
	contentType := "application/x-www-form-urlencoded"
	if strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[") {
		contentType = "application/json"
	}
	return script{
		keyed:    keyed,
		classify: client.ByStatus(f.OKStatus, f.RefusedStatus),
		fill: func(c *client.Call, product int64, key string) {
			fill := strings.NewReplacer(holdProduct, strconv.FormatInt(product, 10),
				holdQuantity, strconv.FormatInt(p.Quantity, 10), holdKey, key)
			c.Method, c.Path, c.ContentType, c.Body = method, fill.Replace(path), contentType, []byte(fill.Replace(body))
		},
	}, nil
}

// judgeForeign judges each product, and compares the reports with the claim to be exact, which every such service makes implicitly.
func judgeForeign(res *Result, before, after map[int64]level, lang string) {
	histories := map[int64][]audit.Op{}
	for _, op := range res.History {
		histories[op.ProductID] = append(histories[op.ProductID], op)
	}
	for i := range res.Plan.Products {
		product := res.Plan.Product + int64(i)
		if histories[product] == nil && res.Plan.Products > 1 {
			continue // not requested
		}
		report := audit.Report{Verdict: audit.Inconclusive, Lang: lang}
		was, is := before[product], after[product]
		missing := slices.Concat(was.missing(api.Text{En: "before", Zh: "前"}, lang), is.missing(api.Text{En: "after", Zh: "后"}, lang))
		if len(missing) > 0 {
			report.Missing = missing
		} else {
			report = audit.JudgeForeign(was.stock, is.stock, histories[product], lang)
			if is.early {
				tooEarly(&report)
			}
		}
		report.Mode, report.ProductID = res.Mode, product
		res.Verdicts = append(res.Verdicts, report)
	}
	// A service that sells implicitly claims to be exact.
	res.Claim = api.Exact
	res.Finding, res.Why = hold(res.Verdicts, res.Claim)
	if _, unmet := res.Unmet(); unmet != "" {
		res.Why, res.Finding = append(res.Why, unmet), findingOf(*res)
	}
}

// level is a reading of the stock. early says that a request without an answer could still change it.
type level struct {
	stock int64
	err   error
	read  bool
	early bool
}

// missing returns why there is no reading; nil if there is one.
func (l level) missing(when api.Text, lang string) []string {
	var why error
	switch {
	case l.err != nil:
		why = api.Text{En: "the stock %s the run could not be read: %w", Zh: "运行%s的库存读取失败：%w"}.Errorf(when, l.err)
	case !l.read:
		why = api.Text{En: "the stock %s the run was not read", Zh: "运行%s的库存没有读取"}.Errorf(when)
	default:
		return nil
	}
	return []string{api.ErrorIn(lang, why)}
}

// shelf reads the stock of a foreign service.
type shelf struct {
	url, path string
	client    *resty.Client
}

// newShelf returns the reader of f's stock.
func newShelf(f Foreign, base *url.URL) *shelf {
	address := f.StockURL
	if strings.HasPrefix(address, "/") {
		address = strings.TrimRight(base.String(), "/") + address
	}
	return &shelf{url: address, path: f.StockJSONPath, client: resty.New().SetTimeout(10 * time.Second).SetResponseBodyLimit(1 << 20).SetLogger(client.Silent{})}
}

// close closes the idle connections.
func (s *shelf) close() { s.client.GetClient().CloseIdleConnections() }

// read reads the stock of one product.
func (s *shelf) read(ctx context.Context, product int64) (int64, error) {
	if s.url == "" {
		return 0, fault(api.Text{En: "--stock-url was not given", Zh: "没有给出 --stock-url"})
	}
	address := strings.ReplaceAll(s.url, holdProduct, strconv.FormatInt(product, 10))
	resp, err := s.client.R().SetContext(ctx).Get(address)
	if err != nil {
		return 0, fmt.Errorf("loadtest: %w", err)
	}
	if !resp.IsSuccess() {
		return 0, fault(api.Text{En: "GET %s: %s", Zh: "GET %s：%s"}, address, resp.Status())
	}
	return numberAt(resp.Body(), s.path)
}

// readAll reads the stock of every product of the plan.
func (s *shelf) readAll(ctx context.Context, p Plan) map[int64]level {
	levels := map[int64]level{}
	for i := range p.Products {
		product := p.Product + int64(i)
		stock, err := s.read(ctx, product)
		levels[product] = level{stock: stock, err: err, read: true}
	}
	return levels
}

// settleAll reads the stock of every product of the run; if outcomes are unknown, it waits until the stock has stopped changing. Nobody knows
// how long such a service goes on with a request after its client has left; settleServer is as good a guess as any.
func (s *shelf) settleAll(ctx context.Context, res *Result) map[int64]level {
	left := func(op audit.Op) int64 { return op.Return }
	return each(asked(res, left), func(product, last int64) level {
		read := func(ctx context.Context) (int64, error) { return s.read(ctx, product) }
		now := level{read: true}
		if last >= 0 {
			quiet := res.Started.Add(time.Duration(last) + settleServer)
			var late bool
			now.stock, late, now.err = settle(ctx, read, func(a, b int64) bool { return a == b }, quiet)
			now.early = !late
		} else {
			now.stock, now.err = read(ctx)
		}
		return now
	})
}
