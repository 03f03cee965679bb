package stocktest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/contract/api"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/judge"
)

// Cart is a request for several products with a key, not waiting for locks.
func Cart(key string, items ...stock.Item) stock.Request {
	return stock.Request{Items: items, Key: []byte(key), Answer: Answer}
}

// cart checks the rules for several products in one request.
func (c cell) cart(t *testing.T) {
	if c.h.env.Cluster && c.refusesCarts(t) {
		return
	}
	t.Run("merged", c.cartMerged)
	t.Run("all or nothing", c.cartRefused)
	t.Run("rivals", c.cartRivals)
}

// refusesCarts sends a cart of products in all slots. If it is refused because of the slots, nothing has been deducted.
func (c cell) refusesCarts(t *testing.T) bool {
	t.Helper()
	var items []stock.Item
	for range 20 {
		items = append(items, stock.Item{ProductID: c.h.Product(t, 9, 0), Quantity: 1})
	}
	_, err := c.cartSent(t, items...)
	var invalid *stock.InvalidError
	refused := errors.As(err, &invalid) && strings.Contains(err.Error(), "slots")
	if err != nil && !refused {
		t.Errorf("Deduct() of a cart = %v, want nil, or that the slots differ", err)
	}
	for _, item := range items {
		want := Books{Initial: 9, Stock: 8, Sold: 1, Orders: 1}
		if err != nil {
			want = Books{Initial: 9, Stock: 9}
		}
		c.balance(t, item.ProductID, want)
	}
	return refused
}

// cartSent sends a cart on the first replica.
func (c cell) cartSent(t *testing.T, items ...stock.Item) (stock.Receipt, error) {
	t.Helper()
	req := Cart(fmt.Sprint(items), items...)
	req.Store = c.at
	return c.h.Replicas[0].Shop.Deduct(t.Context(), c.mode.Name, req)
}

// cartMerged: one order, a row per product, and the lines of one product added up.
func (c cell) cartMerged(t *testing.T) {
	p, q := c.h.Product(t, 9, 0), c.h.Product(t, 9, 0)
	w := c.h.Replicas[0].Watch(t, nil)
	item := func(id, n int64) stock.Item { return stock.Item{ProductID: id, Quantity: n} }
	req := Cart(keyOf(p, "cart"), item(q, 1), item(p, 2), item(q, 3))
	req.Store = c.at
	sent := slices.Clone(req.Items)
	got, err := c.h.Replicas[0].Shop.Deduct(w.Ctx, c.mode.Name, req)
	if err != nil {
		t.Fatalf("Deduct(%v) = %v", sent, err)
	}
	if diff := cmp.Diff(sent, req.Items); diff != "" {
		t.Errorf("the caller's items were changed (-want +got):\n%s", diff)
	}
	want := []stock.Item{{ProductID: p, Quantity: 2}, {ProductID: q, Quantity: 4}}
	if diff := cmp.Diff(want, got.Items); diff != "" || got.Remaining != nil {
		t.Errorf("receipt: remaining %v, want none; items (-want +got):\n%s", got.Remaining, diff)
	}
	l, err := c.h.Replicas[1].Ledger(t.Context(), q)
	if err != nil || len(l.Facts[c.at].Orders) != 1 || l.Facts[c.at].Orders[0].ID != got.OrderID {
		t.Errorf("Ledger(%d) = %+v, %v, want one order, %s", q, l.Facts[c.at].Orders, err, got.OrderID)
	}
	c.balance(t, p, Books{Initial: 9, Stock: 7, Sold: 2, Orders: 1})
	c.balance(t, q, Books{Initial: 9, Stock: 5, Sold: 4, Orders: 1})
	steps := slices.DeleteFunc(w.Steps(), func(p step.Point) bool { return p < step.Read || p > step.Committed })
	if unique := slices.Compact(slices.Clone(steps)); !slices.IsSorted(steps) || len(unique) != len(steps) {
		t.Errorf("steps %v, want each once, in their order", steps)
	}
	one, err := c.cartSent(t, stock.Item{ProductID: q, Quantity: 1}, stock.Item{ProductID: q, Quantity: 2})
	if err != nil || one.Remaining == nil || *one.Remaining != 2 {
		t.Errorf("Deduct() of two lines of one product = %+v, %v, want 2 remaining", one, err)
	}
	_, err = c.cartSent(t, stock.Item{ProductID: p, Quantity: math.MaxInt64}, stock.Item{ProductID: p, Quantity: 1})
	if !errors.Is(err, stock.ErrInvalid) {
		t.Errorf("Deduct() of more than can be counted = %v, want ErrInvalid", err)
	}
}

