package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
)

// reserve serves POST /reserve_stock/{mode}: it holds units for a buyer.
func (h *Handler) reserve(c *gin.Context) outcome {
	mode := h.known[c.Param("mode")]
	if mode == "" {
		return h.unknownMode(c, c.Param("mode"))
	}
	in, err := readDeduction(c.Request, underlying(c), reservationFields)
	if err != nil {
		return outcome{mode: mode, code: h.fail(c, err)}
	}
	held := func(hold ledger.Hold, left *int64) idempotency.Answer {
		body := reservationOf(hold)
		body.Remaining = left
		return idempotency.Answer{Status: http.StatusCreated, Body: encoded(body)}
	}
	r, err := h.Shop.Reserve(c.Request.Context(), mode, stock.ReserveRequest{
		Request: stock.Request{Items: in.items, Cart: in.cart, Wait: time.Duration(in.waitMS) * time.Millisecond, Key: in.key,
			Buyer: in.buyer},
		For: time.Duration(in.holdMS) * time.Millisecond, Held: held,
	})
	if err != nil {
		code := h.failHeld(c, err)
		h.tap.doneHold(mode, in.product, finished{code: code, held: true})
		return outcome{mode: mode, code: code}
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
	return h.sendReservation(c, reservationOf(hold), err)
}

// confirm serves POST /reservations/{id}/confirm. Every answer says whether the payment must go back.
func (h *Handler) confirm(c *gin.Context) outcome {
	payment, err := readKey(c.Request.Header)
	if err == nil {
		err = noBody(c)
	}
	var e ledger.Ended
	if err == nil {
		e, err = h.Shop.Confirm(c.Request.Context(), c.Param("id"), payment)
	}
	if err != nil {
		return outcome{code: h.failPaid(c, err)}
	}
	body := reservationOf(e.Hold)
	body.OrderID, body.Refund = e.OrderID, api.RefundNo
	if e.Replay {
		c.Writer.Header()[api.HeaderReplayed] = yes
	}
	return h.send(c, body)
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
	return h.sendReservation(c, reservationOf(e.Hold), err)
}

// extend serves POST /reservations/{id}/extend.
func (h *Handler) extend(c *gin.Context) outcome {
	ms, err := readOnly(c, extensionFields)
	var e ledger.Ended
	if err == nil {
		e, err = h.Shop.Extend(c.Request.Context(), c.Param("id"), time.Duration(ms)*time.Millisecond)
	}
	return h.sendReservation(c, reservationOf(e.Hold), err)
}

// giveBack serves POST /products/{id}/orders/{order_id}/return.
func (h *Handler) giveBack(c *gin.Context) outcome {
	id, err := productID(c)
	var restock bool
	if err == nil {
		restock, err = readOnly(c, returnFields)
	}
	var r shop.Returned
	if err == nil {
		r, err = h.Shop.Return(c.Request.Context(), id, c.Param("order_id"), restock)
	}
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
func (h *Handler) sendReservation(c *gin.Context, body api.Reservation, err error) outcome {
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	return h.send(c, body)
}
