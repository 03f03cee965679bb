package handler

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/testkit"
)

// fakeShop has the real registry and answers as it is told; what it is not told succeeds.
type fakeShop struct {
	Reserving                  // nil: none of these tests holds units
	err       map[string]error // by mode: why it is unavailable
	deduct    func(context.Context, string, stock.Request) (stock.Receipt, error)
	setStock  func(id, units int64, segments int) error
	product   func(id int64) (shop.Product, error)
	ledger    func(id int64) (shop.Ledger, error)
	page      func(shop.Page) (shop.Ledger, error)
	adjust    func(id int64, at stock.Store, a ledger.Adjustment) (shop.Adjusted, error)
	tickets   func(id int64, after string) ([]ledger.TicketEnd, string, ledger.TicketLook, error)
	reconcile func(id int64, repair bool) (ledger.Reconciled, error)
	keepKeys  time.Duration
	// readLocked stands for the lock that is not got
	readLocked func(mode string, wait time.Duration) error
}

// refusing is a shop that refuses each deduction so.
func refusing(err error) *fakeShop {
	return &fakeShop{deduct: func(context.Context, string, stock.Request) (stock.Receipt, error) {
		return stock.Receipt{}, err
	}}
}

func (f *fakeShop) Adjust(_ context.Context, id int64, at stock.Store, a ledger.Adjustment) (shop.Adjusted, error) {
	return f.adjust(id, at, a)
}

func (f *fakeShop) Modes() []shop.Status {
	var all []shop.Status
	for _, m := range stock.Modes() {
		all = append(all, shop.Status{Mode: m, Err: f.err[m.Name]})
	}
	return all
}

func (f *fakeShop) Mode(name string) (shop.Status, error) {
	for _, s := range f.Modes() {
		if s.Mode.Name == name {
			return s, nil
		}
	}
	return shop.Status{}, stock.ErrUnknownMode
}

func (f *fakeShop) Deduct(ctx context.Context, mode string, req stock.Request) (stock.Receipt, error) {
	if err := req.Check(); err != nil { // as a shop does first
		return stock.Receipt{}, err
	}
	if f.deduct == nil {
		remaining := int64(41)
		return stock.Receipt{OrderID: "order-1", Remaining: &remaining, Fence: 7}, nil
	}
	return f.deduct(ctx, mode, req)
}

func (f *fakeShop) Ticket(context.Context, string, time.Duration) (ledger.TicketEnd, error) {
	return ledger.TicketEnd{}, stock.ErrNoTicket
}

func (f *fakeShop) Tickets(_ context.Context, product int64, after string) ([]ledger.TicketEnd, string,
	ledger.TicketLook, error) {
	return f.tickets(product, after)
}

func (f *fakeShop) Reconcile(_ context.Context, product int64, repair bool) (ledger.Reconciled, error) {
	return f.reconcile(product, repair)
}

func (f *fakeShop) KeepKeys() time.Duration { return f.keepKeys }

func (f *fakeShop) SetStock(_ context.Context, id, units int64, r ledger.Rules) error {
	if f.setStock == nil {
		return nil
	}
	return f.setStock(id, units, r.Segments)
}

func (f *fakeShop) Product(_ context.Context, id int64) (shop.Product, error) {
	if f.product == nil {
		return shop.Product{Stock: map[stock.Store]int64{stock.Redis: 5, stock.SQL: 6}, LeaseSeq: 3, Segments: []int64{2, 3}},
			nil
	}
	return f.product(id)
}

func (f *fakeShop) ReadLocked(ctx context.Context, mode string, _ int64, wait time.Duration,
	read func(context.Context) error) error {
	if f.readLocked != nil {
		return f.readLocked(mode, wait)
	}
	return read(ctx)
}

func (f *fakeShop) facts(id int64) (shop.Ledger, error) {
	if f.ledger == nil {
		return shop.Ledger{Facts: map[stock.Store]ledger.Facts{stock.Redis: {}, stock.SQL: {}}}, nil
	}
	return f.ledger(id)
}

func (f *fakeShop) Page(_ context.Context, id int64, p shop.Page) (shop.Ledger, error) {
	if f.page != nil {
		return f.page(p)
	}
	return f.facts(id)
}

func (f *fakeShop) Audit(_ context.Context, id int64, read func(stock.Store, *ledger.Snapshot) error) (shop.Ledger,
	error) {
	l, err := f.facts(id)
	for name, facts := range l.Facts {
		if err := read(name, &ledger.Snapshot{
			Facts:  facts,
			Orders: func(each func([]ledger.Order) error) error { return each(facts.Orders) },
			Keys:   func(each func([]ledger.KeyRow) error) error { return each(facts.Keys) },
		}); err != nil {
			return l, err
		}
	}
	return l, err
}

const adminToken = "let me in"

