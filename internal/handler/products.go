package handler

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
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
	id, err := productID(c)
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	l, err := readLook(c.Request)
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	if l.mode == "" {
		return h.sendProduct(c, id)
	}
	mode, wait := h.known[l.mode], time.Duration(l.waitMS)*time.Millisecond
	var p shop.Product
	err = h.Shop.ReadLocked(c.Request.Context(), l.mode, id, wait, func(ctx context.Context) (err error) {
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
	id, err := productID(c)
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	s, err := readStockLevel(c.Request, underlying(c))
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	err = h.Shop.SetStock(c.Request.Context(), id, s.units, s.rules)
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

// admin knows the admin token.
type admin struct {
	let     bool // there is one
	token   [sha256.Size]byte
	guesses bucket
}

// authorize compares the bearer token with the admin token, in a time that does not depend on either: it compares
// hashes, which are of equal length, to the last byte. Without a token configured nobody is let in.
func (a *admin) authorize(r *http.Request) error {
	if !a.let {
		return errNoAdminToken
	}
	given := r.Header["Authorization"]
	if len(given) == 0 { // no guess
		return errUnauthorized
	}
	if len(given) != 1 {
		return a.wrong(time.Now())
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if subtle.ConstantTimeCompare(sum[:], a.token[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return a.wrong(time.Now())
	}
	return nil
}

// wrong refuses a request without the admin token: with 401, or with 429 once wrong tokens come faster than
// tokenRefill. The right token is checked first and always passes; otherwise anybody could lock the operator out. So
// this does not limit the guesses: nginx does, which knows the clients, by counting the requests of each that carry a
// token. A replica without such a proxy in front needs a token that is too long to be guessed.
func (a *admin) wrong(now time.Time) error {
	if a.guesses.take(now) {
		return errUnauthorized
	}
	return errTooManyTokens
}

// productID reads the product out of the path, by the rules of any other number.
func productID(c *gin.Context) (int64, error) {
	return value{kind: plain, text: c.Param("id")}.integer("id", 1, maxProduct)
}
