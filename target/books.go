package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// Prepare resets a product, where the description says how, and reads its ledger, where it says how; else nil. An
// error: a run or a schedule would prove nothing.
func (r *Remote) Prepare(ctx context.Context, product, stock int64) (*api.Ledger, error) {
	if r.Resets() {
		if err := r.reset(ctx, product, stock); err != nil {
			return nil, text.Of("the stock of product %s cannot be reset: %w").Errorf(r.ProductName(product), err)
		}
	}
	if r.Stock == (Source{}) {
		return nil, nil
	}
	l, err := r.Ledger(ctx, product, stock)
	if err != nil {
		return nil, text.Of("the books of product %s cannot be read: %w").Errorf(r.ProductName(product), err)
	}
	switch left := l.Stock[ForeignStore]; {
	case r.Resets() && left != stock:
		err = text.Of("the reset of product %s left a stock of %d, want %d").Errorf(r.ProductName(product), left, stock)
	case len(l.Orders) > 0:
		err = text.Of("product %s has %d orders before the run: delete them, by --reset-url, --reset-sql or --reset-redis").
			Errorf(r.ProductName(product), len(l.Orders))
	}
	return l, err
}

// bookTries is how often the books are read if the stock moves while the orders are read.
const bookTries = 4

// Ledger reads the remaining stock of a product that had initial units at first, and its orders, as Stock and Orders
// say. It reads the stock before the orders and after them; Moved says that it never found the same twice. An
// [UnfitError] says that the orders are not all, or not only those of the product.
func (r *Remote) Ledger(ctx context.Context, product, initial int64) (*api.Ledger, error) {
	ledger, orders, err := r.books(ctx, product, initial)
	if err != nil {
		return nil, err
	}
	t := r.tried[product]
	for _, o := range orders.rows {
		if err := t.fits(o); err != nil {
			return nil, err
		}
	}
	if n := int64(len(orders.rows)); t.counts && orders.total > n {
		return nil, unfit(text.Of("--orders-url: the answer says that there are %d orders, and has %d of them: give a path "+
			"that shows all"), orders.total, n)
	}
	last := lastRead{short: t.short(orders.parts)}
	kept := []api.Order{}
	for i, o := range ledger.Orders {
		if !slices.Contains(t.ids, o.OrderID) {
			kept, last.rows = append(kept, o), append(last.rows, orders.rows[i])
		}
	}
	last.states, ledger.Orders = t.states(last.rows, kept), kept
	r.last.Store(product, last)
	return ledger, nil
}

// lastRead is what [Remote.Ledger] has seen of a product's books beside the ledger.
type lastRead struct {
	rows   []row // of the orders
	states []State
	short  string // a part of the stock that has fallen below zero; "" = none
}

func (r *Remote) lastOf(product int64) lastRead {
	last, _ := r.last.Load(product)
	seen, _ := last.(lastRead)
	return seen
}

// States are the states of the rows that [Remote.Ledger] has read last.
func (r *Remote) States(product int64) []State { return r.lastOf(product).states }

// Short is a part of the stock that was not below zero when a purchase was tried, and is when it was read last, as in
// "A: -2"; "" = there is none.
func (r *Remote) Short(product int64) string { return r.lastOf(product).short }

// books are the stock and all rows of the orders.
func (r *Remote) books(ctx context.Context, product, initial int64) (*api.Ledger, list, error) {
	ledger := &api.Ledger{
		ProductID: product, Orders: []api.Order{},
		Initial: map[api.Store]int64{ForeignStore: initial}, Stock: map[api.Store]int64{},
	}
	for try := 1; ; try++ {
		units, parts, err := r.left(ctx, product)
		if ledger.Stock[ForeignStore] = units; err != nil || r.Orders == (Source{}) {
			return ledger, list{parts: parts}, err
		}
		orders, err := r.list(ctx, r.Orders, "orders", product)
		if err != nil {
			return ledger, list{}, err
		}
		again, parts, err := r.left(ctx, product)
		if ledger.Moved = again != units; err != nil || ledger.Moved && try < bookTries {
			if err != nil {
				return ledger, list{}, err
			}
			continue
		}
		if ledger.Orders, err = ordersOf(orders.rows, product); err != nil {
			return ledger, list{}, fmt.Errorf("--orders-...: %w", err)
		}
		orders.parts = parts
		return ledger, orders, nil
	}
}

