package handler

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/handler/events"
	"lastitem/internal/handler/input"
	"lastitem/internal/idempotency"
	"lastitem/internal/step"
	"lastitem/internal/stock"
)

// deduct serves POST /deduct_stock/{mode}, and without a mode the default one:
//
//	mode known? ── input valid? ── Deduct ── stored under a key? ── yes: those bytes
//	     404            400                            └─ no: the order, or the problem of the error
//
// The mode gets the request's own context, which ends when the client hangs up; what must not stop half-way then is for
// the mode to know.
func (h *Handler) deduct(c *gin.Context) outcome {
	mode, route := h.DefaultMode, "/deduct_stock"
	if name, given := c.Params.Get("mode"); given {
		route = "/deduct_stock/{mode}"
		if mode = h.known[name]; mode == "" {
			return h.unknownMode(c, name)
		}
	}
	d, err := input.ReadDeduction(c.Request, underlying(c), input.DeductionFields)
	if err == nil && d.Experiment {
		err = h.admin.experiment(c.Request)
	}
	if err != nil {
		return outcome{mode: mode, code: h.fail(c, err)}
	}
	t := &template{mode: mode, instance: c.Request.URL.EscapedPath(), items: d.Items, cart: d.Cart}
	// The name is for the step stream, where somebody watching tells deductions apart by it; it is in no answer, because
	// answers are stored and compared.
	number := h.traces.Add(1)
	trace := &step.Trace{
		Request: api.RequestName(h.Replica, number), Mode: mode, ProductID: d.Product,
		RequestID: answeredID(c.Writer), TraceParent: traceParent(c.Request),
	}
	var begun time.Time
	if h.Answered != nil {
		begun = time.Now()
	}
	receipt, err := h.Shop.Deduct(step.NewContext(c.Request.Context(), trace), mode, stock.Request{
		Items: d.Items, Cart: d.Cart, Store: d.Store, Wait: time.Duration(d.WaitMS) * time.Millisecond, Hold: d.Hold,
		Key: d.Key, Buyer: d.Buyer, Answer: t.answer,
	})
	spans := trace.Spans()
	c.Writer.Header()["Server-Timing"] = serverTiming(spans)
	out := h.deducted(c, t, receipt, err)
	if h.tap.Watched() {
		h.tap.Done(events.Answer{Trace: trace, Spans: spans, Number: number, At: time.Now().UnixMicro(), Code: out.code,
			Remaining: receipt.Remaining})
	}
	if h.Answered != nil {
		h.Answered(step.Answered{
			Trace: trace, Route: route, Begun: begun, Ended: time.Now(), Status: c.Writer.Status(), Code: string(out.code),
			Store: string(d.Store),
		})
	}
	return out
}

// deducted answers with what came of a deduction.
func (h *Handler) deducted(c *gin.Context, t *template, receipt stock.Receipt, err error) outcome {
	if receipt.Stored != nil {
		return h.replay(c, t.mode, receipt, err)
	}
	if err != nil {
		return outcome{mode: t.mode, code: h.fail(c, err)}
	}
	a := t.answer(receipt, nil)
	locate(c, a)
	write(c, a.Status, typeJSON, a.Body)
	return outcome{mode: t.mode}
}

// replay sends the answer that is kept under the idempotency key, byte for byte: this request's own, just stored, or an
// earlier one's. Encoding it again would not do: a release that adds a field would answer a repetition with other bytes
// than the first time.
func (h *Handler) replay(c *gin.Context, mode string, r stock.Receipt, err error) outcome {
	out, contentType := outcome{mode: mode}, typeJSON
	if r.Stored.Status >= http.StatusMultipleChoices {
		out.code, contentType = storedCode(r.Stored.Body), typeProblem
	}
	if r.Replayed {
		c.Writer.Header()[api.HeaderReplayed] = yes
		h.metrics.replays.WithLabelValues(mode).Inc()
	} else if err != nil {
		h.report(c, out.code, err)
	}
	retryAfter(c, r.Stored.Status, out.code == api.InFlight)
	locate(c, *r.Stored)
	write(c, r.Stored.Status, contentType, r.Stored.Body)
	return out
}

// locate says where to ask for what became of a ticket.
func locate(c *gin.Context, a idempotency.Answer) {
	var t api.Ticket
	if a.Status == http.StatusAccepted && json.Unmarshal(a.Body, &t) == nil {
		c.Writer.Header().Set("Location", "/tickets/"+t.TicketID)
	}
}

