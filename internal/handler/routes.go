package handler

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// tokenRequired is the header with which a proxy restricts a path to the operator. The proxy decides, since it knows
// which requests come from outside.
const tokenRequired = "X-Token-Required"

// unmatched labels what no route serves; the path itself would make a metric label per typing error.
const unmatched = "unmatched"

// outcome is what became of a request, for the metrics.
type outcome struct {
	mode string   // "" where there is none, or none that is known
	code api.Code // "" = ok
}

// An endpoint answers a request completely and says what became of it.
type endpoint func(c *gin.Context) outcome

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
		{http.MethodPost, "/reserve_stock/{mode}", h.reserve, text.Of("hold units for a buyer by one mode")},
		{http.MethodGet, "/reservations/{id}", h.bare(h.showReservation), text.Of("one reservation")},
		{http.MethodPost, "/reservations/{id}/confirm", h.confirm, text.Of("paid: make an order of a reservation")},
		{http.MethodPost, "/reservations/{id}/extend", h.extend, text.Of("move the deadline of a reservation, once")},
		{http.MethodPost, "/reservations/{id}/cancel", h.cancel, text.Of("give the units of a reservation back")},
		{http.MethodGet, "/modes", h.bare(h.listModes), text.Of("every mode, with what it claims")},
		{http.MethodGet, "/modes/{mode}", h.bare(h.showMode), text.Of("one mode, with its essay")},
		{http.MethodGet, "/products/{id}", h.product, text.Of("stock in every store")},
		{http.MethodPut, "/products/{id}/stock", h.setStock, text.Of("set the stock: a run starts here (admin)")},
		{http.MethodGet, "/products/{id}/orders", h.orders, text.Of("the order rows, in pages")},
		{http.MethodPost, "/products/{id}/orders/{order_id}/return", h.giveBack, text.Of("take an order back (admin)")},
		{http.MethodGet, "/products/{id}/reservations", h.reservations, text.Of("the reservations, in pages (admin)")},
		{http.MethodGet, "/products/{id}/ledger", h.ledger, text.Of("the raw facts that a judge needs, in pages")},
		{http.MethodGet, "/products/{id}/audit", h.audit, text.Of("the verdict")},
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
	"POST /products/{id}/orders/{order_id}/return": Operator,
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
		if err := readQuery(c.Request, noFields, nil); err != nil {
			return outcome{code: h.fail(c, err)}
		}
		return serve(c)
	}
}

// run puts around an endpoint what all of them need: metrics, the sampled log, and an answer where it panics. It stands
// in for a chain of middleware: one frame and one deferred call per request, and what to count is a result instead of a
// value looked up in a map.
func (h *Handler) run(path string, serve endpoint) gin.HandlerFunc {
	return func(c *gin.Context) {
		start, out := time.Now(), outcome{code: api.Internal} // unless serve returns: then it panicked
		h.metrics.inFlight.Inc()
		defer func() {
			h.metrics.inFlight.Dec()
			h.metrics.observe(path, out, time.Since(start))
			h.rescue(c, recover())
			h.sample(c, out, start)
		}()
		if err := h.admit(c.Request); err != nil {
			out = outcome{code: h.fail(c, err)}
			return
		}
		out = serve(c)
	}
}

// guard requires the admin token if a proxy demands it for this path. A client that sends the header only restricts
// itself.
func (h *Handler) guard(r *http.Request) error {
	if len(r.Header[tokenRequired]) == 0 {
		return nil
	}
	return h.admin.authorize(r)
}

// rescue answers for an endpoint that panicked. Where an answer has begun the connection is cut instead: half a body
// must not look like a whole one.
func (h *Handler) rescue(c *gin.Context, reason any) {
	if reason == nil {
		return
	}
	if err, ok := reason.(error); c.Writer.Written() || ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler) // the server closes the connection, and logs nothing
	}
	h.fail(c, fmt.Errorf("handler: panic: %v\n%s", reason, debug.Stack()))
}

// sample logs each n-th request where it was asked for.
func (h *Handler) sample(c *gin.Context, out outcome, start time.Time) {
	if h.LogEvery == 0 || h.requests.Add(1)%h.LogEvery != 0 {
		return
	}
	h.Log.LogAttrs(c.Request.Context(), slog.LevelDebug, "request", append(names(c.Writer, c.Request),
		slog.String("method", c.Request.Method), slog.String("path", c.Request.URL.Path),
		slog.Int("status", c.Writer.Status()),
		slog.String("mode", out.mode), slog.Any("code", out.code), slog.Duration("took", time.Since(start)))...)
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
	for _, r := range h.routes {
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
