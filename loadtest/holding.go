package loadtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"lastitem/judge"
	"lastitem/target"
)

// Holding makes every arrival a buyer, who reserves and then pays, cancels or leaves. Without For it is a plan that
// deducts at once, for Buyers if there are any. The shares are of all buyers; those that are left over hold their units
// until the deadline.
type Holding struct {
	For      time.Duration `json:"for,omitempty"`       // how long a reservation holds
	Pays     float64       `json:"pays,omitempty"`      // share that pays after PayFrom to PayTo
	PaysLate float64       `json:"pays_late,omitempty"` // share that pays at the deadline or after it
	Cancels  float64       `json:"cancels,omitempty"`   // share that cancels after PayFrom to PayTo
	PayFrom  time.Duration `json:"pay_from,omitempty"`
	PayTo    time.Duration `json:"pay_to,omitempty"`
	// Scaled says that For and PayTo are the least: a run measures a reserve first, and lengthens both as it needs.
	Scaled  bool    `json:"scaled,omitempty"`
	Extends float64 `json:"extends,omitempty"` // share that extends after PayFrom; half of those who leave do too
	Returns float64 `json:"returns,omitempty"` // share whose order is returned, if there is one
	// Carts is the share that wants a second product too, in one cart, or alone where the mode takes no carts. That
	// product has a limit per buyer.
	Carts float64 `json:"carts,omitempty"`
	// DoubleClicks is the share that sends each request twice at once, over two connections, with the same key if there
	// is one.
	DoubleClicks float64 `json:"double_clicks,omitempty"`
	// Buyers is how many there are; 0 = requests name none, or with PerBuyer twice as many as it takes to buy the stock.
	Buyers    int     `json:"buyers,omitempty"`
	BuyerZipf float64 `json:"buyer_zipf,omitempty"` // skew over the buyers, > 1; 0 = uniform
	PerBuyer  int64   `json:"per_buyer,omitempty"`  // the limit; 0 = none
	// Late is what a payment after the deadline gets: "refund" (the default), or "rehold" while units are free.
	Late string `json:"late,omitempty"`
}

// On says that the plan reserves.
func (h Holding) On() bool { return h.For > 0 }

// act is what a buyer does after the reservation.
type act int

const (
	leaves act = iota
	pays
	paysLate
	cancels
)

// visit is what one buyer will do.
type visit struct {
	act   act
	after time.Duration // the answer to the reservation; of paysLate: its request
	twice bool          // a double click
	buyer string        // "" = not named

	extends, returns, restock, cart bool
}

// visits returns a function that chooses what the buyers of one source of requests do, numbered by stream: the same
// plan makes the same choices.
func visits(p Plan, stream int) func() visit {
	h := p.Holding
	if h == (Holding{}) {
		return func() visit { return visit{} }
	}
	random := rand.New(rand.NewPCG(p.Seed, 1<<32+uint64(stream)))
	buyer := func() uint64 { return random.Uint64N(uint64(max(h.Buyers, 1))) }
	if h.BuyerZipf > 1 {
		buyer = rand.NewZipf(random, h.BuyerZipf, 1, uint64(max(h.Buyers, 1)-1)).Uint64
	}
	return func() visit {
		share, spread := random.Float64(), time.Duration(random.Float64()*float64(h.PayTo-h.PayFrom))
		v := visit{after: h.PayFrom + spread, twice: random.Float64() < h.DoubleClicks}
		atOnce := random.IntN(2) == 0
		switch {
		case share < h.Pays:
			v.act = pays
		case share < h.Pays+h.Cancels:
			v.act = cancels
		case share < h.Pays+h.Cancels+h.PaysLate:
			// Half of these payments meet the deadline: the request was before it, so it passes during the confirm.
			if v.act, v.after = paysLate, h.For+spread; atOnce {
				v.after = h.For
			}
		}
		if n := buyer(); h.Buyers > 0 {
			v.buyer = fmt.Sprintf("buyer-%d", n+1)
		}
		v.cart, v.returns, v.restock = random.Float64() < h.Carts, random.Float64() < h.Returns, atOnce
		v.extends = random.Float64() < h.Extends || h.Extends > 0 && v.act == leaves && atOnce
		return v
	}
}