func newHandler(t testing.TB, shop Shop, change ...func(*Options)) *Handler {
	t.Helper()
	o := Options{Shop: shop, Replica: "2", AdminToken: adminToken, DefaultMode: "lease-seq"}
	for _, c := range change {
		c(&o)
	}
	h, err := New(o)
	testkit.Must(t, err)
	return h
}

// answer is a response that has been held against the OpenAPI document.
type answer struct {
	*http.Response
	body string
}

// ask sends a request; headers are name, value pairs. A request that is answered with 200 must be one that the document
// allows, and every answer one that it promises.
func ask(t testing.TB, h http.Handler, method, target, body string, headers ...string) answer {
	t.Helper()
	build := func() *http.Request {
		var r io.Reader
		if body != "" {
			r = strings.NewReader(body)
		}
		req := httptest.NewRequest(method, target, r)
		for i := 0; i < len(headers); i += 2 {
			req.Header.Add(headers[i], headers[i+1])
		}
		return req
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, build())
	a := answer{rec.Result(), rec.Body.String()}
	testkit.Is(t, a.Header.Get(api.HeaderReplica), "2", "%s %s: X-Replica", method, target)
	checkContract(t, canonical(build()), a)
	return a
}

var document, contract = func() (*openapi3.T, routers.Router) {
	doc, err := openapi3.NewLoader().LoadFromData(openAPIDocument)
	if err != nil {
		panic(err)
	}
	r, err := legacy.NewRouter(doc)
	if err != nil {
		panic(err)
	}
	return doc, r
}()

func checkContract(t testing.TB, req *http.Request, a answer) {
	t.Helper()
	req.URL.Scheme, req.URL.Host = "", "" // the document names no host
	route, params, err := contract.FindRoute(req)
	if err != nil { // an unknown path or method: all that is promised is a problem
		checkProblem(t, a)
		return
	}
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			AuthenticationFunc:    openapi3filter.NoopAuthenticationFunc,
			IncludeResponseStatus: true,
		},
	}
	if a.StatusCode == http.StatusOK {
		testkit.Is(t, openapi3filter.ValidateRequest(req.Context(), in), nil,
			"%s %s was served and is not in the document", req.Method, req.URL)
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.StatusCode, Header: a.Header, Options: in.Options,
		Body: io.NopCloser(strings.NewReader(a.body)),
	}
	testkit.Is(t, openapi3filter.ValidateResponse(req.Context(), out), nil,
		"%s %s: answer %d %s is not in the document", req.Method, req.URL, a.StatusCode, a.body)
	if a.StatusCode >= 400 {
		checkProblem(t, a)
	}
}

