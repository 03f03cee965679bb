package rig

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"lastitem/internal/api"
	"lastitem/internal/audit"
)

// setup runs SetupSQL in the schema of a lane.
func (f *Foreign) setup(ctx context.Context, l *Lane) error {
	if !f.UsesSQL() {
		return nil
	}
	if _, err := l.access(); err != nil {
		return err
	}
	return l.exec(ctx, "setup-sql", f.SetupSQL, nil)
}

// exec runs statements in the lane's schema, their placeholders filled in. option is the flag that an error names.
func (l *Lane) exec(ctx context.Context, option string, statements []string, values map[string]string) error {
	for _, s := range statements {
		if _, err := l.db.ExecContext(ctx, expand(s, values)); err != nil {
			return fmt.Errorf("faultlab: --%s %q: %w", option, s, err)
		}
	}
	return nil
}

// reset runs the resets of the description, and returns an error unless the ledger then shows the stock and no orders.
func (f *Foreign) reset(ctx context.Context, l *Lane, r Reset) error {
	values := map[string]string{"product": strconv.FormatInt(r.Product, 10), "stock": strconv.FormatInt(r.Stock, 10)}
	if f.UsesRedis() && !f.KeepRedis {
		if _, err := l.redis().do(ctx, "FLUSHALL"); err != nil {
			return err
		}
	}
	if err := l.exec(ctx, "reset-sql", f.ResetSQL, values); err != nil {
		return err
	}
	for _, text := range f.ResetRedis {
		if _, err := l.redisCommand(ctx, "reset-redis", text, values); err != nil {
			return err
		}
	}
	for _, text := range f.ResetURL {
		req, err := f.toSend(l.asker(), text, values)
		if err != nil {
			return err
		}
		if _, err := send(req.WithContext(ctx)); err != nil {
			return fmt.Errorf("--reset-url: %w", err)
		}
	}
	ledger, err := f.ledger(ctx, l)
	if err != nil {
		return err
	}
	if ledger.Stock[theirStore] != r.Stock || len(ledger.Orders) > 0 {
		return fmt.Errorf("faultlab: the reset did not reset product %[3]d: it has %[1]d units and %[2]d orders, want %[4]d and none; see --reset-sql, --reset-redis and --reset-url",
			ledger.Stock[theirStore], len(ledger.Orders), r.Product, r.Stock)
	}
	l.initial = r.Stock
	return nil
}

// redisCommand runs a command of the description on the lane's Redis and returns the values of its answer.
func (l *Lane) redisCommand(ctx context.Context, option, text string, values map[string]string) ([]string, error) {
	words, err := SplitWords(text)
	if err != nil {
		return nil, err
	}
	for i, w := range words {
		words[i] = expand(w, values)
	}
	all, err := l.redis().all(ctx, words...)
	if err != nil {
		return nil, fmt.Errorf("--%s %q: %w", option, text, err)
	}
	return all, nil
}

// ledger reads the remaining stock and the orders as Stock and Orders say. SQL and Redis are read without the proxies.
func (f *Foreign) ledger(ctx context.Context, l *Lane) (*api.Ledger, error) {
	stock, err := f.Stock.read(ctx, l, f, "stock")
	if err != nil {
		return nil, err
	}
	units, err := total(stock)
	if err != nil {
		return nil, fmt.Errorf("faultlab: --stock-...: %w", err)
	}
	rows, err := f.Orders.read(ctx, l, f, "orders")
	if err != nil {
		return nil, err
	}
	ledger := &api.Ledger{
		ProductID: l.Product(), Orders: []api.Order{},
		Initial: map[api.Store]int64{theirStore: l.initial}, Stock: map[api.Store]int64{theirStore: units},
	}
	for _, row := range rows {
		ledger.Orders = append(ledger.Orders, row.order(l.Product()))
	}
	return ledger, nil
}

// row is a row of a source: values by lower-case name; a value without a name has the name "".
type row map[string]string

// total adds up all numbers of the rows, since a service may keep a product's stock in several parts.
func total(rows []row) (int64, error) {
	var sum int64
	seen := false
	for _, r := range rows {
		for _, v := range r {
			n, err := strconv.ParseFloat(v, 64)
			if err != nil {
				return 0, fmt.Errorf("%q is not a number of units", v)
			}
			sum, seen = sum+int64(n), true
		}
	}
	if !seen {
		return 0, errors.New("the answer has no number of units")
	}
	return sum, nil
}

