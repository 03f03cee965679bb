package handler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/handler/input"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
)

// listModes serves GET /modes: every mode in teaching order, without the essays.
func (h *Handler) listModes(c *gin.Context) outcome {
	all := h.Shop.Modes()
	body := api.Modes{Modes: make([]api.Mode, len(all))}
	for i, s := range all {
		body.Modes[i] = modeOf(s, h.DefaultMode)
	}
	return h.send(c, body)
}

// showMode serves GET /modes/{mode}: the same with the essay.
func (h *Handler) showMode(c *gin.Context) outcome {
	s, err := h.Shop.Mode(c.Param("mode"))
	if err != nil {
		return h.unknownMode(c, c.Param("mode"))
	}
	m := modeOf(s, h.DefaultMode)
	if doc, err := s.Mode.Doc(); err == nil {
		m.Doc = &doc
	}
	return h.send(c, m)
}

// product serves GET /products/{id}, with ?mode=rwlock under the read lock of that mode.
func (h *Handler) product(c *gin.Context) outcome {
	id, err := input.ProductID(c.Param("id"))
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	l, err := input.ReadLook(c.Request)
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	if l.Mode == "" {
		return h.sendProduct(c, id)
	}
	mode, wait := h.known[l.Mode], time.Duration(l.WaitMS)*time.Millisecond
	var p shop.Product
	err = h.Shop.ReadLocked(c.Request.Context(), l.Mode, id, wait, func(ctx context.Context) (err error) {
		p, err = h.Shop.Product(ctx, id)
		return err
	})
	if err != nil {
		return outcome{mode: mode, code: h.fail(c, err)}
	}
	out := h.send(c, product(id, p))
	out.mode = mode
	return out
}

// sendProduct reads a product and sends it; a store that does not answer makes it a problem, not a smaller product.
func (h *Handler) sendProduct(c *gin.Context, id int64) outcome {
	p, err := h.Shop.Product(c.Request.Context(), id)
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	return h.send(c, product(id, p))
}

// setStock serves PUT /products/{id}/stock and answers with the product as it is read back. If a store fails after
// another may have been set, or cannot be read back, the outcome is unknown: the request can be repeated as it is. The
// token is checked before: see [Rights].
func (h *Handler) setStock(c *gin.Context) outcome {
	id, err := input.ProductID(c.Param("id"))
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	s, err := input.ReadStockLevel(c.Request, underlying(c))
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	err = h.Shop.SetStock(c.Request.Context(), id, s.Units, s.Rules)
	var p shop.Product
	begun := err == nil || errors.Is(err, stock.ErrUnknown)
	if err == nil {
		p, err = h.Shop.Product(c.Request.Context(), id)
	}
	if err != nil {
		switch {
		case begun && errors.Is(err, stock.ErrForbidden):
			err = fmt.Errorf("%w: %w", errPartlyForbidden, err)
		case begun:
			err = fmt.Errorf("%w: %w", errPartlySet, err)
		}
		return outcome{code: h.fail(c, err)}
	}
	return h.send(c, product(id, p))
}

// adjust serves POST /products/{id}/adjust. If a store fails after another was adjusted, the outcome is unknown: the
// request must be repeated as it is.
func (h *Handler) adjust(c *gin.Context) outcome {
	id, err := input.ProductID(c.Param("id"))
	var in api.Adjust
	if err == nil {
		in, err = input.ReadOnly(c.Request, underlying(c), input.AdjustFields)
	}
	a := ledger.Adjustment{Delta: in.Delta, Reason: in.Reason}
	if err == nil {
		a.Key, err = input.ReadKey(c.Request.Header)
	}
	var done shop.Adjusted
	if err == nil {
		done, err = h.Shop.Adjust(c.Request.Context(), id, stock.Store(in.Store), a)
	}
	if err != nil {
		return outcome{code: h.failAdjusted(c, err)}
	}
	body := api.Adjusted{ProductID: id, Delta: in.Delta, Reason: in.Reason, Initial: map[api.Store]int64{},
		Stock: map[api.Store]int64{}}
	for store, left := range done.Left {
		body.Initial[api.Store(store)], body.Stock[api.Store(store)] = left.Initial, left.Stock
	}
	if done.Replay {
		c.Writer.Header()[api.HeaderReplayed] = yes
	}
	return h.send(c, body)
}

// failAdjusted answers an adjustment with the problem of err. Units come back, so "sold out" is an answer for now.
func (h *Handler) failAdjusted(c *gin.Context, err error) api.Code {
	p := problemOf(err, c.Request.URL.EscapedPath())
	switch p.Code {
	case api.SoldOut:
		p.Happened = api.NoForNow
	case api.KeyMissing:
		p.Detail = "an adjustment needs an Idempotency-Key, so that it can be repeated"
	}
	h.report(c, p.Code, err)
	return h.refuse(c, p)
}