// Codes of good answers that are no sale, beside the states of a reservation.
const (
	codeCancelled = "cancelled"
	codeExtended  = "extended"
	codeReturned  = "returned"
)

var goodCodes = map[judge.HoldKind]string{judge.Reserve: target.StateHeld, judge.Cancel: codeCancelled,
	judge.Extend: codeExtended, judge.Return: codeReturned}

// secondProducts is how far the second product of a plan is from the first: far from those in use.
const secondProducts = 910_000_000

// second is the product that [Holding].Carts is about.
func (p Plan) second() int64 { return p.Product + secondProducts }

// confirmTries is how often at least a confirm is sent while nobody knows its outcome: before it is known, the buyer's
// money can neither be kept nor sent back.
const confirmTries = 4

// buy executes one arrival: a reservation, and what its buyer does then.
func (w *worker) buy(ctx context.Context, rec *recorder, ask target.Ask, intended int64, v visit) {
	ask.Kind, ask.For = judge.Reserve, w.plan.Holding.For
	switch {
	case v.cart && w.script.carts:
		ask.Second = w.plan.second()
	case v.cart:
		ask.Product = w.plan.second()
	}
	began := time.Now()
	held := w.insist(ctx, rec, ask, intended, v.twice, w.plan.Retry+1)
	if held.ReservationID == "" {
		return
	}
	answered := time.Now()
	ask.Reservation, ask.Key = held.ReservationID, ""
	if v.extends && !w.extend(ctx, rec, ask, v.twice) || v.act == leaves {
		return
	}
	after := v.after - time.Since(answered)
	if v.act == paysLate {
		after = v.after - time.Since(began)
	}
	if !w.engine.Rest(ctx, max(after, 0)) {
		return // the run was interrupted: the deadline ends it
	}
	ask.Kind = judge.Cancel
	if v.act != cancels {
		ask.Kind, ask.Key = judge.Confirm, uuid.NewString()
	}
	end := w.insist(ctx, rec, ask, -1, v.twice, max(w.plan.Retry+1, confirmTries))
	if v.returns && ask.Kind == judge.Confirm && end.Outcome == judge.OK {
		w.giveBack(ctx, rec, ask, end.OrderID, v)
	}
}

// extend moves the deadline; false means that the run was interrupted.
func (w *worker) extend(ctx context.Context, rec *recorder, ask target.Ask, twice bool) bool {
	if !w.engine.Rest(ctx, w.plan.Holding.PayFrom) {
		return false
	}
	ask.Kind = judge.Extend
	w.insist(ctx, rec, ask, -1, twice, w.plan.Retry+1)
	return true
}

// giveBack returns an order, of a cart each line of it, and asks once more for the opposite: the first answer stands.
func (w *worker) giveBack(ctx context.Context, rec *recorder, ask target.Ask, order string, v visit) {
	lines := []int64{ask.Product, ask.Second}
	ask.Kind, ask.Second, ask.Order = judge.Return, 0, order
	for _, ask.Product = range lines {
		for _, ask.Restock = range []bool{v.restock, !v.restock} {
			if ask.Product != 0 {
				w.insist(ctx, rec, ask, -1, v.twice, w.plan.Retry+1)
			}
		}
	}
}

// step makes the sample one of a request about a reservation. Only a confirm is a sale, and a second click counts as a
// request, but never as another sale.
func (s *sample) step(ask target.Ask, said target.Answer) {
	op := ask.HoldOp(said)
	op.Call, op.Return = s.op.Call, s.op.Return
	s.hold, s.cart, s.about = &op, ask.Second, said.ProductID
	if said.Outcome != judge.OK {
		return
	}
	if ask.Kind != judge.Confirm || s.second {
		s.kind = ""
	}
	if code, step := goodCodes[ask.Kind]; step {
		s.code = code
	}
	if ask.Kind == judge.Cancel && op.Expired {
		s.code = target.StateExpired
	}
}
