package handler

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/stock"
)

// Defaults of a deduction, and how long its client may have it wait. Its other limits are in package stock, see [stock.Request.Check].
const (
	defaultProduct = 101
	maxProduct     = math.MaxInt64
	defaultWaitMS  = 3000
	maxWaitMS      = 30_000
)

// Limits of PUT .../stock.
const (
	maxStock    = 1_000_000_000
	maxSegments = 1000
)

// deduction is the input of a deduction: a target, with its defaults set before it is read.
type deduction struct {
	product, quantity int64
	items             []stock.Item // always set in the end; with more than product and quantity only for a cart
	store             stock.Store
	waitMS            int64
	hold              stock.Hold
	key               []byte
	fromItems         bool
	experiment        bool // one of the fields of hold was given
}

// The fields of a deduction, as indices into deductionNames; a line of a cart shares the first two.
const (
	fieldProduct = iota
	fieldQuantity
	fieldItems
	fieldStore
	fieldWait
	fieldLease
	fieldDepth
	fieldWork
)

var deductionNames = []string{
	"product_id", "quantity", "items", "store", "wait_ms",
	string(stock.LeaseField), string(stock.DepthField), string(stock.WorkField),
}

// names lists the fields a client may send.
func (d *deduction) names() []string { return deductionNames }

// take reads and keeps one field. Whether the mode can do with it, its own store for one, package shop will say.
func (d *deduction) take(i int, v value) (err error) {
	name := deductionNames[i]
	switch i {
	case fieldProduct:
		d.product, err = v.integer(name, 1, maxProduct)
	case fieldQuantity:
		d.quantity, err = v.number(name)
	case fieldItems:
		d.items, err = v.cart(name)
	case fieldStore:
		err = d.takeStore(name, v)
	case fieldWait:
		d.waitMS, err = v.integer(name, 0, maxWaitMS)
	default:
		err = d.takeHold(i, v)
	}
	return err
}

// takeHold keeps a field of an experiment with the lock. A lease time that is too short, and what the mode cannot do, is for the shop to
// refuse.
func (d *deduction) takeHold(i int, v value) (err error) {
	name := deductionNames[i]
	d.experiment = true
	var n int64
	switch i {
	case fieldLease:
		n, err = v.integer(name, 0, stock.MaxLease.Milliseconds())
		d.hold.Lease = time.Duration(n) * time.Millisecond
	case fieldDepth:
		n, err = v.integer(name, 0, stock.MaxDepth)
		d.hold.Depth = int(n)
	case fieldWork:
		n, err = v.integer(name, 0, stock.MaxWork.Milliseconds())
		d.hold.Work = time.Duration(n) * time.Millisecond
	}
	return err
}

// takeStore keeps the name of a store as it is written in the URL: lower case only.
func (d *deduction) takeStore(name string, v value) error {
	text, err := v.word(name)
	if err != nil {
		return err
	}
	if d.store = stock.Store(text); !slices.Contains(api.Stores, api.Store(text)) {
		return invalid(name, "must be redis, sql or etcd")
	}
	return nil
}

// cart reports that the products were given as items.
func (d *deduction) cart() bool { return d.fromItems }

// readDeduction reads the input of a deduction. Whether its quantities are within their limits, package shop will say.
func readDeduction(r *http.Request, w http.ResponseWriter) (*deduction, error) {
	d := &deduction{product: defaultProduct, quantity: 1, waitMS: defaultWaitMS}
	in := decoder{target: d}
	if err := in.read(r, w); err != nil {
		return nil, err
	}
	d.fromItems = in.given(fieldItems)
	switch {
	case !d.fromItems:
		d.items = []stock.Item{{ProductID: d.product, Quantity: d.quantity}}
	case in.given(fieldProduct) || in.given(fieldQuantity):
		return nil, invalid("items", "excludes product_id and quantity")
	}
	if d.fromItems && len(d.items) > 0 {
		d.product = d.items[0].ProductID
	}
	var err error
	d.key, err = readKey(r.Header)
	return d, err
}

