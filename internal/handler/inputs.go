package handler

import (
	"errors"
	"fmt"
	"net/http"

	"lastitem/contract/api"
	"lastitem/internal/stock"
)

// deduction is the input of a deduction or of a hold, with its defaults set before it is read.
type deduction struct {
	product, quantity int64
	items             []stock.Item // always set in the end; with more than product and quantity only for a cart
	store             stock.Store
	buyer             string
	waitMS, holdMS    int64
	hold              stock.Hold
	key               []byte
	cart              bool // the products were given as items
	experiment        bool // one of the fields of hold was given
}

// readDeduction reads the input of a deduction or of a hold. Package shop checks whether its quantities are within
// their limits.
func readDeduction(r *http.Request, w http.ResponseWriter, f fields[deduction]) (*deduction, error) {
	d := &deduction{product: defaultProduct, quantity: 1, waitMS: defaultWaitMS, holdMS: stock.DefaultHold.Milliseconds()}
	in := decoder[deduction]{fields: f, into: d}
	if err := in.read(r, w); err != nil {
		return nil, err
	}
	d.cart = in.given("items")
	switch {
	case !d.cart:
		d.items = []stock.Item{{ProductID: d.product, Quantity: d.quantity}}
	case in.given("product_id") || in.given("quantity"):
		return nil, invalid("items", "excludes product_id and quantity")
	}
	if d.cart && len(d.items) > 0 {
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

// cart reads the lines of a cart: each names its product. Two lines may name the same: package shop makes one of them.
func (v value) cart(field string) (items []stock.Item, err error) {
	if v.kind != '[' {
		return nil, invalid(field, "must be an array in a JSON body")
	}
	err = v.each(func(_ string, line value) error {
		item, err := line.line(fmt.Sprintf("%s[%d]", field, len(items)))
		items = append(items, item)
		return err
	})
	return items, err
}

// line reads one line; field is its place, "items[3]", which stands in front of the field that an error names.
func (v value) line(field string) (stock.Item, error) {
	if v.kind != '{' {
		return stock.Item{}, invalid(field, "must be an object, not "+kindNames[v.kind])
	}
	item := stock.Item{Quantity: 1}
	in := decoder[stock.Item]{fields: lineFields, into: &item}
	err := v.each(in.set)
	var wrong *stock.InvalidError
	switch {
	case errors.As(err, &wrong):
		err = invalid(field+"."+wrong.Field, wrong.Why)
	case err == nil && !in.given("product_id"):
		err = invalid(field+".product_id", "is missing")
	}
	return item, err
}