// The names under which the columns or fields of an order are found.
var (
	idNames       = []string{"order_id", "orderid", "id", ""}
	quantityNames = []string{"quantity", "qty", "units"}
	keyNames      = []string{"idempotency_key", "idem_key", "request_id", "key"}
)

func (r row) order(product int64) api.Order {
	o := api.Order{ProductID: product, Mode: ServiceName, Store: theirStore, Quantity: 1, OrderID: r.first(idNames), Key: r.first(keyNames)}
	if len(r) == 1 {
		for _, only := range r {
			o.OrderID = only
		}
	}
	if q := r.first(quantityNames); q != "" {
		o.Quantity, _ = strconv.ParseInt(q, 10, 64)
	}
	return o
}

func (r row) first(names []string) string {
	for _, name := range names {
		if v, there := r[name]; there {
			return v
		}
	}
	return ""
}

// read returns the rows of a source. what, stock or orders, names the option in errors.
func (s Source) read(ctx context.Context, l *Lane, f *Foreign, what string) ([]row, error) {
	values := map[string]string{"product": strconv.FormatInt(l.Product(), 10)}
	switch {
	case s.SQL != "":
		rows, err := query(ctx, l.db, expand(s.SQL, values))
		if err != nil {
			return nil, fmt.Errorf("faultlab: --%s-sql %q: %w", what, s.SQL, err)
		}
		return rows, nil
	case s.Redis != "":
		all, err := l.redisCommand(ctx, what+"-redis", s.Redis, values)
		if err != nil {
			return nil, err
		}
		var rows []row
		for _, text := range all {
			rows = append(rows, rowsIn(json.RawMessage(text), text)...)
		}
		return rows, nil
	}
	path, pointer, _ := strings.Cut(s.URL, "#")
	req, err := f.toSend(l.asker(), "GET "+path, values)
	if err != nil {
		return nil, err
	}
	body, err := send(req.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("--%s-url: %w", what, err)
	}
	found, err := pick(body, pointer)
	if err != nil {
		return nil, fmt.Errorf("faultlab: --%s-url %q: %w in %.200s", what, s.URL, err, body)
	}
	return rowsIn(found, scalar(found)), nil
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

// rowsIn makes rows from JSON: an array gives a row for each element, an object one row, anything else one row with the value text.
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
	if pointer, _ = url.PathUnescape(pointer); pointer != "" && !strings.HasPrefix(pointer, "/") {
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

// named completes the answers of a foreign service. An answer without an order's id gets the id of an order that no other answer names: the one
// with the same key or, if orders have no keys, the next. An answer that repeats the key and the order of an earlier one is a replay.
func named(ops []audit.Op, rows []api.Order) []audit.Op {
	taken := map[string]bool{}
	answered := map[[2]string]bool{}
	for i, op := range ops {
		if op.Outcome != audit.OK || op.OrderID == "" {
			continue
		}
		same := [2]string{op.Key, op.OrderID}
		ops[i].Replayed = op.Replayed || op.Key != "" && answered[same]
		answered[same], taken[op.OrderID] = true, true
	}
	keyed := slices.ContainsFunc(rows, func(o api.Order) bool { return o.Key != "" })
	for i, op := range ops {
		if op.Outcome != audit.OK || op.OrderID != "" {
			continue
		}
		free := slices.IndexFunc(rows, func(o api.Order) bool { return !taken[o.OrderID] && (!keyed || o.Key == op.Key) })
		if free < 0 {
			ops[i].OrderID = fmt.Sprintf("none (answer %d)", i+1) // no such order: the judge will find it missing
			continue
		}
		ops[i].OrderID, taken[rows[free].OrderID] = rows[free].OrderID, true
	}
	return ops
}

// answerOf sends a request and returns its outcome, and the answer as text for an error message.
func (f *Foreign) answerOf(ctx context.Context, replica string, a Ask) (op audit.Op, text string, err error) {
	req, err := f.request(replica, a)
	if err != nil {
		return op, "", err
	}
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req.WithContext(ctx))
	if err != nil {
		return op, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return f.answer(res, body), fmt.Sprintf("%s %s answered %s: %.300s", req.Method, req.URL.RequestURI(), res.Status, bytes.TrimSpace(body)), err
}