// readKey returns the idempotency key: the bytes of the header as they are, quotes included where a client sends any, nil
// when there is no header. Nothing is trimmed, folded or cut to size, because two keys that become one are an order that is
// never made.
func readKey(header http.Header) ([]byte, error) {
	keys := header[api.HeaderKey]
	switch {
	case len(keys) == 0:
		return nil, nil
	case len(keys) > 1:
		return nil, invalid(api.HeaderKey, "given twice")
	case keys[0] == "":
		return nil, invalid(api.HeaderKey, "is empty")
	}
	return []byte(keys[0]), nil
}

// line is one line of a cart, a target of its own; its place in the cart is put in front of the field an error names.
type line struct{ product, quantity int64 }

var lineNames = []string{"product_id", "quantity"}

// names lists the fields of a line.
func (l *line) names() []string { return lineNames }

// take checks and keeps one field of a line.
func (l *line) take(i int, v value) (err error) {
	if i == fieldProduct {
		l.product, err = v.integer(lineNames[i], 1, maxProduct)
	} else {
		l.quantity, err = v.number(lineNames[i])
	}
	return err
}

// cart reads the lines of a cart: each names its product. Two lines may name the same: package shop makes one of them.
func (v value) cart(field string) ([]stock.Item, error) {
	if v.kind != array {
		return nil, invalid(field, "must be an array in a JSON body")
	}
	if err := v.in.open(); err != nil {
		return nil, err
	}
	var items []stock.Item
	for {
		more, err := v.in.more()
		if err != nil || !more {
			return items, err
		}
		element, err := v.in.value()
		if err != nil {
			return nil, err
		}
		item, err := element.line(fmt.Sprintf("%s[%d]", field, len(items)))
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
}

// line reads one line; field is its place, "items[3]".
func (v value) line(field string) (stock.Item, error) {
	if v.kind != object {
		return stock.Item{}, invalid(field, "must be an object, not "+kindNames[v.kind])
	}
	l := line{quantity: 1}
	in := decoder{target: &l}
	if err := in.object(field, v.in); err != nil {
		return stock.Item{}, err
	}
	if !in.given(fieldProduct) {
		return stock.Item{}, invalid(field+".product_id", "is missing")
	}
	return stock.Item{ProductID: l.product, Quantity: l.quantity}, nil
}

// under puts the place of a part in front of the field that an error names.
func under(prefix string, err error) error {
	var e *stock.InvalidError
	if prefix != "" && errors.As(err, &e) {
		return invalid(prefix+"."+e.Field, e.Why)
	}
	return err
}

// integer reads a whole number between low and high, both allowed.
func (v value) integer(field string, low, high int64) (int64, error) {
	n, exact, err := v.whole(field)
	if err == nil && (!exact || n < low || n > high) {
		return 0, invalid(field, fmt.Sprintf("must be between %d and %d", low, high))
	}
	return n, err
}

// number reads a whole number whose limits are checked later. One that is beyond 64 bits becomes the nearest that is not, which is
// beyond those limits too.
func (v value) number(field string) (int64, error) {
	n, _, err := v.whole(field)
	return n, err
}

// whole reads a whole number; exact is false for the nearest one to a number beyond 64 bits.
func (v value) whole(field string) (n int64, exact bool, err error) {
	switch {
	case v.kind == plain && v.text == "":
		return 0, false, invalid(field, "is empty")
	case v.kind != plain && v.kind != number:
		return 0, false, invalid(field, "must be a number, not "+kindNames[v.kind])
	case !isInteger(v.text):
		return 0, false, invalid(field, "must be a whole number in decimal digits, without fraction, exponent or leading zeros")
	}
	n, err = strconv.ParseInt(v.text, 10, 64)
	return n, err == nil, nil
}

// isInteger reports whether text is an integer literal as JSON has it. strconv alone would take "+1" and "007" as well,
// which JSON does not, and a query should not differ. "-0" is JSON, and refused as well: no client means it.
func isInteger(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || digits[0] == '0' && text != "0" {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return true
}

// word reads a text.
func (v value) word(field string) (string, error) {
	switch v.kind {
	case plain:
		return v.text, nil
	case quoted:
		return unquote(v.text), nil
	}
	return "", invalid(field, "must be a string, not "+kindNames[v.kind])
}

// stockLevel is the input of PUT .../stock. There is no default for the stock: a body that was lost on the way must not sell
// the shop empty.
type stockLevel struct{ units, segments int64 }

// The fields of a stockLevel, as indices into stockLevelNames.
const (
	fieldUnits = iota
	fieldSegments
)

var stockLevelNames = []string{"stock", "segments"}

// names lists the fields a client may send.
func (s *stockLevel) names() []string { return stockLevelNames }

// take checks and keeps one field.
func (s *stockLevel) take(i int, v value) (err error) {
	if i == fieldUnits {
		s.units, err = v.integer(stockLevelNames[i], 0, maxStock)
	} else {
		s.segments, err = v.integer(stockLevelNames[i], 0, maxSegments)
	}
	return err
}

// readStockLevel reads and checks the input of PUT .../stock.
func readStockLevel(r *http.Request, w http.ResponseWriter) (stockLevel, error) {
	var s stockLevel
	in := decoder{target: &s}
	if err := in.read(r, w); err != nil {
		return s, err
	}
	if !in.given(fieldUnits) {
		return s, invalid("stock", "is missing")
	}
	return s, nil
}

// nothing is the input of a path that has no fields.
type nothing struct{}

// names lists the fields a client may send.
func (nothing) names() []string { return nil }

// take is never called.
func (nothing) take(int, value) error { return nil }

// inquiry is the input of GET /products/{id}/audit: the language of its sentences, "" = English.
type inquiry struct{ lang string }

var inquiryNames = []string{"lang"}

// names lists the fields a client may send.
func (q *inquiry) names() []string { return inquiryNames }

// take checks and keeps one field.
func (q *inquiry) take(i int, v value) (err error) {
	if q.lang, err = v.word(inquiryNames[i]); err == nil && q.lang != "en" && q.lang != "zh" {
		err = invalid(inquiryNames[i], "must be en or zh")
	}
	return err
}

// Limits of a page of rows.
const (
	defaultLimit = 1000
	maxLimit     = 1000
	maxCursor    = 4096 // bytes
)

// rows is the input of GET /products/{id}/orders and /ledger: it selects a page.
type rows struct {
	limit  int64
	cursor string
}

// The fields of rows, as indices into rowsNames.
const (
	fieldLimit = iota
	fieldCursor
)

var rowsNames = []string{"limit", "cursor"}

// names lists the fields a client may send.
func (p *rows) names() []string { return rowsNames }

// take checks and keeps one field. The content of a cursor is checked when it is decoded.
func (p *rows) take(i int, v value) (err error) {
	if i == fieldLimit {
		p.limit, err = v.integer(rowsNames[i], 1, maxLimit)
		return err
	}
	if p.cursor, err = v.word(rowsNames[i]); err == nil && p.cursor == "" {
		err = invalid(rowsNames[i], "is empty")
	}
	return err
}

// readQuery reads and checks the query of a path without a body.
func readQuery(r *http.Request, t target) error {
	in := decoder{target: t}
	return in.pairs("query", r.URL.RawQuery)
}

// look is the input of GET /products/{id}: by which mode to read, "" = by none, without a lock.
type look struct {
	mode   string
	waitMS int64
}

// The fields of a look, as indices into lookNames.
const (
	fieldLookMode = iota
	fieldLookWait
)

var lookNames = []string{"mode", "wait_ms"}

// names lists the fields a client may send.
func (l *look) names() []string { return lookNames }

// take checks and keeps one field. Whether there is such a mode, and whether it can read, package shop will say.
func (l *look) take(i int, v value) (err error) {
	if i == fieldLookWait {
		l.waitMS, err = v.integer(lookNames[i], 0, maxWaitMS)
		return err
	}
	if l.mode, err = v.word(lookNames[i]); err == nil && l.mode == "" {
		err = invalid(lookNames[i], "is empty")
	}
	return err
}

// readLook reads and checks the query of GET /products/{id}. A body means nothing there.
func readLook(r *http.Request) (look, error) {
	l := look{waitMS: defaultWaitMS}
	in := decoder{target: &l}
	if err := in.pairs("query", r.URL.RawQuery); err != nil {
		return l, err
	}
	if in.given(fieldLookWait) && l.mode == "" {
		return l, invalid(lookNames[fieldLookWait], "needs a mode: without one nothing is waited for")
	}
	return l, nil
}
