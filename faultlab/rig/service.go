package rig

import (
	"context"
	"sync"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig/gear"
	"lastitem/judge"
	"lastitem/target"
)

// Service says how to start a replica of a service, send it requests, and read its stock and orders. [Shop] describes
// lastitem's own; [Foreign] somebody else's.
type Service struct {
	Argv  func(l Launch, addr string) []string
	Env   func(l Launch, addr string) []string
	Ready func(ctx context.Context, addr string) error
	// Whole returns nil when a replica serves a mode with all that the mode uses, and does not leave out a server that was
	// away for a moment; nil = it never leaves one out.
	Whole func(ctx context.Context, addr, mode string) error
	// Setup prepares a lane before its replicas start; nil = no preparation.
	Setup func(ctx context.Context, at Site) error
	// Reset sets the stock of the lane's product and deletes its orders and idempotency keys.
	Reset func(ctx context.Context, at Site, to api.SetStock) error
	// Call is what a client sends to a replica, and Read reads the reply to a request of a kind.
	Call func(a target.Ask) target.Call
	Read func(kind judge.ReservationKind, r target.Reply) target.Answer
	// Promised says whether an answer of somebody else's service means that the order is written later.
	Promised func(target.Reply) bool
	// Visit makes a buyer of a service whose purchase takes several steps, for whom Call is nil; nil = it takes one.
	Visit func(product, quantity int64, key string) *target.Visit
	// Ledger reads stock and orders of the lane's product.
	Ledger func(ctx context.Context, at Site) (*api.Ledger, error)

	// ProductName is what the service calls a product; nil = by its number.
	ProductName func(product int64) string
	// MorePorts is how many free ports a replica gets beside its own. ReadyWithin is in which time it must be ready, and
	// ResetWithin how much longer than usual a reset may take; 0 = as long as our own.
	MorePorts                int
	ReadyWithin, ResetWithin time.Duration

	// Gone is how many units the books say are sold: see [target.Foreign.Gone].
	Gone func(*api.Ledger) int64

	// Settle is how long the books may take to add up after a schedule; 0 = nobody has said.
	Settle time.Duration

	// Dir is the working directory of the replicas; "" = a private one.
	Dir string
	// Alone gives each lane a Redis of its own, for a service whose keys have no configurable prefix; Open leaves that
	// Redis without a password.
	Alone, Open bool
	// Waits says that the service decides how long a request waits for a lock; the lab cannot. Its answers may also lack
	// the order's id.
	Waits bool
	// Keyless says that requests carry no key: those with the same one in a history are one customer's all the same.
	Keyless bool

	// learnt is shared by the lanes of a foreign service; nil = there is nothing to learn.
	learnt *learnt
}

// Site is where the lab reads and resets a service: the gear of a lane, and a replica that can answer.
type Site struct {
	*gear.Set
	URL     string // of the replica; "" = none has started yet
	Initial int64  // the stock that the product was last reset to
}

// Launch holds the settings with which a replica is started.
type Launch struct {
	Actor string            // "A"
	Lane  int               // the lane's number, from 0
	TTL   time.Duration     // of the locks that have one
	Ports []string          // free ones beside that of its address
	URLs  map[string]string // of the servers, by variable: SHOP_REDIS, SHOP_SQL, ...
	Token string            // the token for the routes that set stock
	// Patience is how long the replica's clients wait for a server, see [LaneOptions].
	Patience time.Duration
}

// Ask is one request of a client, in the state in which its schedule begins.
type Ask struct {
	target.Ask
	// Stock, by Set, and PerBuyer are set for the product before the schedule. With PerBuyer, A and B ask for one buyer,
	// and C for a new one each time.
	Stock    int64
	Set      api.SetStock
	PerBuyer int64

	// Session says that the mode holds a session with a service, which an earlier schedule may have ended.
	Session bool
	// Outlive is how long a lock of the mode may outlive its holder.
	Outlive time.Duration

	// About is what the victim of a schedule asks for. ReserveFirst says that a product has had a reservation before it is
	// deducted from: where the stock is computed, the first request of all locks the product's row.
	About        About
	ReserveFirst bool
}

// Kind is what a request about a reservation asks for.
type Kind = judge.ReservationKind

