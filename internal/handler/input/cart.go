package input

import (
	"errors"
	"fmt"
	"math"

	"lastitem/internal/stock"
)

// maxProduct is the largest id of a product.
const maxProduct = math.MaxInt64

// LineFields are the fields of a line of a cart.
var LineFields = Fields[stock.Item]{
	{"product_id", between(1, maxProduct, func(i *stock.Item, n int64) { i.ProductID = n })},
	{"quantity", anyWhole(func(i *stock.Item, n int64) { i.Quantity = n })},
}

// cart reads the lines of a cart: each names its product. Two lines may name the same: package shop makes one of them.
func (v value) cart(field string) (items []stock.Item, err error) {
	if v.kind != '[' {
		return nil, Invalid(field, "must be an array in a JSON body")
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
		return stock.Item{}, Invalid(field, "must be an object, not "+kindNames[v.kind])
	}
	item := stock.Item{Quantity: 1}
	in := decoder[stock.Item]{Fields: LineFields, into: &item}
	err := v.each(in.set)
	var wrong *stock.InvalidError
	switch {
	case errors.As(err, &wrong):
		err = Invalid(field+"."+wrong.Field, wrong.Why)
	case err == nil && !in.given("product_id"):
		err = Invalid(field+".product_id", "is missing")
	}
	return item, err
}