// left is the remaining stock of a product, and its parts.
func (r *Remote) left(ctx context.Context, product int64) (int64, map[string]int64, error) {
	stock, err := r.list(ctx, r.Stock, "stock", product)
	if err != nil {
		return 0, nil, err
	}
	units, parts, err := total(stock.rows)
	less := int64(0)
	if err == nil && stock.less != nil {
		less, _, err = total(stock.less)
	}
	if err != nil {
		err = fmt.Errorf("--stock-...: %w", err)
	}
	return units - less, parts, err
}

// list returns what a source shows of a product. what, stock or orders, names the option in errors.
func (r *Remote) list(ctx context.Context, s Source, what string, product int64) (list, error) {
	ctx, cancel := context.WithTimeout(ctx, remotePatience)
	defer cancel()
	values := map[string]string{"product": r.ProductName(product)}
	all := list{total: -1}
	var err error
	switch {
	case s.SQL != "":
		if all.rows, err = query(ctx, r.SQL, expand(s.SQL, values)); err != nil {
			err = fmt.Errorf("--%s-sql %q: %w", what, s.SQL, belowZero(err))
		}
	case s.Redis != "":
		var texts []string
		texts, err = r.command(ctx, what+"-redis", s.Redis, values)
		for _, text := range texts {
			all.rows = append(all.rows, rowsIn(json.RawMessage(text), text)...)
		}
	default:
		return r.pages(ctx, s, what, values)
	}
	return all, err
}

// outOfRange is the number of the error of MySQL about a result below zero of columns that are unsigned.
const outOfRange = 1690

// belowZero says of an error that hides an oversell what to do.
func belowZero(err error) error {
	var answer *mysql.MySQLError
	if errors.As(err, &answer) && answer.Number == outOfRange {
		return unfit(text.Of("%w: the result is below zero, so more was sold than there was, but the columns are UNSIGNED: "+
			"CAST(column AS SIGNED) shows by how much"), err)
	}
	return err
}

// minus stands before each pointer whose number is taken away from the stock, and plus before one that is added:
// "/onHand+/returned-/allocated". In the names of members they are written %2D/ and %2B/.
const minus, plus = "-/", "+/"

// maxPages is how many pages of one list are read.
const maxPages = 100

// pages reads a source that is an address, with all pages that it leads to: by the header Link with rel="next"
// (RFC 8288), or by a member next. what, stock or orders, names the option in errors.
func (r *Remote) pages(ctx context.Context, s Source, what string, values map[string]string) (list, error) {
	path, pointer, _ := strings.Cut(s.URL, "#")
	added, taken := []string{pointer}, []string(nil)
	if what == "stock" {
		taken = strings.Split(pointer, minus)
		added, taken = strings.Split(taken[0], plus), taken[1:]
	}
	base := r.URL
	if host := hostOf(path); host != "" {
		base, path = host, strings.TrimPrefix(path, host)
	}
	path = expand(path, inPath(values))
	all := list{total: -1}
	var before []row
	for page := 1; ; page++ {
		reply, err := r.fetch(ctx, base, "GET "+path, nil)
		if err != nil {
			return all, fmt.Errorf("--%s-url: %w", what, err)
		}
		reply.Body = []byte(strings.TrimPrefix(string(reply.Body), "\ufeff")) // some write a byte order mark first
		var shown []row
		for i, pointer := range slices.Concat(added, taken) {
			found, err := pick(reply.Body, pointer)
			if err != nil {
				return all, fmt.Errorf("--%s-url %q: %w in %.200s", what, s.URL, err, reply.Body)
			}
			if rows := rowsIn(found, scalar(found)); i >= len(added) {
				all.less = append(all.less, rows...)
			} else {
				shown = append(shown, rows...)
			}
		}
		near := around(reply.Body, pointer)
		all.cached, all.total = cachedBy(reply), max(all.total, totalOf(reply, near))
		all.rows = append(all.rows, beyond(before, shown)...)
		before = shown
		if what != "orders" {
			return all, nil
		}
		next, err := all.nextOf(reply, base+path, near)
		if err != nil || next == "" {
			return all, err
		}
		if page == maxPages {
			return all, unfit(text.Of("--%s-url: more than %d pages"), what, maxPages)
		}
		path = below(base, next)
	}
}

// beyond are the rows of a page that were not on the page before: a cursor may include the row that it names. Rows
// without an id may be equal and be two.
func beyond(before, shown []row) []row {
	for len(shown) > 0 && shown[0].first(IDNames) != "" &&
		slices.ContainsFunc(before, func(o row) bool { return maps.Equal(o, shown[0]) }) {
		shown = shown[1:]
	}
	return shown
}
