package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
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

// holdRequest is a request about a reservation.
type holdRequest struct {
	kind    judge.HoldKind
	product int64
	cart    int64  // the other product of a cart; 0 = none
	id      string // of the reservation, unless it is to be made
	key     string // of a confirm the payment's id
	buyer   string
	order   string // of a return
	restock bool
}

// holdAnswer is the answer to it.
type holdAnswer struct {
	ReservationID string     `json:"reservation_id"`
	State         string     `json:"state"`
	OrderID       string     `json:"order_id"`
	Code          api.Code   `json:"code"`
	Refund        api.Refund `json:"refund"`
	ProductID     int64      `json:"product_id"` // that has refused a cart
	Restock       bool       `json:"restock"`
	read          client.Reading
	retryAfter    time.Duration
}

// Codes of good answers that are no sale; some are states too.
const (
	codeHeld      = "held"
	codeCancelled = "cancelled"
	codeExpired   = "expired"
	codeExtended  = "extended"
	codeReturned  = "returned"
)

// secondProducts is how far the second product of a plan is from the first: far from those in use.
const secondProducts = 910_000_000

// second is the product that [Holding].Carts is about.
func (p Plan) second() int64 { return p.Product + secondProducts }

// setSecond sets the stock of the second product, if the plan has one.
func setSecond(ctx context.Context, c *Control, m api.Mode, p Plan) error {
	if p.Holding.Carts == 0 {
		return nil
	}
	setting := settingOf(p, m, p.Stock)
	if m.PerBuyer && setting.PerBuyer == 0 {
		setting.PerBuyer = 2 * p.Quantity
	}
	return c.setStock(ctx, p.second(), setting)
}

// confirmTries is how often at least a confirm is sent while nobody knows its outcome: before it is known, the buyer's
// money can neither be kept nor sent back.
const confirmTries = 4

// buy executes one arrival: a reservation, and what its buyer does then. intended is as in [worker.order].
func (w *worker) buy(ctx context.Context, rec *recorder, product, intended int64, v visit) {
	r := holdRequest{kind: judge.Reserve, product: product, buyer: v.buyer}
	if w.script.keyed || v.twice {
		r.key = uuid.NewString()
	}
	switch {
	case v.cart && w.script.carts:
		r.cart = w.plan.second()
	case v.cart:
		r.product = w.plan.second()
	}
	began := time.Now()
	held := w.insist(ctx, rec, r, intended, v.twice, w.plan.Retry+1)
	if held.ReservationID == "" {
		return
	}
	answered := time.Now()
	r.id, r.key = held.ReservationID, ""
	if v.extends && !w.extend(ctx, rec, r, v.twice) || v.act == leaves {
		return
	}
	after := v.after - time.Since(answered)
	if v.act == paysLate {
		after = v.after - time.Since(began)
	}
	if !w.engine.Rest(ctx, max(after, 0)) {
		return // the run was interrupted: the deadline ends it
	}
	r.kind = judge.Confirm
	tries := max(w.plan.Retry+1, confirmTries)
	switch v.act {
	case cancels:
		r.kind = judge.Cancel
	default:
		r.key = uuid.NewString()
	}
	end := w.insist(ctx, rec, r, -1, v.twice, tries)
	if v.returns && r.kind == judge.Confirm && end.read.Outcome == judge.OK {
		w.giveBack(ctx, rec, r, end.OrderID, v)
	}
}

// extend moves the deadline; false means that the run was interrupted.
func (w *worker) extend(ctx context.Context, rec *recorder, r holdRequest, twice bool) bool {
	if !w.engine.Rest(ctx, w.plan.Holding.PayFrom) {
		return false
	}
	r.kind = judge.Extend
	w.insist(ctx, rec, r, -1, twice, w.plan.Retry+1)
	return true
}

// giveBack returns an order, of a cart each line of it, and asks once more for the opposite: the first answer stands.
func (w *worker) giveBack(ctx context.Context, rec *recorder, r holdRequest, order string, v visit) {
	lines := []int64{r.product, r.cart}
	r.kind, r.key, r.cart, r.order = judge.Return, "", 0, order
	for _, r.product = range lines {
		for _, r.restock = range []bool{v.restock, !v.restock} {
			if r.product != 0 {
				w.insist(ctx, rec, r, -1, v.twice, w.plan.Retry+1)
			}
		}
	}
}

// insist sends a request until its outcome is known, at most so many times.
func (w *worker) insist(ctx context.Context, rec *recorder, r holdRequest, intended int64, twice bool,
	tries int) (a holdAnswer) {
	for try := 0; ; try++ {
		a = w.click(rec, r, intended, twice && try == 0, try > 0)
		if !a.read.Again || try+1 >= tries || !w.engine.Rest(ctx, pauseAfter(try, a.retryAfter)) {
			return a
		}
	}
}

// click sends a request, or the same one over two connections at once. Of two answers the good one counts.
func (w *worker) click(rec *recorder, r holdRequest, intended int64, twice, retry bool) holdAnswer {
	if !twice || w.second == nil {
		return w.ask(w.engine, rec, r, intended, retry, false)
	}
	var other holdAnswer
	await := w.beside(func() { other = w.ask(w.second, rec, r, intended, true, true) })
	a := w.ask(w.engine, rec, r, intended, retry, false)
	await()
	if a.read.Outcome != judge.OK && other.read.Outcome == judge.OK {
		return other
	}
	return a
}