// cartRefused: if one item is refused, all are, and the error names it.
func (c cell) cartRefused(t *testing.T) {
	p, q, r := c.h.Product(t, 5, 0), c.h.Product(t, 1, 0), c.h.Product(t, 1, 0)
	item := func(id, n int64) stock.Item { return stock.Item{ProductID: id, Quantity: n} }
	for name, refused := range map[string]struct {
		items []stock.Item
		short stock.SoldOutError
	}{
		"the last": {[]stock.Item{item(p, 2), item(q, 2)}, stock.SoldOutError{ProductID: q, Requested: 2,
			Available: 1}},
		"the first": {[]stock.Item{item(p, 6), item(q, 1)}, stock.SoldOutError{ProductID: p, Requested: 6,
			Available: 5}},
		"two": {[]stock.Item{item(r, 7), item(q, 8), item(p, 1)},
			stock.SoldOutError{ProductID: q, Requested: 8, Available: 1}},
		"two lines' sum": {[]stock.Item{item(q, 1), item(p, 1), item(q, 1)},
			stock.SoldOutError{ProductID: q, Requested: 2, Available: 1}},
	} {
		_, err := c.cartSent(t, refused.items...)
		var got *stock.SoldOutError
		if !errors.As(err, &got) || *got != refused.short {
			t.Errorf("%s is short: Deduct() = %v, want %v", name, err, refused.short)
		}
	}
	unknown, split := c.h.products.Add(1), c.h.Product(t, 5, 2)
	_, err := c.cartSent(t, item(unknown, 1), item(p, 1))
	refusedFor(t, err, stock.ErrUnknownProduct, unknown)
	_, err = c.cartSent(t, item(split, 1), item(p, 1))
	refusedFor(t, err, stock.ErrSegmented, split)
	c.balance(t, p, Books{Initial: 5, Stock: 5})
	c.balance(t, q, Books{Initial: 1, Stock: 1})
	c.balance(t, r, Books{Initial: 1, Stock: 1})
	c.balance(t, split, Books{Initial: 5, Stock: 5})
}

// cartRivals sends carts of the same two products in both orders, over all replicas: there is no deadlock, and the
// judge finds each product exact. Only the second product runs short, and only after more carts than one replica may
// serve in a row.
func (c cell) cartRivals(t *testing.T) {
	const clients, each, sold = 9, 8, 48
	for range Rounds {
		p, q := c.h.Product(t, clients*each, 0), c.h.Product(t, 2*sold+1, 0)
		histories := make([][]judge.Op, clients) // as the second product sees them
		begin, start := time.Now(), make(chan struct{})
		var wg sync.WaitGroup
		for n := range clients {
			wg.Go(func() {
				<-start
				for i := range each {
					histories[n] = append(histories[n], c.cartOp(t, begin, n, p, q, fmt.Sprintf("%d/%d/%d", p, n, i)))
				}
			})
		}
		close(start)
		wg.Wait()
		ops := slices.Concat(histories...)
		second := c.judged(t, q, ops, true)
		for i := range ops { // the first product refused nobody
			ops[i].ProductID, ops[i].Quantity = p, 1
			if ops[i].Outcome == judge.Refused {
				ops[i].Outcome = judge.Declined
			}
		}
		first := c.judged(t, p, ops, false)
		if first.Verdict == judge.Vacuous || second.Verdict == judge.Vacuous {
			continue
		}
		for _, r := range []judge.Report{first, second} {
			if r.Verdict != judge.Exact {
				t.Errorf("product %d: %s\n%s", r.ProductID, r.Verdict, r.Text("en"))
			}
		}
		return
	}
	t.Errorf("in %d rounds no two carts met", Rounds)
}

// cartOp sends one cart of both products, alternating their order, and returns what the client has learnt.
func (c cell) cartOp(t *testing.T, begin time.Time, client int, p, q int64, key string) judge.Op {
	items := []stock.Item{{ProductID: p, Quantity: 1}, {ProductID: q, Quantity: 2}}
	if client%2 == 1 {
		slices.Reverse(items)
	}
	r := c.h.Replicas[client%len(c.h.Replicas)]
	req := Cart(key, items...)
	req.Store, req.Wait = c.at, Patience
	op := judge.Op{Client: client, ProductID: q, Quantity: 2, Key: key, Replica: r.Options.Replica}
	op.Call = time.Since(begin).Nanoseconds()
	receipt, err := r.Shop.Deduct(t.Context(), c.mode.Name, req)
	op.Return = time.Since(begin).Nanoseconds()
	op.OrderID = receipt.OrderID
	var short *stock.SoldOutError
	if op.Outcome, op.Code = Outcome(err); op.Outcome != judge.OK && (!errors.As(err, &short) || short.ProductID != q) {
		t.Errorf("Deduct() = %v, want that it happened, or that %d is sold out", err, q)
	}
	return op
}

func (c cell) judged(t *testing.T, product int64, ops []judge.Op, soldOut bool) judge.Report {
	t.Helper()
	return judge.Judge(judge.Input{
		Mode: c.mode.Name, Store: api.Store(c.at), Replicas: len(c.h.Replicas), Ledger: c.h.Ledger(t, product),
		History: ops, WantSoldOut: soldOut,
	})
}
