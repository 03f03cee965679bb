package rig

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"lastitem/contract/api"
	"lastitem/judge"
)

// redisCommand runs a command of the description on the lane's Redis and returns the values of its answer.
func redisCommand(ctx context.Context, l *Lane, option, text string, values map[string]string) ([]string, error) {
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
	var rows []row
	if f.Orders != (Source{}) {
		if rows, err = f.Orders.read(ctx, l, f, "orders"); err != nil {
			return nil, err
		}
	}
	ledger := &api.Ledger{
		ProductID: l.Product(), Orders: []api.Order{},
		Initial: map[api.Store]int64{foreignStore: l.initial}, Stock: map[api.Store]int64{foreignStore: units},
	}
	for _, row := range rows {
		order, err := row.order(l.Product())
		if err != nil {
			return nil, fmt.Errorf("faultlab: --orders-...: %w", err)
		}
		ledger.Orders = append(ledger.Orders, order)
	}
	return ledger, nil
}

// read returns the rows of a source. what, stock or orders, names the option in errors.
func (s Source) read(ctx context.Context, l *Lane, f *Foreign, what string) ([]row, error) {
	values := map[string]string{"product": strconv.FormatInt(l.Product(), 10)}
	switch {
	case s.SQL != "":
		rows, err := query(ctx, l.SQL.db, expand(s.SQL, values))
		if err != nil {
			return nil, fmt.Errorf("faultlab: --%s-sql %q: %w", what, s.SQL, err)
		}
		return rows, nil
	case s.Redis != "":
		all, err := redisCommand(ctx, l, what+"-redis", s.Redis, values)
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
	base := l.asker()
	if host := hostOf(path); host != "" {
		base, path = host, strings.TrimPrefix(path, host)
	}
	req, err := f.toSend(base, "GET "+path, values)
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

// Named completes the answers of a foreign service. An answer without an order's id gets the id of an order that no
// other answer names: the one with the same key or, if orders have no keys, the next. An answer that repeats the key
// and the order of an earlier one is a replay.
func Named(ops []judge.Op, rows []api.Order) []judge.Op {
	taken := map[string]bool{}
	answered := map[[2]string]bool{}
	for i, op := range ops {
		if op.Outcome != judge.OK || op.OrderID == "" {
			continue
		}
		same := [2]string{op.Key, op.OrderID}
		ops[i].Replayed = op.Replayed || op.Key != "" && answered[same]
		answered[same], taken[op.OrderID] = true, true
	}
	keyed := slices.ContainsFunc(rows, func(o api.Order) bool { return o.Key != "" })
	for i, op := range ops {
		if op.Outcome != judge.OK || op.OrderID != "" {
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
func (f *Foreign) answerOf(ctx context.Context, replica string, a Ask) (op judge.Op, text string, err error) {
	req, err := f.request(replica, a)
	if err != nil {
		return op, "", err
	}
	client := http.Client{Timeout: Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req.WithContext(ctx))
	if err != nil {
		return op, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return f.answer(res, body), fmt.Sprintf("%s %s answered %s: %.300s", req.Method, req.URL.RequestURI(), res.Status,
		bytes.TrimSpace(body)), err
}

// moreThanCustomers says whether there are more orders than customers who may have one, if a customer repeated a
// request: only then two requests have one key. It needs no name of an order, neither in the answers nor by key.
func moreThanCustomers(seen []judge.Op, orders []api.Order) bool {
	customers, repeated := map[string]bool{}, false
	for _, op := range seen {
		if op.Outcome == judge.OK || op.Outcome == judge.Unknown {
			repeated = repeated || customers[op.Key]
			customers[op.Key] = true
		}
	}
	return repeated && len(orders) > len(customers)
}

// soldTwice says whether one key was answered with two orders. The lab has seen both answers, even one for which the
// client no longer waited; the ledger shows the second order only if orders have keys.
func soldTwice(seen []judge.Op) bool {
	orders := map[string]string{}
	for _, op := range seen {
		if op.Outcome != judge.OK || op.Key == "" || op.OrderID == "" {
			continue
		}
		if first, there := orders[op.Key]; there && first != op.OrderID {
			return true
		}
		orders[op.Key] = op.OrderID
	}
	return false
}

// setup runs SetupSQL in the schema of a lane.
func (f *Foreign) setup(ctx context.Context, l *Lane) error {
	if !f.UsesSQL() {
		return nil
	}
	if _, err := l.SQL.access(); err != nil {
		return err
	}
	return execAll(ctx, l.SQL.db, "setup-sql", f.SetupSQL, nil)
}

// execAll runs statements in the lane's schema, their placeholders filled in. option is the flag that an error names.
func execAll(ctx context.Context, db *sql.DB, option string, statements []string, values map[string]string) error {
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, expand(s, values)); err != nil {
			return fmt.Errorf("faultlab: --%s %q: %w", option, s, err)
		}
	}
	return nil
}

// reset runs the resets of the description, and returns an error unless the ledger then shows the stock and no orders.
func (f *Foreign) reset(ctx context.Context, l *Lane, r Reset) error {
	if f.UsesRedis() && !f.KeepRedis {
		if _, err := l.redis().do(ctx, "FLUSHALL"); err != nil {
			return err
		}
	}
	if err := f.runResets(ctx, l, r); err != nil {
		return err
	}
	ledger, err := f.ledger(ctx, l)
	if err != nil {
		return err
	}
	if ledger.Stock[foreignStore] != r.Stock || len(ledger.Orders) > 0 {
		return fmt.Errorf("faultlab: the reset did not reset product %[3]d: it has %[1]d units and %[2]d orders, want "+
			"%[4]d and none; see --reset-sql, --reset-redis and --reset-url",
			ledger.Stock[foreignStore], len(ledger.Orders), r.Product, r.Stock)
	}
	l.initial = r.Stock
	return nil
}

// runResets runs the resets of the description.
func (f *Foreign) runResets(ctx context.Context, l *Lane, r Reset) error {
	values := map[string]string{"product": strconv.FormatInt(r.Product, 10), "stock": strconv.FormatInt(r.Stock, 10)}
	if err := execAll(ctx, l.SQL.db, "reset-sql", f.ResetSQL, values); err != nil {
		return err
	}
	for _, text := range f.ResetRedis {
		if _, err := redisCommand(ctx, l, "reset-redis", text, values); err != nil {
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
	return nil
}
