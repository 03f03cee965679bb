package input

import (
	"fmt"
	"net/http"
	"strings"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/stock"
)

// ReadDeduction reads the input of a deduction or of a hold. Package shop checks whether its quantities are within
// their limits.
func ReadDeduction(r *http.Request, w http.ResponseWriter, f Fields[Deduction]) (*Deduction, error) {
	d := &Deduction{Product: defaultProduct, Quantity: 1, WaitMS: defaultWaitMS}
	in := decoder[Deduction]{Fields: f, into: d}
	if err := in.read(r, w); err != nil {
		return nil, err
	}
	d.Cart = in.given("items")
	switch {
	case !d.Cart:
		d.Items = []stock.Item{{ProductID: d.Product, Quantity: d.Quantity}}
	case in.given("product_id") || in.given("quantity"):
		return nil, Invalid("items", "excludes product_id and quantity")
	}
	if d.Cart && len(d.Items) > 0 {
		d.Product = d.Items[0].ProductID
	}
	var err error
	d.Key, err = ReadKey(r.Header)
	return d, err
}

// ReadKey returns the idempotency key: the bytes of the header as they are, quotes included where a client sends any,
// nil when there is no header. Nothing is trimmed, folded or cut to size, because two keys that become one are an order
// that is never made.
func ReadKey(header http.Header) ([]byte, error) {
	keys := header[api.HeaderKey]
	switch {
	case len(keys) == 0:
		return nil, nil
	case len(keys) > 1:
		return nil, Invalid(api.HeaderKey, "given twice")
	case keys[0] == "":
		return nil, Invalid(api.HeaderKey, "is empty")
	}
	return []byte(keys[0]), nil
}

// ReadStockLevel reads and checks the input of PUT .../stock, which is in the body; a query is refused.
func ReadStockLevel(r *http.Request, w http.ResponseWriter) (s StockLevel, err error) {
	if strings.Trim(r.URL.RawQuery, "&") != "" {
		return s, Invalid("query", "must be empty: "+strings.Join(StockLevelFields.Names(), " and ")+" belong in the body")
	}
	in := decoder[StockLevel]{Fields: StockLevelFields, into: &s}
	err = in.read(r, w)
	switch {
	case err != nil:
	case !in.given("stock"):
		err = Invalid("stock", "is missing")
	case s.Rules.Units && s.Units > ledger.MaxUnits:
		err = Invalid("units", fmt.Sprintf("makes a row per unit: at most %d units", ledger.MaxUnits))
	case s.Rules.Segments > 0 && (s.Rules.Units || s.Rules.PerBuyer > 0):
		err = Invalid("segments", "excludes units and per_buyer")
	}
	return s, err
}

// ReadOnly reads the fields of a path, the first of which, often the only one, must be given.
func ReadOnly[T any](r *http.Request, w http.ResponseWriter, f Fields[T]) (v T, err error) {
	in := decoder[T]{Fields: f, into: &v}
	if err = in.read(r, w); err == nil && !in.given(f[0].name) {
		err = Invalid(f[0].name, "is missing")
	}
	return v, err
}

// ReadQuery reads and checks the query of a path without a body.
func ReadQuery[T any](r *http.Request, f Fields[T], into *T) error {
	in := decoder[T]{Fields: f, into: into}
	return in.pairs("query", r.URL.RawQuery)
}

// ReadLook reads and checks the query of GET /products/{id}. A body means nothing there.
func ReadLook(r *http.Request) (Look, error) {
	l := Look{WaitMS: defaultWaitMS}
	in := decoder[Look]{Fields: LookFields, into: &l}
	err := in.pairs("query", r.URL.RawQuery)
	if err == nil && in.given("wait_ms") && l.Mode == "" {
		err = Invalid("wait_ms", "needs a mode: without one nothing is waited for")
	}
	return l, err
}

// ReadPart reads the input of a cancel, all of which may be left out.
func ReadPart(r *http.Request, w http.ResponseWriter) (p ledger.Part, err error) {
	in := decoder[ledger.Part]{Fields: CancelFields, into: &p}
	if err = in.read(r, w); err == nil {
		p.Key, err = ReadKey(r.Header)
	}
	return p, err
}

// ReadReturn reads the input of a return.
func ReadReturn(r *http.Request, w http.ResponseWriter) (in Return, err error) {
	if in, err = ReadOnly(r, w, ReturnFields); err == nil {
		in.Part.Key, err = ReadKey(r.Header)
	}
	return in, err
}

// ReadRepair reads the input of a reconciliation.
func ReadRepair(r *http.Request, w http.ResponseWriter) (repair bool, err error) {
	in := decoder[bool]{Fields: RepairFields, into: &repair}
	err = in.read(r, w)
	return repair, err
}

// ReadNothing refuses fields where a path has none.
func ReadNothing(r *http.Request, w http.ResponseWriter) error {
	in := decoder[struct{}]{Fields: NoFields, into: &struct{}{}}
	return in.read(r, w)
}

// ProductID reads the product out of a path, by the rules of any other number.
func ProductID(text string) (int64, error) {
	return value{kind: plain, text: text}.integer("id", 1, maxProduct)
}
