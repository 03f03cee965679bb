package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/internal/api"
	"lastitem/internal/idempotency"
	"lastitem/internal/ledger"
	"lastitem/internal/stock"
)

// reservation is the input of POST /reserve_stock/{mode}.
type reservation struct {
	product, quantity int64
	items             []stock.Item
	buyer             string
	holdMS, waitMS    int64
	key               []byte
	cart              bool
}

// readReservation reads the input of a hold.
func readReservation(r *http.Request, w http.ResponseWriter) (reservation, error) {
	in := reservation{product: defaultProduct, quantity: 1, waitMS: defaultWaitMS,
		holdMS: stock.DefaultHold.Milliseconds()}
	d := decoder[reservation]{fields: reservationFields, into: &in}
	if err := d.read(r, w); err != nil {
		return in, err
	}
	in.cart = d.given("items")
	switch {
	case !in.cart:
		in.items = []stock.Item{{ProductID: in.product, Quantity: in.quantity}}
	case d.given("product_id") || d.given("quantity"):
		return in, invalid("items", "excludes product_id and quantity")
	}
	var err error
	in.key, err = readKey(r.Header)
	return in, err
}

// reserve serves POST /reserve_stock/{mode}: it holds units for a buyer.
func (h *Handler) reserve(c *gin.Context) outcome {
	mode := h.known[c.Param("mode")]
	if mode == "" {
		return h.unknownMode(c, c.Param("mode"))
	}
	in, err := readReservation(c.Request, underlying(c))
	if err != nil {
		return outcome{mode: mode, code: h.fail(c, err)}
	}
	held := func(hold ledger.Hold, left *int64) idempotency.Answer {
		body := reservationOf(hold)
		body.Remaining = left
		text, err := encode(body)
		if err != nil { // strings and numbers always encode
			text = []byte("{}\n")
		}
		return idempotency.Answer{Status: http.StatusCreated, Body: text}
	}
	r, err := h.Shop.Reserve(c.Request.Context(), mode, stock.ReserveRequest{
		Request: stock.Request{Items: in.items, Cart: in.cart, Wait: time.Duration(in.waitMS) * time.Millisecond, Key: in.key,
			Buyer: in.buyer},
		For: time.Duration(in.holdMS) * time.Millisecond, Held: held,
	})
	if err != nil {
		out := outcome{mode: mode, code: h.failHeld(c, err)}
		h.tap.doneHold(mode, in.product, finished{code: out.code, held: true})
		return out
	}
	a := r.Stored
	if a == nil {
		made := held(r.Hold, r.Remaining)
		a = &made
	}
	if !r.Replayed {
		h.tap.doneHold(mode, in.product, finished{held: true, remaining: r.Remaining})
	} else {
		c.Writer.Header()[api.HeaderReplayed] = yes
		h.metrics.replays.WithLabelValues(mode).Inc()
	}
	if id := idIn(a.Body); id != "" {
		c.Writer.Header().Set("Location", "/reservations/"+id)
	}
	write(c, a.Status, typeJSON, a.Body)
	return outcome{mode: mode}
}

// showReservation serves GET /reservations/{id}.
func (h *Handler) showReservation(c *gin.Context) outcome {
	hold, err := h.Shop.Reservation(c.Request.Context(), c.Param("id"))
	return h.sendReservation(c, reservationOf(hold), false, err)
}

// confirm serves POST /reservations/{id}/confirm. Every answer says whether the payment must go back.
func (h *Handler) confirm(c *gin.Context) outcome {
	payment, err := readKey(c.Request.Header)
	if err == nil {
		err = noBody(c)
	}
	if err != nil {
		return outcome{code: h.failPaid(c, err)}
	}
	e, err := h.Shop.Confirm(c.Request.Context(), c.Param("id"), payment)
	if err != nil {
		return outcome{code: h.failPaid(c, err)}
	}
	body := reservationOf(e.Hold)
	body.OrderID, body.Refund = e.OrderID, api.RefundNo
	return h.sendReservation(c, body, e.Replay, nil)
}

// HoldEnded counts a reservation that has ended, however it did, for the readers of GET /events.
func (h *Handler) HoldEnded(hold ledger.Hold) {
	if len(h.tap.list()) > 0 && len(hold.Items) > 0 {
		h.tap.doneHold(hold.Mode, hold.Items[0].ProductID, finished{end: hold.State})
	}
}

// cancel serves POST /reservations/{id}/cancel.
func (h *Handler) cancel(c *gin.Context) outcome {
	err := noBody(c)
	var e ledger.Ended
	if err == nil {
		e, err = h.Shop.Cancel(c.Request.Context(), c.Param("id"))
	}
	return h.sendReservation(c, reservationOf(e.Hold), false, err)
}

// extend serves POST /reservations/{id}/extend.
func (h *Handler) extend(c *gin.Context) outcome {
	ms := stock.DefaultHold.Milliseconds()
	in := decoder[int64]{fields: extensionFields, into: &ms}
	err := in.read(c.Request, underlying(c))
	if err == nil && !in.given("hold_ms") {
		err = invalid("hold_ms", "is missing")
	}
	var e ledger.Ended
	if err == nil {
		e, err = h.Shop.Extend(c.Request.Context(), c.Param("id"), time.Duration(ms)*time.Millisecond)
	}
	return h.sendReservation(c, reservationOf(e.Hold), false, err)
}

// giveBack serves POST /products/{id}/orders/{order_id}/return.
func (h *Handler) giveBack(c *gin.Context) outcome {
	id, err := productID(c)
	var restock bool
	if err == nil {
		in := decoder[bool]{fields: returnFields, into: &restock}
		if err = in.read(c.Request, underlying(c)); err == nil && !in.given("restock") {
			err = invalid("restock", "is missing")
		}
	}
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	r, err := h.Shop.Return(c.Request.Context(), id, c.Param("order_id"), restock)
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	return h.send(c, api.Returned{OrderID: c.Param("order_id"), ProductID: id, Quantity: r.Quantity, Restock: r.Restocked})
}

// reservations serves GET /products/{id}/reservations, a page at a time.
func (h *Handler) reservations(c *gin.Context) outcome {
	q := heldRows{store: stock.SQL}
	err := readQuery(c.Request, heldRowsFields, &q)
	var id int64
	if err == nil {
		id, err = productID(c)
	}
	if err == nil {
		err = h.books.pages.enter(c.Request.Context())
	}
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	defer h.books.pages.leave()
	held, err := h.Shop.Reservations(c.Request.Context(), q.store, id, q.cursor)
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	return h.send(c, reservationsOf(id, q.store, held))
}

// noBody refuses fields where a path has none.
func noBody(c *gin.Context) error {
	in := decoder[struct{}]{fields: noFields, into: &struct{}{}}
	return in.read(c.Request, underlying(c))
}

// sendReservation answers with a reservation, or the problem of err.
func (h *Handler) sendReservation(c *gin.Context, body api.Reservation, replayed bool, err error) outcome {
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	if replayed {
		c.Writer.Header()[api.HeaderReplayed] = yes
	}
	return h.send(c, body)
}
