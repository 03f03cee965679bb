package stock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/contract/api"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/judge"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
)

// Units taken below zero go back, and a smaller request still gets its units.
func TestRedisDecrPutsBack(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		a, b := h.Replicas[0], h.Replicas[1]
		product := h.Product(t, 3, 0)
		held := a.Hold(t, step.Read)
		first := stocktest.Go(t, func() (stock.Receipt, error) {
			return a.Deduct(held.Ctx, "redis-decr", stock.Redis, product, 3, "a")
		})
		held.Await(t)
		b.Sell(t, "redis-decr", stock.Redis, product, 1, "b")
		held.Resume()
		var refused *stock.SoldOutError
		if r := first(); !errors.As(r.Err, &refused) || refused.Available != 2 {
			t.Errorf("A's Deduct(3 of 2) = %v, want sold out with 2 left", r.Err)
		}
		b.Sell(t, "redis-decr", stock.Redis, product, 2, "c")
		h.WantBooks(t, product, stock.Redis, stocktest.Books{Initial: 3, Stock: 0, Sold: 3, Orders: 2})
	})
}

func TestSegmentedSellsEveryUnit(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		for _, c := range []struct {
			units, quantity int64
			segments        int
		}{
			{23, 1, 10}, {23, 1, 0}, {23, 1, 1}, {5, 1, 9}, {30, 7, 10}, {20, 5, 4},
		} {
			p := stocktest.Plan{
				Mode: "segmented", Store: stock.Redis, Replicas: 3, Stock: c.units, Quantity: c.quantity, Segments: c.segments,
				Clients: 6, Requests: int(c.units/c.quantity) + 6,
			}
			r := h.Shown(t, p, api.Exact)
			stocktest.WantClaim(t, r, api.Exact, c)
			testkit.Is(t, r.Sold, c.units/c.quantity*c.quantity, "%v: sold", c)
		}
	})
}

func TestSegmentedDrawsOnSeveral(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 10, 4) // 3 3 2 2
		for i, c := range []struct {
			quantity int64
			want     []int64
		}{
			{7, []int64{0, 0, 1, 2}}, {3, []int64{0, 0, 0, 0}},
		} {
			h.Replicas[i].Sell(t, "segmented", stock.Redis, product, c.quantity, fmt.Sprint(i))
			p, err := h.Replicas[0].Product(t.Context(), product)
			if diff := cmp.Diff(c.want, p.Segments); err != nil || diff != "" {
				t.Errorf("segments after Deduct(%d): %v (-want +got):\n%s", c.quantity, err, diff)
			}
		}
		h.Replicas[0].Refuse(t, stock.ErrSoldOut, "segmented", stock.Redis, product, 1, "end")
	})
}

// A count without segments is one segment, and stays one.
func TestSegmentedOnOneCounter(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 3, 0)
		h.Replicas[0].Sell(t, "segmented", stock.Redis, product, 2, "1")
		h.Replicas[1].Sell(t, "lua-lock", stock.Redis, product, 1, "2")
		h.WantBooks(t, product, stock.Redis, stocktest.Books{Initial: 3, Stock: 0, Sold: 3, Orders: 2})
	})
}

// A cart has one key: the same lines in another order are the same request, and the refusal of one item is kept for
// all.
func TestIdempotentCart(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		p, q := h.Product(t, 9, 0), h.Product(t, 5, 0)
		send := func(key string, items ...stock.Item) (stock.Receipt, error) {
			t.Helper()
			return h.Replicas[0].Shop.Deduct(t.Context(), "idempotent", stocktest.Cart(key, items...))
		}
		item := func(id, n int64) stock.Item { return stock.Item{ProductID: id, Quantity: n} }
		first, err := send("sale", item(p, 3), item(q, 1))
		if err != nil || first.Stored == nil {
			t.Fatalf("Deduct() = %+v, %v, want a stored answer", first, err)
		}
		again, err := send("sale", item(q, 1), item(p, 1), item(p, 2))
		if diff := cmp.Diff(stock.Receipt{Stored: first.Stored, Replayed: true}, again); err != nil || diff != "" {
			t.Errorf("the same lines in another order: %v (-want +got):\n%s", err, diff)
		}
		_, err = send("sale", item(p, 3), item(q, 2))
		testkit.IsError(t, err, stock.ErrKeyReused, "another quantity under the same key")
		refused, err := send("refusal", item(p, 1), item(q, 9))
		if !errors.Is(err, stock.ErrSoldOut) || refused.Stored == nil {
			t.Fatalf("Deduct() of more than there is = %+v, %v, want ErrSoldOut and a stored answer", refused, err)
		}
		again, err = send("refusal", item(p, 1), item(q, 9))
		if diff := cmp.Diff(stock.Receipt{Stored: refused.Stored, Replayed: true}, again); err != nil || diff != "" {
			t.Errorf("the refusal repeated: %v (-want +got):\n%s", err, diff)
		}
		_, err = once(t.Context(), h.Replicas[1], q, 1, "single")
		testkit.Must(t, err)
		want := []stocktest.Books{
			{Initial: 9, Stock: 6, Sold: 3, Orders: 1, Keys: 2}, {Initial: 5, Stock: 3, Sold: 2, Orders: 2, Keys: 2},
		}
		testkit.Same(t, []stocktest.Books{h.Books(t, p, stock.SQL), h.Books(t, q, stock.SQL)}, want, "books")
		judgeProducts(t, h, p, q)
		h.SetStock(t, p, 9, 0)
		judgeProducts(t, h, q) // its cart has lost its key; its other order has not
		if r, err := send("sale", item(p, 3), item(q, 1)); err != nil || r.Replayed {
			t.Errorf("Deduct() after SetStock = %+v, %v, want a first execution: the keys are cleared", r, err)
		}
	})
}

