package handler

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"lastitem/contract/api"
	"lastitem/internal/handler/events"
	"lastitem/internal/handler/input"
	"lastitem/internal/stock"
	"lastitem/say/text"
)

// unmatched labels what no route serves; the path itself would make a metric label per typing error.
const unmatched = "unmatched"

// New builds the handler. It fails where an option is missing or names something that is not there.
//
// gin's debug output is switched off on the way: its mode is a variable of the whole process, there is no local one.
func New(o Options) (*Handler, error) {
	if o.Shop == nil {
		return nil, errors.New("handler: no shop")
	}
	if o.Replica == "" {
		return nil, errors.New("handler: no name for this replica")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	o.AdminToken = strings.TrimSpace(o.AdminToken)
	a := &answers{log: o.Log, known: map[string]string{}, large: newGate(maxLarge, 0)}
	for _, s := range o.Shop.Modes() {
		a.known[s.Mode.Name] = s.Mode.Name
	}
	if _, ok := a.known[o.DefaultMode]; !ok {
		return nil, fmt.Errorf("handler: default mode: %w: %q", stock.ErrUnknownMode, o.DefaultMode)
	}
	m, err := newMetrics(o.Registry, o.PoolStats, o.Events, o.Steps)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		Options: o, answers: a, replica: []string{o.Replica}, metrics: m, scrapes: newGate(maxScrapes, 0),
		admin: admin{let: o.AdminToken != "", token: sha256.Sum256([]byte(o.AdminToken))},
		tap:   events.Tap{Replica: o.Replica, Steps: o.Steps, LeftOut: m.leftOut.Add},
		books: books{a, o.Shop, o.Shop, m, newGate(maxPages, pagePatience), newGate(maxAudits, auditPatience)},
	}
	h.door = door{o.Hosts, &h.admin}
	h.holds = reservations{a, o.Shop, m, &h.tap, h.books.pages}
	h.route()
	return h, nil
}

// route builds the engine from the table.
func (h *Handler) route() {
	if gin.IsDebugging() {
		gin.SetMode(gin.ReleaseMode)
	}
	h.engine = gin.New()
	h.engine.HandleMethodNotAllowed = true
	h.engine.RedirectTrailingSlash = false // a redirected POST may come back as a GET; ServeHTTP takes the slash away
	h.engine.ForwardedByClientIP = false
	for _, r := range h.table() {
		h.engine.Handle(r.method, ginPath(r.path), h.run(r.path, h.guarded(r)))
	}
	h.engine.NoRoute(h.run(unmatched, h.notFound))
	h.engine.NoMethod(h.run(unmatched, h.methodNotAllowed))
}

// ginPath writes the path of a route, /modes/{mode}, as gin does: /modes/:mode.
func ginPath(path string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(path)
}

// route is one line of the contract's table. The path is written as the contract and the OpenAPI document write it,
// "/modes/{mode}", and labels the metrics like that; does is its line in the index.
type route struct {
	method, path string
	serve        endpoint
	does         text.Text
}

// table lists the routes in the order in which the index shows them. It is the only list: the router, the index and the
// metric labels are made from it, and the OpenAPI document is tested against it.
func (h *Handler) table() []route {
	if h.Events {
		return append(h.contract(), route{http.MethodGet, "/events", h.events,
			text.Of("steps as they happen, for the console (admin)")})
	}
	return h.contract()
}

// contract lists the routes that every replica has, and that the OpenAPI document describes.
func (h *Handler) contract() []route {
	return []route{
		{http.MethodPost, "/deduct_stock/{mode}", h.deduct, text.Of("deduct stock by one mode")},
		{http.MethodPost, "/deduct_stock", h.deduct, text.Of("deduct stock by the default mode")},
		{http.MethodGet, "/tickets/{id}", h.ticket,
			text.Of("what became of a ticket; waits up to wait_ms while it is queued")},
		{http.MethodPost, "/reserve_stock/{mode}", h.holds.reserve, text.Of("hold units for a buyer by one mode")},
		{http.MethodGet, "/reservations/{id}", h.bare(h.holds.showReservation), text.Of("one reservation")},
		{http.MethodPost, "/reservations/{id}/confirm", h.holds.confirm, text.Of("paid: make an order of a reservation")},
		{http.MethodPost, "/reservations/{id}/extend", h.holds.extend, text.Of("move the deadline of a reservation, once")},
		{http.MethodPost, "/reservations/{id}/cancel", h.holds.cancel, text.Of("give the units of a reservation back")},
		{http.MethodGet, "/modes", h.bare(h.listModes), text.Of("every mode, with what it claims")},
		{http.MethodGet, "/modes/{mode}", h.bare(h.showMode), text.Of("one mode, with its essay")},
		{http.MethodGet, "/products/{id}", h.product, text.Of("stock in every store")},
		{http.MethodPut, "/products/{id}/stock", h.setStock, text.Of("set the stock: a run starts here (admin)")},
		{http.MethodPost, "/products/{id}/adjust", h.adjust, text.Of("add units while it is sold, or take free ones " +
			"(admin)")},
		{http.MethodPost, "/products/{id}/reconcile", h.books.reconcile, text.Of("compare Redis with SQL where tickets " +
			"are sold, and repair the count (admin)")},
		{http.MethodGet, "/products/{id}/tickets", h.books.tickets, text.Of("the tickets, in pages, and a look at both " +
			"stores (admin)")},
		{http.MethodGet, "/products/{id}/orders", h.books.orders, text.Of("the order rows, in pages")},
		{http.MethodPost, "/products/{id}/orders/{order_id}/return", h.holds.giveBack, text.Of("take an order back (admin)")},
		{http.MethodGet, "/products/{id}/reservations", h.holds.reservations, text.Of("the reservations, in pages (admin)")},
		{http.MethodGet, "/products/{id}/ledger", h.books.ledger, text.Of("the raw facts that a judge needs, in pages")},
		{http.MethodGet, "/products/{id}/audit", h.books.audit, text.Of("the verdict")},
		{http.MethodGet, "/problems/{code}", h.explain, text.Of("what an error code means")},
		{http.MethodGet, "/openapi.json", h.openAPI, text.Of("this contract, OpenAPI 3.1")},
		{http.MethodGet, "/metrics", h.scrape, text.Of("Prometheus metrics")},
		{http.MethodGet, "/healthz", h.healthz, text.Of("is the process alive")},
		{http.MethodGet, "/readyz", h.readyz, text.Of("ready to serve: backends accept writes, and the replica is not " +
			"draining")},
		{http.MethodGet, "/", h.index, text.Of("this list")},
	}
}

