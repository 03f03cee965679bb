package shop

import (
	"log/slog"
	"time"

	"lastitem/internal/idempotency"
	"lastitem/internal/step"
)

// Options configure a shop.
type Options struct {
	Replica string // is on every order
	Steps   *step.Stream
	Log     *slog.Logger // nil = none
	// Work is how long a request may take beyond its wait for locks; 0 = 5 s.
	Work time.Duration
	// Settle is how long to wait for each command after a deduction has begun to write; such commands do not end with
	// their request. 0 = 10 s.
	Settle time.Duration
	// KeepKeys is the minimum time for which an idempotency key is kept; 0 = forever.
	KeepKeys idempotency.Retention
	// Sweep is the mean time between two sweeps of overdue reservations; 0 = this process sweeps none. KeepReservations is
	// for how long an ended reservation that a payment came for is kept; 0 = forever.
	Sweep            time.Duration
	KeepReservations time.Duration
	// Tickets says how this process handles tickets.
	Tickets TicketOptions
	// Gauge registers a metric whose value read returns, NaN = absent; nil = no metrics.
	Gauge func(name, help string, labels map[string]string, read func() float64)
	// Repeated is told of each transaction that is tried again, with its mode; nil = nobody is.
	Repeated func(mode string)
}

// TicketOptions say how a process handles tickets.
type TicketOptions struct {
	Off bool // it consumes none
	// Claim is after how long a ticket is taken over from another consumer; 0 = 15 s. It must be longer than Settle.
	Claim time.Duration
	// Most is how many tickets of a product may be in flight, 0 = 50,000, and Waiters how many readers may wait for an
	// end, 0 = 10,000.
	Most, Waiters int
	// Replicas of Redis must have a ticket before it is told.
	Replicas int
	// Reconcile is the mean time between two looks at what SQL and Redis have of each product, 0 = never; Repair says that
	// they repair. Apart is the time between the two looks of a repair; 0 = Settle.
	Reconcile, Apart time.Duration
	Repair           bool
	// Ended is told how many tickets have ended in a state; nil = nobody is.
	Ended func(state string, n int64)
}
