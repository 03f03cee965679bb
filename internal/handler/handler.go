// Package handler is the HTTP contract: routes, the error table, metrics and health.
//
// It turns a request into a call of package shop and what comes back into a body of package api, and decides nothing
// about stock. An error becomes a problem (RFC 9457) through one ordered table, whose first question is whether the
// deduction happened. Start with routes.go for [New] and the list of endpoints, deduct.go for the one that matters,
// package input for what is refused before it reaches a mode, and problem.go for the table.
package handler

import (
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/handler/events"
	"lastitem/internal/step"
)

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
	*answers
	engine   *gin.Engine
	replica  []string // header values, shared by all responses and never changed
	door     door
	admin    admin
	metrics  *metrics
	tap      events.Tap // without watchers unless Options.Events
	books    books
	holds    reservations
	scrapes  gate          // GET /metrics
	requests atomic.Uint64 // counted for LogEvery
	traces   atomic.Int64  // counted for the names of traces
	draining atomic.Bool
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

// Traced adds the trace of a deduction to the metrics: the bucket of its time in shop_http_request_duration_seconds
// shows trace_id as an exemplar, where a scraper asks for OpenMetrics. Call it for traces that go to the collector.
func (h *Handler) Traced(a step.Answered, traceID string) { h.metrics.traced(a, traceID) }

// ReservationEnded counts a reservation that has ended, however it did, for the readers of GET /events.
func (h *Handler) ReservationEnded(hold ledger.Reservation) {
	if h.tap.Watched() && len(hold.Items) > 0 {
		h.tap.DoneReservation(hold.Mode, hold.Items[0].ProductID, events.Answer{End: hold.State})
	}
}

// TicketsEnded does the same for tickets, at least one of one product.
func (h *Handler) TicketsEnded(b ledger.TicketBatch) { h.tap.DoneTickets(b) }
