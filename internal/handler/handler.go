// Package handler is the HTTP contract: routes, decoding, the error table, metrics and health.
//
// It turns a request into a call of package shop and what comes back into a body of package api, and decides nothing
// about stock. An error becomes a problem (RFC 9457) through one ordered table, whose first question is whether the
// deduction happened. Start with [New], then routes.go for the list of endpoints, deduct.go for the one that matters,
// decode.go for what is refused before it reaches a mode, and problem.go for the table.
package handler

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/shop"
	"lastitem/internal/step"
	"lastitem/internal/stock"
)

// Shop is what is served; *shop.Shop is one.
type Shop interface {
	Modes
	Products
	Reserving
}

// Reserving is the side of a shop that holds units for buyers.
type Reserving interface {
	Reserve(ctx context.Context, mode string, req stock.ReserveRequest) (stock.Reserved, error)
	Confirm(ctx context.Context, id string, payment []byte) (ledger.Ended, error)
	Cancel(ctx context.Context, id string) (ledger.Ended, error)
	Extend(ctx context.Context, id string, hold time.Duration) (ledger.Ended, error)
	Reservation(ctx context.Context, id string) (ledger.Hold, error)
	Return(ctx context.Context, product int64, order string, restock bool) (shop.Returned, error)
	Reservations(ctx context.Context, at stock.Store, product int64, after string) (ledger.Holds, error)
}

var _ Shop = (*shop.Shop)(nil)

// Modes is the deducting side of a shop.
type Modes interface {
	Modes() []shop.Status
	Mode(name string) (shop.Status, error)
	Deduct(ctx context.Context, mode string, req stock.Request) (stock.Receipt, error)
}

// Products is the stock-keeping side of a shop.
type Products interface {
	KeepKeys() time.Duration
	SetStock(ctx context.Context, product, units int64, rules ledger.Rules) error
	Product(ctx context.Context, id int64) (shop.Product, error)
	ReadLocked(ctx context.Context, mode string, id int64, wait time.Duration, read func(context.Context) error) error
	Page(ctx context.Context, id int64, p shop.Page) (shop.Ledger, error)
	Audit(ctx context.Context, id int64, read func(stock.Store, *ledger.Snapshot) error) (shop.Ledger, error)
}

// Options is what a [Handler] is made of. Only Shop, Replica and DefaultMode are required.
type Options struct {
	Shop Shop
	// Steps feeds the lock histograms and Server-Timing. The Handler is the one reader that fills the traces
	// ([step.Record]), so two Handlers must not share a stream. nil = both stay at zero.
	Steps *step.Stream
	// Replica names this process in X-Replica.
	Replica string
	// AdminToken is the bearer token of an operator, without blanks around it, which a mounted secret often
	// ends with; "" = they answer 401, always.
	AdminToken string
	// Hosts lists the host names that requests may use, in lower case, besides IP addresses and names without a dot; nil =
	// any.
	Hosts []string
	// ProtectReads requires the admin token for orders, ledger, audit and metrics as well.
	ProtectReads bool
	// Events serves GET /events, with the admin token; without it the route is not there, and no step is kept for it.
	Events bool
	// Answered is told of each deduction once its answer is written, on the goroutine of the request, and so must not
	// block. nil = nobody wants to know.
	Answered func(step.Answered)
	// DefaultMode is the mode behind POST /deduct_stock.
	DefaultMode string
	// Ready lists the backends that are out, except those in exclude, and returns an error if the replica should get no
	// requests. It answers from memory. /readyz shows the texts.
	Ready func(exclude []string) (out []string, err error)
	// Registry takes the metrics; nil = one of its own.
	Registry *prometheus.Registry
	// PoolStats reads the connection pools for /metrics; nil = none are shown.
	PoolStats func() []Pool
	// LogEvery logs each n-th request at level debug; 0 = none.
	LogEvery uint64
	// Log receives the causes that the problems do not show; nil = nowhere.
	Log *slog.Logger
}

// Handler serves the HTTP contract. It is safe for concurrent use.
type Handler struct {
	Options
	engine   *gin.Engine
	routes   []route
	known    map[string]string // mode names; the value outlives the request that spelt it
	replica  []string          // header values, shared by all responses and never changed
	admin    admin
	metrics  *metrics
	tap      tap // without watchers unless Options.Events
	throttle step.Throttle
	books    books
	large    gate          // answers above patientBody that are being written; see send
	scrapes  gate          // GET /metrics
	requests atomic.Uint64 // counted for LogEvery
	traces   atomic.Int64  // counted for the names of traces
	draining atomic.Bool
}

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
	h := &Handler{
		Options: o, known: map[string]string{}, replica: []string{o.Replica},
		admin: admin{let: o.AdminToken != "", token: sha256.Sum256([]byte(o.AdminToken))},
		tap:   tap{replica: o.Replica, steps: o.Steps},
		books: books{o.Shop, newGate(maxPages, pagePatience), newGate(maxAudits, auditPatience)},
		large: newGate(maxLarge, 0), scrapes: newGate(maxScrapes, 0),
	}
	for _, s := range o.Shop.Modes() {
		h.known[s.Mode.Name] = s.Mode.Name
	}
	if _, ok := h.known[o.DefaultMode]; !ok {
		return nil, fmt.Errorf("handler: default mode: %w: %q", stock.ErrUnknownMode, o.DefaultMode)
	}
	var err error
	if h.metrics, err = newMetrics(o); err != nil {
		return nil, err
	}
	h.route()
	return h, nil
}

// route builds the engine from the table of routes.go.
func (h *Handler) route() {
	if gin.IsDebugging() {
		gin.SetMode(gin.ReleaseMode)
	}
	h.engine = gin.New()
	h.engine.HandleMethodNotAllowed = true
	h.engine.RedirectTrailingSlash = false // a redirected POST may come back as a GET; ServeHTTP takes the slash away
	h.engine.ForwardedByClientIP = false
	h.routes = h.table()
	for _, r := range h.routes {
		h.engine.Handle(r.method, ginPath(r.path), h.run(r.path, h.guarded(r)))
	}
	h.engine.NoRoute(h.run(unmatched, h.notFound))
	h.engine.NoMethod(h.run(unmatched, h.methodNotAllowed))
}

// ServeHTTP answers one request. It ignores a slash at the end of a path, and treats HEAD as GET without the body. It
// sets the names of the replica and of the request before routing, so that every answer carries them.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header()[api.HeaderReplica] = h.replica
	if h.draining.Load() {
		w.Header()["Connection"] = lastOne
	}
	w.Header()[api.HeaderRequestID] = requestID(r)
	h.engine.ServeHTTP(w, canonical(r))
}

// Drain makes /readyz answer 503, so that balancers stop sending requests, and closes each connection after its next
// answer, so that none can be reused when the server stops. All requests are still served.
func (h *Handler) Drain() { h.draining.Store(true) }

// canonical returns r as the routes expect it, without asking the client to come again: a redirect of a POST is
// followed as a GET by many clients, and loses the deduction. It is r itself, or a copy without trailing slashes and
// with GET for HEAD (the server knows from the original to send no body).
func canonical(r *http.Request) *http.Request {
	path, raw := withoutSlash(r)
	if path == r.URL.Path && r.Method != http.MethodHead {
		return r
	}
	c, u := r.WithContext(r.Context()), *r.URL
	u.Path, u.RawPath = path, raw
	c.URL = &u
	if c.Method == http.MethodHead {
		c.Method = http.MethodGet
	}
	return c
}

// ginPath writes the path of a route, /modes/{mode}, as gin does: /modes/:mode.
func ginPath(path string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(path)
}