// judgeProducts wants the ledgers of products exact.
func judgeProducts(t *testing.T, h *stocktest.Harness, products ...int64) {
	t.Helper()
	for _, p := range products {
		if r := judge.Judge(judge.Input{Store: "sql", Ledger: h.Ledger(t, p)}); r.Verdict != judge.Exact {
			t.Errorf("product %d: %s\n%s", p, r.Verdict, r.Text("en"))
		}
	}
}

// halves reads a product's books; whole reports whether the count and the orders add up.
func halves(ctx context.Context, r *stocktest.Replica, product int64) (whole bool, err error) {
	l, err := r.Ledger(ctx, product)
	f := l.Facts[stock.Redis]
	left := f.Initial - f.Stock
	for _, o := range f.Orders {
		left -= o.Quantity
	}
	return left == 0, err
}

// A writer is stopped between the count and its order. A read without the lock sees that; a read under the lock waits
// until the order is there, on every replica.
func TestRWLockReadersSeeNoHalfDeduction(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 5, 0)
		for i, reader := range h.Replicas {
			writer := hold(t, h.Replicas[0], step.Written, "rwlock", stock.Redis, product, reader.Options.Replica)
			if whole, err := halves(t.Context(), reader, product); whole || err != nil {
				t.Errorf("the books without a lock are whole: %t, %v; the writer was to stand in between", whole, err)
			}
			untouched := func(context.Context) error { return errors.New("read beside the writer") }
			testkit.IsError(t, reader.ReadLocked(t.Context(), "rwlock", product, 0, untouched), stock.ErrLockBusy,
				"ReadLocked() that does not wait")
			waiting := reader.Hold(t, step.Waiting)
			var whole bool
			var left int64
			look := func(ctx context.Context) (err error) {
				if whole, err = halves(ctx, reader, product); err != nil {
					return err
				}
				p, err := reader.Product(ctx, product)
				left = p.Stock[stock.Redis]
				return err
			}
			read := stocktest.Go(t, func() (stock.Receipt, error) {
				return stock.Receipt{}, reader.ReadLocked(waiting.Ctx, "rwlock", product, stocktest.Patience, look)
			})
			waiting.Await(t)
			waiting.Resume()
			writer.sells(t)
			if r := read(); r.Err != nil || !whole || left != int64(4-i) {
				t.Errorf("ReadLocked() = %v, whole: %t, %d left, want whole books and %d units", r.Err, whole, left, 4-i)
			}
		}
	})
}

// Readers do not exclude each other, but they exclude a writer.
func TestRWLockReadersShare(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 5, 0)
		err := h.Replicas[0].ReadLocked(t.Context(), "rwlock", product, 0, func(context.Context) error {
			err := h.Replicas[1].ReadLocked(t.Context(), "rwlock", product, 0, func(context.Context) error { return nil })
			testkit.Is(t, err, nil, "ReadLocked() beside another")
			h.Replicas[2].Refuse(t, stock.ErrLockBusy, "rwlock", stock.Redis, product, 1, "k")
			return nil
		})
		testkit.Is(t, err, nil, "ReadLocked()")
		h.Replicas[2].Sell(t, "rwlock", stock.Redis, product, 1, "k")
	})
}
