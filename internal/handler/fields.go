package handler

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/stock"
)

// MaxWaitMS is the longest wait_ms. The other limits of a deduction are in package stock, see [stock.Request.Check].
const MaxWaitMS = 30_000

// Defaults of a deduction, and its highest product.
const (
	defaultProduct = 101
	maxProduct     = math.MaxInt64
	defaultWaitMS  = 3000
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

// take reads and keeps one field. Package shop checks what depends on the mode, such as the store.
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
		d.waitMS, err = v.integer(name, 0, MaxWaitMS)
	default:
		err = d.takeHold(i, v)
	}
	return err
}

// takeHold keeps a field of an experiment with the lock. A lease time that is too short, and what the mode cannot do,
// is for the shop to refuse.
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

// readDeduction reads the input of a deduction. Package shop checks whether its quantities are within their limits.
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

// readKey returns the idempotency key: the bytes of the header as they are, quotes included where a client sends any,
// nil when there is no header. Nothing is trimmed, folded or cut to size, because two keys that become one are an order
// that is never made.
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
