package stock_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/audit"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
)

// A cart has one key: the same lines in another order are the same request, and the refusal of one item is kept for all.
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
		if _, err := send("sale", item(p, 3), item(q, 2)); !errors.Is(err, stock.ErrKeyReused) {
			t.Errorf("another quantity under the same key = %v, want ErrKeyReused", err)
		}
		refused, err := send("refusal", item(p, 1), item(q, 9))
		if !errors.Is(err, stock.ErrSoldOut) || refused.Stored == nil {
			t.Fatalf("Deduct() of more than there is = %+v, %v, want ErrSoldOut and a stored answer", refused, err)
		}
		again, err = send("refusal", item(p, 1), item(q, 9))
		if diff := cmp.Diff(stock.Receipt{Stored: refused.Stored, Replayed: true}, again); err != nil || diff != "" {
			t.Errorf("the refusal repeated: %v (-want +got):\n%s", err, diff)
		}
		if _, err := once(t.Context(), h.Replicas[1], q, 1, "single"); err != nil {
			t.Fatal(err)
		}
		want := []stocktest.Books{
			{Initial: 9, Stock: 6, Sold: 3, Orders: 1, Keys: 2}, {Initial: 5, Stock: 3, Sold: 2, Orders: 2, Keys: 2},
		}
		if diff := cmp.Diff(want, []stocktest.Books{h.Books(t, p, stock.SQL), h.Books(t, q, stock.SQL)}); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
		judge(t, h, p, q)
		h.SetStock(t, p, 9, 0)
		judge(t, h, q) // its cart has lost its key; its other order has not
		if r, err := send("sale", item(p, 3), item(q, 1)); err != nil || r.Replayed {
			t.Errorf("Deduct() after SetStock = %+v, %v, want a first execution: the keys are cleared", r, err)
		}
	})
}

// judge wants the ledgers of products exact.
func judge(t *testing.T, h *stocktest.Harness, products ...int64) {
	t.Helper()
	for _, p := range products {
		if r := audit.Judge(audit.Input{Store: "sql", Ledger: h.Ledger(t, p)}); r.Verdict != audit.Exact {
			t.Errorf("product %d: %s\n%s", p, r.Verdict, r.Text("en"))
		}
	}
}