func checkProblem(t testing.TB, a answer) {
	t.Helper()
	testkit.Is(t, a.Header.Get("Content-Type"), api.ProblemType, "Content-Type")
	var v any
	decode(t, a.body, &v)
	testkit.Is(t, document.Components.Schemas["Problem"].Value.VisitJSON(v, openapi3.EnableJSONSchema2020()), nil,
		"%s is no problem", a.body)
	var p api.Problem
	decode(t, a.body, &p)
	f := api.Codes[p.Code]
	if p.Code == api.SoldOut && p.Happened == api.NoForNow { // of an adjustment
		f.Happened = p.Happened
	}
	if p.Status != a.StatusCode || f.Status != p.Status || f.Happened != p.Happened || f.Title != p.Title {
		t.Errorf("answer %d with %+v does not fit its code %+v", a.StatusCode, p, f)
	}
	if p.Type != "/problems/"+string(p.Code) {
		t.Errorf("type = %q for code %q", p.Type, p.Code)
	}
	retry := p.Happened == api.NoForNow || a.StatusCode == http.StatusServiceUnavailable
	if got := a.Header.Get("Retry-After"); (got == "1") != retry {
		t.Errorf("Retry-After = %q with %s", got, p.Code)
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	t.Parallel()
	good := Options{Shop: &fakeShop{}, Replica: "1", DefaultMode: "mutex"}
	for name, spoil := range map[string]func(*Options){
		"no shop":      func(o *Options) { o.Shop = nil },
		"no replica":   func(o *Options) { o.Replica = "" },
		"no default":   func(o *Options) { o.DefaultMode = "" },
		"bad default":  func(o *Options) { o.DefaultMode = "mutexx" },
		"used metrics": func(o *Options) { o.Registry = newHandler(t, &fakeShop{}).Registry },
	} {
		o := good
		spoil(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: New() = nil error", name)
		}
	}
	_, err := New(good)
	testkit.Is(t, err, nil, "New(good)")
}

func TestRouting(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{})
	for _, c := range []struct {
		method, path string
		status       int
		code         api.Code
		allow        string
	}{
		{"POST", "/deduct_stock/mutex", 200, "", ""},
		{"POST", "/deduct_stock/mutex/", 200, "", ""},
		{"POST", "/deduct_stock", 200, "", ""},
		{"POST", "/deduct_stock/", 200, "", ""},
		{"POST", "/deduct_stock//", 200, "", ""},
		{"GET", "/modes/", 200, "", ""},
		{"GET", "", 200, "", ""},
		{"POST", "/deduct_stock/nope", 404, api.UnknownMode, ""},
		{"POST", "/deduct_stock/MUTEX", 404, api.UnknownMode, ""},
		{"POST", "/deduct_stock/%00%ff", 404, api.UnknownMode, ""},
		{"POST", "/deduct_stock/a%2Fb", 404, api.NotFound, ""},
		{"POST", "/deduct_stock//mutex", 404, api.NotFound, ""},
		{"GET", "/modes/nope", 404, api.UnknownMode, ""},
		{"GET", "/nope", 404, api.NotFound, ""},
		{"GET", "/products", 404, api.NotFound, ""},
		{"GET", "/products/101/nope", 404, api.NotFound, ""},
		{"GET", "/problems/nope", 404, api.NotFound, ""},
		{"GET", "/products/abc", 400, api.InvalidRequest, ""},
		{"GET", "/products/0", 400, api.InvalidRequest, ""},
		{"GET", "/products/9223372036854775808/orders", 400, api.InvalidRequest, ""},
		{"GET", "/deduct_stock/mutex", 405, api.MethodNotAllowed, "POST"},
		{"GET", "/deduct_stock/", 405, api.MethodNotAllowed, "POST"},
		{"HEAD", "/deduct_stock", 405, api.MethodNotAllowed, "POST"},
		{"PATCH", "/products/101/stock", 405, api.MethodNotAllowed, "PUT"},
		{"DELETE", "/products/101", 405, api.MethodNotAllowed, "GET, HEAD"},
		{"POST", "/modes", 405, api.MethodNotAllowed, "GET, HEAD"},
		{"OPTIONS", "/modes/mutex", 405, api.MethodNotAllowed, "GET, HEAD"},
		{"BREW", "/", 405, api.MethodNotAllowed, "GET, HEAD"},
	} {
		a := ask(t, h, c.method, "http://shop"+c.path, "")
		if a.StatusCode != c.status || a.Header.Get("Allow") != c.allow || a.Header.Get("Location") != "" {
			t.Errorf("%s %q = %d, Allow %q, Location %q, want %d, %q, none", c.method, c.path, a.StatusCode,
				a.Header.Get("Allow"), a.Header.Get("Location"), c.status, c.allow)
		}
		if c.code != "" {
			if p := problem(t, a); p.Code != c.code || p.Instance == "" {
				t.Errorf("%s %q = %+v, want code %s and an instance", c.method, c.path, p, c.code)
			}
		}
	}
}

func TestIndexNamesEveryRoute(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{})
	a := ask(t, h, "GET", "/", "")
	for _, r := range h.engine.Routes() {
		path := openAPIPath(r.Path)
		if !strings.Contains(a.body, path) {
			t.Errorf("the index does not name %s", path)
		}
	}
}

// The index is read by people who copy its last line into a shell.
func TestIndexEchoesNoShell(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{})
	for host, want := range map[string]string{
		"shop.example:81": "shop.example:81", "[::1]:8080": "[::1]:8080", "127.0.0.1": "127.0.0.1",
		"a'b;$(id)": "localhost:8080", "a`id`": "localhost:8080", "x/y": "localhost:8080",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), "'http://"+want+"/deduct_stock/") {
			t.Errorf("Host %q: %q, want %s", host, w.Body, want)
		}
	}
}

func TestUnknownModeNamesTheNearest(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{})
	for _, path := range []string{"/deduct_stock/mutx", "/modes/mutx"} {
		method := map[bool]string{true: "POST", false: "GET"}[strings.HasPrefix(path, "/deduct")]
		if a := ask(t, h, method, path, ""); a.StatusCode != http.StatusNotFound ||
			!strings.Contains(problem(t, a).Detail, "did you mean mutex?") {
			t.Errorf("%s %s = %d %s, want it to name mutex", method, path, a.StatusCode, a.body)
		}
	}
	if a := ask(t, h, "GET", "/modes/"+strings.Repeat("x", 5000), ""); strings.Contains(a.body, "did you mean") {
		t.Errorf("a name like none = %s", a.body)
	}
}

func TestProblemsAreExplained(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{})
	for code, f := range api.Codes {
		a := ask(t, h, "GET", api.NewProblem(code, "", "").Type, "")
		var e explanation
		decode(t, a.body, &e)
		if a.StatusCode != http.StatusOK || e.Code != code || e.Status != f.Status || e.Text.En == "" || e.Text.Zh == "" {
			t.Errorf("GET of the type of %s = %d %s", code, a.StatusCode, a.body)
		}
	}
	if len(explanations) != len(api.Codes) {
		t.Errorf("%d explanations for %d codes", len(explanations), len(api.Codes))
	}
}