// ask sends a request once and records the outcome, unless rec is nil. A second click counts as a request, but never
// as another sale.
func (w *worker) ask(engine client.Engine, rec *recorder, r holdRequest, intended int64,
	retry, second bool) holdAnswer {
	call := w.holdCall(r)
	if rec == nil {
		answer := engine.Do(&call)
		return readHold(r.kind, &answer)
	}
	s := sample{op: judge.Op{Client: w.id, ProductID: r.product, Call: rec.now()}, intended: intended, retry: retry,
		lags: intended >= 0 && !retry}
	answer := engine.Do(&call)
	s.op.Return = rec.now()
	if s.intended < 0 {
		s.intended = s.op.Call
	}
	a := readHold(r.kind, &answer)
	s.read, s.op.Replica, s.second = a.read, answer.Replica, second
	if second && a.read.Outcome == judge.OK {
		s.read.Kind = ""
	}
	op := judge.HoldOp{Kind: r.kind, Call: s.op.Call, Return: s.op.Return, Outcome: a.read.Outcome, HoldID: r.id,
		Buyer: r.buyer, Quantity: w.plan.Quantity, Replayed: answer.Replayed, Limit: a.Code == api.LimitReached,
		OrderID: a.OrderID, Restock: a.Restock, Refund: a.Refund == api.RefundYes, Expired: a.State == codeExpired}
	switch r.kind {
	case judge.Reserve:
		op.HoldID, op.Key = a.ReservationID, r.key
	case judge.Confirm:
		op.PaymentID = r.key
	case judge.Return:
		op.OrderID = r.order
	}
	s.hold, s.cart, s.about = &op, r.cart, a.ProductID
	rec.add(s, 0, false)
	return a
}

// reserveRequest is the JSON form of a reservation's input.
type reserveRequest struct {
	ProductID int64      `json:"product_id,omitempty"`
	Quantity  int64      `json:"quantity,omitempty"`
	Items     []api.Line `json:"items,omitempty"`
	Buyer     string     `json:"buyer,omitempty"`
	HoldMS    int64      `json:"hold_ms"`
	WaitMS    int64      `json:"wait_ms"`
}

// holdCall is the HTTP request.
func (w *worker) holdCall(r holdRequest) client.Call {
	c := client.Call{Method: http.MethodPost, Key: r.key, ContentType: "application/json",
		Path: "/reservations/" + url.PathEscape(r.id) + "/" + string(r.kind)}
	hold := w.plan.Holding.For.Milliseconds()
	var body any
	switch r.kind {
	case judge.Reserve:
		c.Path = "/reserve_stock/" + url.PathEscape(w.script.mode)
		in := reserveRequest{r.product, w.plan.Quantity, nil, r.buyer, hold, w.plan.Wait.Milliseconds()}
		if r.cart != 0 {
			in.Items = []api.Line{{ProductID: r.product, Quantity: in.Quantity}, {ProductID: r.cart, Quantity: in.Quantity}}
			in.ProductID, in.Quantity = 0, 0
		}
		body = in
	case judge.Extend:
		body = map[string]int64{"hold_ms": hold}
	case judge.Return:
		c.Path = fmt.Sprintf("/products/%d/orders/%s/return", r.product, url.PathEscape(r.order))
		body, c.Headers = map[string]bool{"restock": r.restock}, w.script.operator
	default:
		return c
	}
	if said, err := json.Marshal(body); err == nil { // plain fields, which always encode
		c.Body = said
	}
	return c
}

// goodCodes are the codes of good answers that are no sale.
var goodCodes = map[judge.HoldKind]string{judge.Reserve: codeHeld, judge.Cancel: codeCancelled,
	judge.Extend: codeExtended, judge.Return: codeReturned}

// readHold reads an answer about a reservation. The kind of its reading is "" for a step that is no sale yet.
func readHold(kind judge.HoldKind, answer *client.Answer) (a holdAnswer) {
	good := answer.Err == "" && (answer.Status == http.StatusOK || answer.Status == http.StatusCreated)
	if answer.Err == "" && (good || answer.Problem) && json.Unmarshal(answer.Body, &a) != nil {
		answer.Err = client.ErrBadAnswer
	}
	answer.Code = a.Code
	a.read, a.retryAfter = client.Classify(answer), answer.RetryAfter
	switch {
	case answer.Err != "":
	case good && kind == judge.Confirm:
		a.read = client.Reading{Outcome: judge.OK, Kind: client.Accepted, Code: client.CodeOK}
	case good:
		a.read = client.Reading{Outcome: judge.OK, Code: goodCodes[kind]}
		if kind == judge.Cancel && a.State == codeExpired {
			a.read.Code = codeExpired
		}
	case a.Code == api.LimitReached, answer.Problem && a.Refund == api.RefundYes,
		strings.HasPrefix(string(a.Code), "reservation_"):
		a.read = client.Reading{Outcome: judge.Refused, Kind: client.Refused, Code: string(a.Code)}
	case kind == judge.Confirm && a.read.Again: // a 503 too: only a repetition tells
		a.read.Outcome = judge.Unknown
	}
	return a
}
