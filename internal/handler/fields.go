package handler

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/stock"
)

// MaxWaitMS is the longest wait_ms. The other limits of a deduction are in package stock, see [stock.Request.Check].
const MaxWaitMS = 30_000

// Limits of the other fields.
const (
	maxProduct  = math.MaxInt64
	maxStock    = 1_000_000_000
	maxSegments = 1000
	maxLimit    = 1000
	maxCursor   = 4096 // bytes
	minHoldMS   = int64(stock.MinHold / time.Millisecond)
	maxHoldMS   = int64(stock.MaxHold / time.Millisecond)
)

// Values of fields that are not given.
const (
	defaultProduct = 101
	defaultWaitMS  = 3000
	defaultLimit   = 1000
)

// This file is the table of all fields that clients may send: name, limits, and where the value goes.

// wanted are the fields that a deduction and a hold share.
var wanted = fields[deduction]{
	{"product_id", between(1, maxProduct, func(d *deduction, n int64) { d.product = n })},
	{"quantity", anyWhole(func(d *deduction, n int64) { d.quantity = n })},
	{"items", func(d *deduction, name string, v value) (err error) {
		d.items, err = v.cart(name)
		return err
	}},
	{"buyer", func(d *deduction, name string, v value) (err error) {
		if d.buyer, err = v.word(name); err == nil && (d.buyer == "" || len(d.buyer) > stock.MaxBuyer) {
			err = invalid(name, fmt.Sprintf("must be 1 to %d bytes", stock.MaxBuyer))
		}
		return err
	}},
	{"wait_ms", between(0, MaxWaitMS, func(d *deduction, n int64) { d.waitMS = n })},
}

// deductionFields are the fields of a deduction. Package shop checks what depends on the mode, such as the store, a
// lease time that is too short, and what the mode cannot do.
var deductionFields = slices.Concat(wanted[:3], fields[deduction]{
	{"store", func(d *deduction, name string, v value) error {
		text, err := v.word(name)
		if d.store = stock.Store(text); err == nil && !slices.Contains(api.Stores, api.Store(text)) {
			err = invalid(name, "must be redis, sql or etcd")
		}
		return err
	}},
}, wanted[3:], fields[deduction]{
	{string(stock.LeaseField), between(0, stock.MaxLease.Milliseconds(), func(d *deduction, n int64) {
		d.hold.Lease, d.experiment = time.Duration(n)*time.Millisecond, true
	})},
	{string(stock.DepthField), between(0, stock.MaxDepth, func(d *deduction, n int64) {
		d.hold.Depth, d.experiment = int(n), true
	})},
	{string(stock.WorkField), between(0, stock.MaxWork.Milliseconds(), func(d *deduction, n int64) {
		d.hold.Work, d.experiment = time.Duration(n)*time.Millisecond, true
	})},
})

// reservationFields are the fields of a request to hold units.
var reservationFields = slices.Concat(wanted[:4], fields[deduction]{
	{"hold_ms", between(minHoldMS, maxHoldMS, func(d *deduction, n int64) { d.holdMS = n })},
}, wanted[4:])

// extensionFields are the fields of an extension.
var extensionFields = fields[int64]{
	{"hold_ms", between(minHoldMS, maxHoldMS, func(ms *int64, n int64) { *ms = n })},
}

// returnFields are the fields of a return. There is no default: whether units can be sold again is for the sender to
// say.
var returnFields = fields[bool]{{"restock", func(restock *bool, name string, v value) (err error) {
	*restock, err = v.yes(name)
	return err
}}}

// heldRows is the input of GET /products/{id}/reservations.
type heldRows struct {
	store  stock.Store
	cursor string
}

var heldRowsFields = fields[heldRows]{
	{"store", func(r *heldRows, name string, v value) error {
		text, err := v.word(name)
		if r.store = stock.Store(text); err == nil && text != string(stock.SQL) && text != string(stock.Redis) {
			err = invalid(name, "must be sql or redis")
		}
		return err
	}},
	{"cursor", filled(func(r *heldRows, text string) { r.cursor = text })},
}

// lineFields are the fields of a line of a cart.
var lineFields = fields[stock.Item]{
	{"product_id", between(1, maxProduct, func(i *stock.Item, n int64) { i.ProductID = n })},
	{"quantity", anyWhole(func(i *stock.Item, n int64) { i.Quantity = n })},
}

// stockLevel is the input of PUT .../stock. There is no default for the stock: a body that was lost on the way must not
// sell the shop empty.
type stockLevel struct {
	units int64
	rules ledger.Rules
}

