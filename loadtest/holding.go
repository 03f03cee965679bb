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

	"lastitem/internal/api"
	"lastitem/internal/audit"
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
	Scaled bool `json:"scaled,omitempty"`
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
		return v
	}
}

// holdRequest is a request about a reservation.
type holdRequest struct {
	kind    audit.HoldKind
	product int64
	id      string // of the reservation, unless it is to be made
	key     string // of a confirm the payment's id
	buyer   string
}

// holdAnswer is the answer to it.
type holdAnswer struct {
	ReservationID string     `json:"reservation_id"`
	State         string     `json:"state"`
	OrderID       string     `json:"order_id"`
	Code          api.Code   `json:"code"`
	Refund        api.Refund `json:"refund"`
	read          client.Reading
	retryAfter    time.Duration
}

// Codes of good answers that are no sale; the first and the last are states too.
const (
	codeHeld      = "held"
	codeCancelled = "cancelled"
	codeExpired   = "expired"
)

// confirmTries is how often at least a confirm is sent while nobody knows its outcome: before it is known, the buyer's
// money can neither be kept nor sent back.
const confirmTries = 4

// buy executes one arrival: a reservation, and what its buyer does then. intended is as in [worker.order].
func (w *worker) buy(ctx context.Context, rec *recorder, product, intended int64, v visit) {
	r := holdRequest{kind: audit.Reserve, product: product, buyer: v.buyer}
	if w.script.keyed || v.twice {
		r.key = uuid.NewString()
	}
	began := time.Now()
	held := w.insist(ctx, rec, r, intended, v.twice, w.plan.Retry+1)
	if held.ReservationID == "" || v.act == leaves {
		return
	}
	after := v.after
	if v.act == paysLate {
		after -= time.Since(began)
	}
	if !w.engine.Rest(ctx, max(after, 0)) {
		return // the run was interrupted: the deadline ends it
	}
	r.kind, r.id, r.key = audit.Confirm, held.ReservationID, ""
	tries := max(w.plan.Retry+1, confirmTries)
	switch v.act {
	case cancels:
		r.kind = audit.Cancel
	default:
		r.key = uuid.NewString()
	}
	w.insist(ctx, rec, r, -1, v.twice, tries)
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
	if a.read.Outcome != audit.OK && other.read.Outcome == audit.OK {
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
	s := sample{op: audit.Op{Client: w.id, ProductID: r.product, Call: rec.now()}, intended: intended, retry: retry,
		lags: intended >= 0 && !retry}
	answer := engine.Do(&call)
	s.op.Return = rec.now()
	if s.intended < 0 {
		s.intended = s.op.Call
	}
	a := readHold(r.kind, &answer)
	s.read, s.op.Replica, s.second = a.read, answer.Replica, second
	if second && a.read.Outcome == audit.OK {
		s.read.Kind = ""
	}
	op := audit.HoldOp{Kind: r.kind, Call: s.op.Call, Return: s.op.Return, Outcome: a.read.Outcome, HoldID: r.id,
		Buyer: r.buyer, Quantity: w.plan.Quantity, Replayed: answer.Replayed, Limit: a.Code == api.LimitReached,
		OrderID: a.OrderID, Refund: a.Refund == api.RefundYes, Expired: a.State == codeExpired}
	switch r.kind {
	case audit.Reserve:
		op.HoldID, op.Key = a.ReservationID, r.key
	case audit.Confirm:
		op.PaymentID = r.key
	}
	s.hold = &op
	rec.add(s, 0, false)
	return a
}

// reserveRequest is the JSON form of a reservation's input.
type reserveRequest struct {
	ProductID int64  `json:"product_id"`
	Quantity  int64  `json:"quantity"`
	Buyer     string `json:"buyer,omitempty"`
	HoldMS    int64  `json:"hold_ms"`
	WaitMS    int64  `json:"wait_ms"`
}

// holdCall is the HTTP request.
func (w *worker) holdCall(r holdRequest) client.Call {
	c := client.Call{Method: http.MethodPost, Key: r.key}
	if r.kind != audit.Reserve {
		c.Path = "/reservations/" + url.PathEscape(r.id) + "/" + string(r.kind)
		return c
	}
	c.Path, c.ContentType = "/reserve_stock/"+url.PathEscape(w.script.mode), "application/json"
	body, err := json.Marshal(reserveRequest{r.product, w.plan.Quantity, r.buyer, w.plan.Holding.For.Milliseconds(),
		w.plan.Wait.Milliseconds()})
	if err == nil { // five plain fields, which always encode
		c.Body = body
	}
	return c
}

// readHold reads an answer about a reservation. The kind of its reading is "" for a step that is no sale yet.
func readHold(kind audit.HoldKind, answer *client.Answer) (a holdAnswer) {
	good := answer.Err == "" && (answer.Status == http.StatusOK || answer.Status == http.StatusCreated)
	if answer.Err == "" && (good || answer.Problem) && json.Unmarshal(answer.Body, &a) != nil {
		answer.Err = client.ErrBadAnswer
	}
	answer.Code = a.Code
	a.read, a.retryAfter = client.Classify(answer), answer.RetryAfter
	switch {
	case answer.Err != "":
	case good && kind == audit.Confirm:
		a.read = client.Reading{Outcome: audit.OK, Kind: client.Accepted, Code: client.CodeOK}
	case good && kind == audit.Reserve:
		a.read = client.Reading{Outcome: audit.OK, Code: codeHeld}
	case good:
		a.read = client.Reading{Outcome: audit.OK, Code: codeCancelled}
		if a.State == codeExpired {
			a.read.Code = codeExpired
		}
	case a.Code == api.LimitReached, answer.Problem && a.Refund == api.RefundYes,
		strings.HasPrefix(string(a.Code), "reservation_"):
		a.read = client.Reading{Outcome: audit.Refused, Kind: client.Refused, Code: string(a.Code)}
	case kind == audit.Confirm && a.read.Again: // a 503 too: only a repetition tells
		a.read.Outcome = audit.Unknown
	}
	return a
}