// The kinds that the lab asks for. SweepDue and TurnDue are no requests: A is held in a sweep, or in a turn with the
// tickets that it has won.
const (
	Reserve  = judge.Reserve
	Confirm  = judge.Confirm
	Cancel   = judge.Cancel
	Extend   = judge.Extend
	Return   = judge.Return
	Adjust   = judge.Adjust
	Ship     = judge.Ship
	SweepDue = Kind("sweep")
	TurnDue  = Kind("turn")
)

// About says what the victim does. The zero value is a deduction.
type About struct {
	Kind    Kind  // "" = a deduction
	Overdue bool  // it comes after the deadline
	Rehold  bool  // the product lets a late payment take the units again
	Batch   bool  // two reservations are overdue
	Part    int64 // so many units are cancelled or returned, and two stay; 0 = all, and that is one
	Cart    bool  // the reservations are of two products
	Line    bool  // and only the line of the lane's product is cancelled
	Limited bool  // a buyer may have one unit, and there is one more
	Extends int   // how often a reservation may be extended; 0 = once
	// LastTry says that the first of two tickets is tried alone for the last time, and Refused that the database refuses
	// its order.
	LastTry, Refused bool
}

// Units is how many are reserved.
func (a About) Units() int64 {
	switch {
	case a.Batch:
		return 2
	case a.Part > 0:
		return a.Part + 2
	}
	return 1
}

// Reservation is a reservation that a scene has made.
type Reservation struct {
	ID    string
	Until time.Time // its deadline, by the store's clock, which is this machine's
	Order string    // of one that has been paid
	// Visit is the buyer of an order of somebody's service.
	Visit *target.Visit
}

// Overdue returns when the deadline of a reservation has passed.
func (h Reservation) Overdue(ctx context.Context) error {
	select {
	case <-time.After(time.Until(h.Until) + time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// learnt is what the requests without any fault have shown of a foreign service.
type learnt struct {
	mu   sync.Mutex
	pace time.Duration // the longest time that one took
	sets time.Duration // the longest time that a reset took
	gap  time.Duration // the longest time for which nothing was sent for one that was not over
	jobs bool          // another replica works for one, or the order is written long after the answer
	// Until one was traced it may have jobs, each of which took less than guess; 0 = none.
	traced bool
	guess  time.Duration
	idle   map[[2]string]bool // server and pattern of what replicas send though nobody asks them
	// soldOut is the shape of the answer at a stock of zero; "" = not seen.
	soldOut string

	watching sync.Mutex
	works    *bool // see Lane.worksAlone; nil = not watched yet
}

// took notes how long a request took.
func (x *learnt) took(d time.Duration) {
	if x != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.pace = max(x.pace, d)
	}
}

// longest returns the longest time that a request took.
func (x *learnt) longest() time.Duration {
	if x == nil {
		return 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.pace
}

// resetTook notes how long a reset took.
func (x *learnt) resetTook(d time.Duration) {
	if x != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.sets = max(x.sets, d)
	}
}

// resetWithin is how long a reset may take: several times what the slowest took, if there was one.
func (x *learnt) resetWithin() time.Duration {
	if x == nil {
		return time.Hour
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sets == 0 {
		return time.Hour
	}
	return max(mostStill, 4*x.sets)
}

// emptied notes the answer at a stock of zero.
func (x *learnt) emptied(r target.Reply) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.soldOut = target.Shapes(r)[0]
}

// unlike says whether an answer that refuses is another than the one at a stock of zero.
func (x *learnt) unlike(r target.Reply) bool {
	if x == nil {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.soldOut != "" && x.soldOut != target.Shapes(r)[0]
}

// suspect notes before the first trace that a request may have been worked on for so long.
func (x *learnt) suspect(d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.guess = max(x.guess, d)
}

// rest returns how long nothing must be sent for a request before it counts as over; 0 = it is over when it has its
// answer.
func (x *learnt) rest() time.Duration {
	if x == nil {
		return 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	gap := x.gap
	if !x.traced {
		gap = x.guess
	}
	if x.traced && !x.jobs || gap == 0 {
		return 0
	}
	return min(max(settling, 2*gap), mostStill)
}

// settling is for how long a replica must send nothing before a trace ends. A Redlock answers when a majority of its
// nodes is released, and releases the others afterwards.
const settling = 30 * time.Millisecond

// mostStill bounds still.
const mostStill = 3 * time.Second

// workWithin is how long the work for a request may take without any fault.
const workWithin = 5 * time.Second