// ticket serves GET /tickets/{id}.
func (h *Handler) ticket(c *gin.Context) outcome {
	wait := input.Wait{}
	if err := input.ReadQuery(c.Request, input.WaitFields, &wait); err != nil {
		return outcome{code: h.fail(c, err)}
	}
	id := c.Param("id")
	end, err := h.Shop.Ticket(c.Request.Context(), id, time.Duration(wait.WaitMS)*time.Millisecond)
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	if end.State == ledger.TicketQueued {
		c.Writer.Header()["Retry-After"] = retrySoon
	}
	return h.send(c, api.Ticket{TicketID: id, State: string(end.State), ProductID: end.ProductID,
		Quantity: end.Quantity, OrderID: end.OrderID, Reason: end.Reason})
}

// storedCode reads the code out of a stored problem, for the metrics only. An unknown code counts as internal: texts
// from a database must not become labels.
func storedCode(body []byte) api.Code {
	var p api.Problem
	if json.Unmarshal(body, &p) != nil {
		return api.Internal
	}
	if _, ok := api.Codes[p.Code]; !ok {
		return api.Internal
	}
	return p.Code
}

// template is what the answer to a deduction repeats of its request.
type template struct {
	mode, instance string
	items          []stock.Item
	cart           bool
}

// answer renders an outcome. Modes that store the first answer call it inside their transaction, so it depends on
// nothing but the request and its arguments: no clock, no replica, no request id.
func (t *template) answer(r stock.Receipt, err error) idempotency.Answer {
	if err != nil {
		return t.problem(err)
	}
	if r.Queued {
		one := t.items[0]
		return idempotency.Answer{Status: http.StatusAccepted, Body: encoded(api.Ticket{
			TicketID: stock.TicketID(one.ProductID, r.OrderID), State: api.TicketQueued, Mode: t.mode, ProductID: one.ProductID,
			Quantity: one.Quantity, Remaining: r.Remaining,
		})}
	}
	d := api.Deduction{Mode: t.mode, Remaining: r.Remaining, OrderID: r.OrderID, Fence: r.Fence}
	if t.cart {
		items := r.Items // merged, and so what was charged; the client's own lines where the mode does not say
		if items == nil {
			items = t.items
		}
		d.Items = make([]api.Line, len(items))
		for i, item := range items {
			d.Items[i] = api.Line(item)
		}
	} else {
		d.ProductID, d.Quantity = t.items[0].ProductID, t.items[0].Quantity
	}
	body, err := encode(d)
	if err != nil {
		return t.problem(err)
	}
	return idempotency.Answer{Status: http.StatusOK, Body: body}
}

// problem renders a refusal. Only sold_out is ever stored; the others a mode may render and throw away.
func (t *template) problem(err error) idempotency.Answer {
	p := problemOf(err, t.instance)
	return idempotency.Answer{Status: p.Status, Body: encoded(p)}
}

// noLocks is what the modes without a lock say.
var noLocks = []string{"lock_wait;dur=0.000, lock_hold;dur=0.000"}

// serverTiming says how long the deduction waited for its locks and held them, in milliseconds, summed over all of
// them. A wait or hold that never ended counts until now: a busy lock was waited for, too.
func serverTiming(spans []step.Span) []string {
	if len(spans) == 0 {
		return noLocks
	}
	var wait, hold time.Duration
	for i, s := range spans {
		if reentry(spans[:i], s) {
			continue
		}
		if s.Locked.IsZero() {
			wait += time.Since(s.Waiting)
			continue
		}
		wait += s.Wait()
		if s.Released.IsZero() {
			hold += time.Since(s.Locked)
		}
		hold += s.Hold()
	}
	b := make([]byte, 0, 64)
	b = append(b, "lock_wait;dur="...)
	b = strconv.AppendFloat(b, wait.Seconds()*1000, 'f', 3, 64)
	b = append(b, ", lock_hold;dur="...)
	b = strconv.AppendFloat(b, hold.Seconds()*1000, 'f', 3, 64)
	return []string{string(b)}
}

// reentry says whether s is a re-entry of the lock's own holder: earlier are the spans that began before s.
func reentry(earlier []step.Span, s step.Span) bool {
	return slices.ContainsFunc(earlier, func(outer step.Span) bool {
		return outer.Key == s.Key && !outer.Locked.IsZero() && (outer.Released.IsZero() || outer.Released.After(s.Waiting))
	})
}
