package target

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// row is a row of a source: values by lower-case name; a value without a name has the name "".
type row map[string]string

// total adds up all numbers of the rows, since a service may keep a product's stock in several parts: these too, by
// row and name.
func total(rows []row) (sum int64, parts map[string]int64, err error) {
	parts = map[string]int64{}
	for i, r := range rows {
		for name, v := range r {
			n, err := unitsIn(v)
			if err != nil {
				return 0, nil, err
			}
			sum += n
			parts[strings.TrimSpace(fmt.Sprint(name, " ", i+1))] = n
		}
	}
	if len(parts) == 0 {
		return 0, nil, errors.New("the answer has no number of units")
	}
	return sum, parts, nil
}

// unitsIn reads a number of units. It may be written with decimals, as a column of type DECIMAL is.
func unitsIn(text string) (int64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of units", text)
	}
	return int64(n), nil
}

// The names under which the columns or fields of an order are found, in lower case.
var (
	IDNames = []string{"order_id", "orderid", "id", "", "order_no", "orderno", "order_number", "ordernumber", "order_sn",
		"ordersn", "number", "uuid"}
	QuantityNames = []string{"quantity", "qty", "units"}
	KeyNames      = []string{"idempotency_key", "idem_key", "request_id", "key"}
)

// String is the row as JSON, cut off after 200 characters.
func (r row) String() string {
	return fmt.Sprintf("%.200s", encoded(map[string]string(r)))
}

// saysQuantity says whether a row has a quantity, be it in its only line.
func (r row) saysQuantity() bool {
	q, err := r.quantity()
	return q != "" && err == nil
}

// quantity is how many units a row says it is about; "" = it does not say. A row with lines has it in its line.
func (r row) quantity() (string, error) {
	if q := r.first(QuantityNames); q != "" {
		return q, nil
	}
	for name, v := range r {
		var lines []json.RawMessage
		if !strings.HasPrefix(v, "[{") || json.Unmarshal([]byte(v), &lines) != nil {
			continue
		}
		switch found := rowsIn(json.RawMessage(v), v); {
		case found[0].first(QuantityNames) == "":
		case len(found) == 1:
			return found[0].first(QuantityNames), nil
		default:
			return "", unfit(text.Of("--orders-...: the row %s has %d %s, whose quantities are not read: give a row for each "+
				"order with its quantity"), r, len(found), name)
		}
	}
	return "", nil
}

// ordersOf makes orders of rows. Their id is what they have under the first of IDNames that is another in each, or
// under the first at all; rows without any are told apart by all that is in them.
func ordersOf(rows []row, product int64) ([]api.Order, error) {
	all, names, seen := make([]api.Order, len(rows)), IDNames, map[string]int{}
	for _, name := range IDNames {
		if distinct(rows, name) {
			names = []string{name}
			break
		}
	}
	for i, r := range rows {
		o, err := r.order(product, names)
		if err != nil {
			return nil, err
		}
		if o.OrderID == "" {
			o.OrderID = string(encoded(map[string]string(r)))
			if seen[o.OrderID]++; seen[o.OrderID] > 1 {
				o.OrderID = fmt.Sprintf("%s (%d)", o.OrderID, seen[o.OrderID])
			}
		}
		all[i] = o
	}
	return all, nil
}

// distinct says whether each row has another value under a name.
func distinct(rows []row, name string) bool {
	seen := map[string]bool{}
	for _, r := range rows {
		if r[name] == "" || seen[r[name]] {
			return false
		}
		seen[r[name]] = true
	}
	return true
}

// order makes an order of a row: of one unit, unless a column or field has the quantity.
func (r row) order(product int64, ids []string) (o api.Order, err error) {
	o = api.Order{ProductID: product, Mode: ServiceName, Store: ForeignStore, Quantity: 1, OrderID: r.first(ids),
		Key: r.first(KeyNames)}
	if len(r) == 1 {
		for _, only := range r {
			o.OrderID = only
		}
	}
	q, err := r.quantity()
	if q != "" {
		o.Quantity, err = unitsIn(q)
	}
	return o, err
}

func (r row) first(names []string) string {
	for _, name := range names {
		if v, there := r[name]; there {
			return v
		}
	}
	return ""
}

// query returns the rows of a statement; NULL values are left out.
func query(ctx context.Context, db *sql.DB, statement string) ([]row, error) {
	res, err := db.QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Close() }()
	columns, err := res.Columns()
	if err != nil {
		return nil, err
	}
	var all []row
	for res.Next() {
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := res.Scan(into...); err != nil {
			return nil, err
		}
		r := row{}
		for i, name := range columns {
			if values[i].Valid {
				r[strings.ToLower(name)] = values[i].String
			}
		}
		all = append(all, r)
	}
	return all, res.Err()
}

// rowsIn makes rows from JSON: an array gives a row for each element, an object one row, anything else one row with the
// value text.
func rowsIn(found json.RawMessage, text string) []row {
	var array []json.RawMessage
	if json.Unmarshal(found, &array) == nil {
		var all []row
		for _, x := range array {
			all = append(all, rowsIn(x, scalar(x))...)
		}
		return all
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(found, &object) != nil || object == nil {
		return []row{{"": text}}
	}
	r := row{}
	for name, v := range object {
		if !bytes.Equal(v, []byte("null")) {
			r[strings.ToLower(name)] = scalar(v)
		}
	}
	return []row{r}
}

// scalar returns a JSON value as text; a string loses its quotes.
func scalar(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	return strings.TrimSpace(string(v))
}

// pick returns the value at a JSON pointer (RFC 6901); "" is the whole document. A leading "/" may be missing.
func pick(body []byte, pointer string) (json.RawMessage, error) {
	pointer, _ = url.PathUnescape(pointer)
	if pointer != "" && !strings.HasPrefix(pointer, "/") {
		pointer = "/" + pointer
	}
	v := json.RawMessage(body)
	for _, name := range strings.Split(pointer, "/")[1:] {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		var object map[string]json.RawMessage
		var array []json.RawMessage
		i, notNumber := strconv.Atoi(name)
		switch {
		case json.Unmarshal(v, &object) == nil && object[name] != nil:
			v = object[name]
		case json.Unmarshal(v, &array) == nil && notNumber == nil && i >= 0 && i < len(array):
			v = array[i]
		default:
			return nil, fmt.Errorf("there is no %s", pointer)
		}
	}
	return v, nil
}
