package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/handler/events"
	"lastitem/internal/handler/input"
	"lastitem/internal/idempotency"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
)

// reservations serves what holds units for buyers.
type reservations struct {
	*answers
	shop    Reserving
	metrics *metrics
	tap     *events.Tap
	pages   gate // that of books
}

// reserve serves POST /reserve_stock/{mode}: it holds units for a buyer.
func (r *reservations) reserve(c *gin.Context) outcome {
	mode := r.known[c.Param("mode")]
	if mode == "" {
		return r.unknownMode(c, c.Param("mode"))
	}
	in, err := input.ReadDeduction(c.Request, underlying(c), input.ReservationFields)
	if err != nil {
		return outcome{mode: mode, code: r.fail(c, err)}
	}
	held := func(hold ledger.Reservation, left *int64) idempotency.Answer {
		body := reservationOf(hold)
		body.Remaining = left
		return idempotency.Answer{Status: http.StatusCreated, Body: encoded(body)}
	}
	got, err := r.shop.Reserve(c.Request.Context(), mode, stock.ReserveRequest{
		Request: stock.Request{Items: in.Items, Cart: in.Cart, Wait: time.Duration(in.WaitMS) * time.Millisecond, Key: in.Key,
			Buyer: in.Buyer},
		For: time.Duration(in.HoldMS) * time.Millisecond, Held: held,
	})
	if err != nil {
		code := r.failHeld(c, err)
		r.tap.DoneReservation(mode, in.Product, events.Answer{Code: code, Held: true})
		return outcome{mode: mode, code: code}
	}
	a := got.Stored
	if a == nil {
		made := held(got.Hold, got.Remaining)
		a = &made
	}
	if !got.Replayed {
		r.tap.DoneReservation(mode, in.Product, events.Answer{Held: true, Remaining: got.Remaining})
	} else {
		c.Writer.Header()[api.HeaderReplayed] = yes
		r.metrics.replays.WithLabelValues(mode).Inc()
	}
	if id := idIn(a.Body); id != "" {
		c.Writer.Header().Set("Location", "/reservations/"+id)
	}
	write(c, a.Status, typeJSON, a.Body)
	return outcome{mode: mode}
}

// showReservation serves GET /reservations/{id}.
func (r *reservations) showReservation(c *gin.Context) outcome {
	hold, err := r.shop.Reservation(c.Request.Context(), c.Param("id"))
	return r.sendReservation(c, reservationOf(hold), err)
}

// confirm serves POST /reservations/{id}/confirm. Every answer says whether the payment must go back.
func (r *reservations) confirm(c *gin.Context) outcome {
	payment, err := input.ReadKey(c.Request.Header)
	if err == nil {
		err = input.ReadNothing(c.Request, underlying(c))
	}
	var e ledger.Ended
	if err == nil {
		e, err = r.shop.Confirm(c.Request.Context(), c.Param("id"), payment)
	}
	if err != nil {
		return outcome{code: r.failPaid(c, err)}
	}
	body := reservationOf(e.Reservation)
	body.OrderID, body.Refund = e.OrderID, api.RefundNo
	if e.Replay {
		c.Writer.Header()[api.HeaderReplayed] = yes
	}
	return r.send(c, body)
}

// cancel serves POST /reservations/{id}/cancel.
func (r *reservations) cancel(c *gin.Context) outcome {
	part, err := input.ReadPart(c.Request, underlying(c))
	var e ledger.Ended
	if err == nil {
		e, err = r.shop.Cancel(c.Request.Context(), c.Param("id"), part)
	}
	return r.sendEnded(c, e, err)
}

// extend serves POST /reservations/{id}/extend.
func (r *reservations) extend(c *gin.Context) outcome {
	ms, err := input.ReadOnly(c.Request, underlying(c), input.ExtensionFields)
	var key []byte
	if err == nil {
		key, err = input.ReadKey(c.Request.Header)
	}
	var e ledger.Ended
	if err == nil {
		e, err = r.shop.Extend(c.Request.Context(), c.Param("id"), time.Duration(ms)*time.Millisecond, key)
	}
	return r.sendEnded(c, e, err)
}

// giveBack serves POST /products/{id}/orders/{order_id}/return.
func (r *reservations) giveBack(c *gin.Context) outcome {
	id, err := input.ProductID(c.Param("id"))
	var in input.Return
	if err == nil {
		in, err = input.ReadReturn(c.Request, underlying(c))
	}
	var back shop.Returned
	if err == nil {
		back, err = r.shop.Return(c.Request.Context(), id, c.Param("order_id"), in.Restock, in.Part)
	}
	if err != nil {
		return outcome{code: r.fail(c, err)}
	}
	return r.send(c, api.Returned{OrderID: c.Param("order_id"), ProductID: id, Quantity: back.Quantity,
		Restock: back.Restocked})
}

// reservations serves GET /products/{id}/reservations, a page at a time.
func (r *reservations) reservations(c *gin.Context) outcome {
	q := input.HeldRows{Store: stock.SQL}
	err := input.ReadQuery(c.Request, input.HeldRowsFields, &q)
	var id int64
	if err == nil {
		id, err = input.ProductID(c.Param("id"))
	}
	if err == nil {
		err = r.pages.enter(c.Request.Context())
	}
	if err != nil {
		return outcome{code: r.fail(c, err)}
	}
	defer r.pages.leave()
	held, err := r.shop.Reservations(c.Request.Context(), q.Store, id, q.Cursor)
	if err != nil {
		return outcome{code: r.fail(c, err)}
	}
	return r.send(c, ReservationsOf(id, q.Store, held))
}

// sendEnded is sendReservation, with the mark of a replay.
func (r *reservations) sendEnded(c *gin.Context, e ledger.Ended, err error) outcome {
	if err == nil && e.Replay {
		c.Writer.Header()[api.HeaderReplayed] = yes
	}
	return r.sendReservation(c, reservationOf(e.Reservation), err)
}

// sendReservation answers with a reservation, or the problem of err.
func (r *reservations) sendReservation(c *gin.Context, body api.Reservation, err error) outcome {
	if err != nil {
		return outcome{code: r.fail(c, err)}
	}
	return r.send(c, body)
}

// failHeld answers a hold with the problem of err. Units come back, so "sold out" is an answer for now.
func (r *reservations) failHeld(c *gin.Context, err error) api.Code {
	p := problemOf(err, c.Request.URL.EscapedPath())
	if p.Code != api.SoldOut {
		return r.fail(c, err)
	}
	p.Happened = api.NoForNow
	return r.refuse(c, p)
}

// failPaid answers a confirm with the problem of err, and says whether the payment must go back. Where nothing was
// decided about it that is not known: the same confirm must be repeated first.
func (r *reservations) failPaid(c *gin.Context, err error) api.Code {
	p := problemOf(err, c.Request.URL.EscapedPath())
	r.report(c, p.Code, err)
	switch {
	case p.Refund != "":
	case p.Code == api.KeyMissing:
		p.Refund, p.Detail = api.RefundUnknown, "the Idempotency-Key is missing: it is the payment's id"
	case p.Code == api.UnknownReservation:
		p.Refund = api.RefundYes
	case p.Code == api.KeyReused:
		p.Refund = api.RefundNo
	default:
		p.Refund = api.RefundUnknown
	}
	return r.refuse(c, p)
}