// Right says who may use a route, which everybody may unless it is in [Rights].
type Right int

// The rights.
const (
	Reader   Right = iota + 1 // needs the admin token if ProtectReads is set: nobody can act on what it tells
	Inside                    // the same, and through nginx always: raw rows and load
	Operator                  // needs the token always: it acts, or tells ids with which one may act
)

// Rights is the table of rights, by method and path; a test holds nginx and the OpenAPI document against it.
var Rights = map[string]Right{
	"PUT /products/{id}/stock":                     Operator,
	"POST /products/{id}/adjust":                   Operator,
	"POST /products/{id}/reconcile":                Operator,
	"POST /products/{id}/orders/{order_id}/return": Operator,
	"GET /products/{id}/tickets":                   Operator,
	"GET /products/{id}/reservations":              Operator,
	"GET /products/{id}/ledger":                    Inside,
	"GET /metrics":                                 Inside,
	"GET /products/{id}/orders":                    Reader,
	"GET /products/{id}/audit":                     Reader,
}

// guarded requires the admin token as [Rights] says.
func (h *Handler) guarded(r route) endpoint {
	right, serve := Rights[r.method+" "+r.path], r.serve
	if right == 0 || right != Operator && !h.ProtectReads {
		return serve
	}
	return func(c *gin.Context) outcome {
		if len(c.Request.Header[tokenRequired]) == 0 { // else it was asked already
			if err := h.admin.authorize(c.Request); err != nil {
				return outcome{code: h.fail(c, err)}
			}
		}
		return serve(c)
	}
}

// bare refuses a query for an endpoint that has no fields: otherwise a client that sends limit=2 might take all rows
// for the first two.
func (h *Handler) bare(serve endpoint) endpoint {
	return func(c *gin.Context) outcome {
		if err := input.ReadQuery(c.Request, input.NoFields, nil); err != nil {
			return outcome{code: h.fail(c, err)}
		}
		return serve(c)
	}
}

// notFound answers for paths that no route has.
func (h *Handler) notFound(c *gin.Context) outcome {
	if c.Request.Method == "PRI" { // the preface of HTTP/2, which net/http hands on to whoever may speak it
		p := api.NewProblem(api.InvalidRequest, "this port speaks HTTP/1.1", "")
		p.Status = http.StatusHTTPVersionNotSupported
		c.Writer.Header()["Connection"] = lastOne
		return outcome{code: h.refuse(c, p)}
	}
	return outcome{code: h.fail(c, errNotFound)}
}

// methodNotAllowed answers for paths that exist, but not for this method. It completes the Allow header that gin has
// set: where GET is served, so is HEAD.
func (h *Handler) methodNotAllowed(c *gin.Context) outcome {
	allowed := strings.Split(c.Writer.Header().Get("Allow"), ", ")
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	slices.Sort(allowed)
	c.Writer.Header().Set("Allow", strings.Join(allowed, ", "))
	p := problemOf(errMethodNotAllowed, c.Request.URL.EscapedPath())
	p.Detail = "this path takes " + strings.Join(allowed, ", ")
	h.report(c, p.Code, errMethodNotAllowed)
	return outcome{code: h.refuse(c, p)}
}

// plainHost matches the host names and addresses that servers have, with a port.
var plainHost = regexp.MustCompile(`^[\w.-]+(:\d+)?$|^\[[0-9a-fA-F:.]+\](:\d+)?$`)

// index names the endpoints, for people who open the address in a browser.
func (h *Handler) index(c *gin.Context) outcome {
	var b strings.Builder
	fmt.Fprintf(&b, "lastitem, replica %s\n\n", h.Replica)
	for _, r := range h.table() {
		fmt.Fprintf(&b, "%-5s %-24s %s · %s\n", r.method, r.path, r.does.En, r.does.Zh)
	}
	host := c.Request.Host
	if !plainHost.MatchString(host) { // the line is for a shell
		host = "localhost:8080"
	}
	fmt.Fprintf(&b, "\ncurl -X POST 'http://%s/deduct_stock/%s?product_id=101'\n", host, h.DefaultMode)
	write(c, http.StatusOK, typeText, []byte(b.String()))
	return outcome{}
}