var stockLevelFields = fields[stockLevel]{
	{"per_buyer", between(1, maxStock, func(s *stockLevel, n int64) { s.rules.PerBuyer = n })},
	{"late", func(s *stockLevel, name string, v value) (err error) {
		if s.rules.Late, err = v.word(name); err == nil && s.rules.Late != ledger.LateRefund &&
			s.rules.Late != ledger.LateRehold {
			err = invalid(name, "must be refund or rehold")
		}
		return err
	}},
	{"units", func(s *stockLevel, name string, v value) (err error) {
		s.rules.Units, err = v.yes(name)
		return err
	}},
	{"stock", between(0, maxStock, func(s *stockLevel, n int64) { s.units = n })},
	{"segments", between(0, maxSegments, func(s *stockLevel, n int64) { s.rules.Segments = int(n) })},
}

// rows is the input of GET /products/{id}/orders and /ledger: it selects a page.
type rows struct {
	limit  int64
	cursor string
}

// rowsFields are the fields of rows. The content of a cursor is checked when it is decoded.
var rowsFields = fields[rows]{
	{"limit", between(1, maxLimit, func(p *rows, n int64) { p.limit = n })},
	{"cursor", filled(func(p *rows, text string) { p.cursor = text })},
}

// look is the input of GET /products/{id}: by which mode to read, "" = by none, without a lock.
type look struct {
	mode   string
	waitMS int64
}

// lookFields are the fields of a look. Package shop checks whether there is such a mode, and whether it has a lock for
// readers.
var lookFields = fields[look]{
	{"mode", filled(func(l *look, text string) { l.mode = text })},
	{"wait_ms", between(0, MaxWaitMS, func(l *look, n int64) { l.waitMS = n })},
}

// inquiryFields are the fields of GET /products/{id}/audit: the language of its sentences, "" = English.
var inquiryFields = fields[string]{{"lang", func(lang *string, name string, v value) (err error) {
	if *lang, err = v.word(name); err == nil && *lang != "en" && *lang != "zh" {
		err = invalid(name, "must be en or zh")
	}
	return err
}}}

// excludable are the backends that /readyz checks.
var excludable = []string{"redis", "sql"}

// readinessFields are the fields of /readyz: the backends to ignore, comma-separated.
var readinessFields = fields[[]string]{{"exclude", func(exclude *[]string, name string, v value) error {
	word, err := v.word(name)
	if err != nil {
		return err
	}
	*exclude = strings.Split(word, ",")
	if slices.ContainsFunc(*exclude, func(name string) bool { return !slices.Contains(excludable, name) }) {
		err = invalid(name, "must be "+strings.Join(excludable, " or ")+", or both with a comma")
	}
	return err
}}}

// noFields are those of a path that has none.
var noFields fields[struct{}]

// readStockLevel reads and checks the input of PUT .../stock, which is in the body; a query is refused.
func readStockLevel(r *http.Request, w http.ResponseWriter) (s stockLevel, err error) {
	if strings.Trim(r.URL.RawQuery, "&") != "" {
		return s, invalid("query", "must be empty: "+strings.Join(stockLevelFields.names(), " and ")+" belong in the body")
	}
	in := decoder[stockLevel]{fields: stockLevelFields, into: &s}
	err = in.read(r, w)
	switch {
	case err != nil:
	case !in.given("stock"):
		err = invalid("stock", "is missing")
	case s.rules.Units && s.units > ledger.MaxUnits:
		err = invalid("units", fmt.Sprintf("makes a row per unit: at most %d units", ledger.MaxUnits))
	case s.rules.Segments > 0 && (s.rules.Units || s.rules.PerBuyer > 0):
		err = invalid("segments", "excludes units and per_buyer")
	}
	return s, err
}

// readOnly reads the only field of a path, which must be given.
func readOnly[T any](c *gin.Context, f fields[T]) (v T, err error) {
	in := decoder[T]{fields: f, into: &v}
	if err = in.read(c.Request, underlying(c)); err == nil && !in.given(f[0].name) {
		err = invalid(f[0].name, "is missing")
	}
	return v, err
}

// readQuery reads and checks the query of a path without a body.
func readQuery[T any](r *http.Request, f fields[T], into *T) error {
	in := decoder[T]{fields: f, into: into}
	return in.pairs("query", r.URL.RawQuery)
}

// readLook reads and checks the query of GET /products/{id}. A body means nothing there.
func readLook(r *http.Request) (look, error) {
	l := look{waitMS: defaultWaitMS}
	in := decoder[look]{fields: lookFields, into: &l}
	err := in.pairs("query", r.URL.RawQuery)
	if err == nil && in.given("wait_ms") && l.mode == "" {
		err = invalid("wait_ms", "needs a mode: without one nothing is waited for")
	}
	return l, err
}
