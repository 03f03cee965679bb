// Package storetest tests what all stores have in common: [Run] how a product's rows are read, and [Counter] what
// becomes of a product that modes act on. It has the parts that the stores' own tests share.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
	"lastitem/testkit"
)

// Reader is the reading half of a store.
type Reader interface {
	Facts(context.Context, int64) (ledger.Facts, error)
	Snapshot(context.Context, int64, ledger.Want) (ledger.Facts, ledger.Position, error)
	Page(context.Context, int64, ledger.Position, ledger.Want) (ledger.Facts, ledger.Position, error)
	Scan(context.Context, int64, func(*ledger.Snapshot) error) error
}

// Whole reads all rows of a product, in pages.
func Whole(t *testing.T, s Reader, product int64) (all ledger.Facts, err error) {
	t.Helper()
	want := ledger.Want{Orders: 100, Keys: 100}
	all, p, err := s.Snapshot(t.Context(), product, want)
	for err == nil && !p.End() {
		var f ledger.Facts
		f, p, err = s.Page(t.Context(), product, p, want)
		all.Orders, all.Keys = append(all.Orders, f.Orders...), append(all.Keys, f.Keys...)
	}
	return all, err
}

// WantFacts compares all rows of a product, and what the store says without them.
func WantFacts(t *testing.T, s Reader, product int64, want ledger.Facts, when string) {
	t.Helper()
	got, err := Whole(t, s, product)
	want.Totals.Orders = int64(len(want.Orders))
	for _, o := range want.Orders {
		want.Totals.Units += o.Quantity
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), anyRun); err != nil || diff != "" {
		t.Errorf("%s: product %d: %v (-want +got):\n%s", when, product, err, diff)
	}
	want.Totals, want.Orders, want.Keys = ledger.Totals{}, nil, nil
	if got, err := s.Facts(t.Context(), product); err != nil || !cmp.Equal(got, want, anyRun) {
		t.Errorf("%s: Facts(%d) = %+v, %v, want %+v", when, product, got, err, want)
	}
}

// anyRun: the name of a run and the number of its writes are the database's.
var anyRun = cmpopts.IgnoreFields(ledger.Facts{}, "Run", "LeaseSeq", "Adjustments")

// Shelf is a store whose rows are read in pages, with a function that sells from it.
type Shelf struct {
	Reader
	Reset func(t *testing.T, product, stock int64)
	// Sell takes the quantity and appends the order in one step; the order's Remaining is the stock that it leaves.
	Sell func(ctx context.Context, o ledger.Order) error
	// Lose deletes the count of a product, and leaves the rest of it.
	Lose func(ctx context.Context, product int64) error
	// Blind says that Facts does not see such a loss: it would have to count the orders.
	Blind bool
}

// Run tests how rows are read on every kind of server.
func Run(t *testing.T, servers map[string]func(*testing.T) Shelf) {
	t.Parallel()
	rules := map[string]func(*testing.T, Shelf){
		"Pages": pages, "CountLost": countLost, "Scan": scan, "SnapshotWhileSalesGoOn": snapshotWhileSalesGoOn,
	}
	for server, open := range servers {
		for name, rule := range rules {
			t.Run(server+" "+name, func(t *testing.T) {
				t.Parallel()
				rule(t, open(t))
			})
		}
	}
}

// Nth returns the n-th order of a product, for one to three units.
func Nth(n int, product, left int64) ledger.Order {
	return ledger.Order{
		ID: fmt.Sprintf("00000000-0000-7000-%04d-%012d", product, n), ProductID: product, Quantity: int64(1 + n%3),
		Remaining: &left,
		Mode:      "m", Replica: "1", CreatedMicros: int64(1000 + n),
	}
}

// SellUntil sells the orders with the numbers from from to below to. left is the stock before; it returns the stock
// after.
func SellUntil(t *testing.T, s Shelf, product int64, from, to int, left int64) int64 {
	t.Helper()
	for n := from; n < to; n++ {
		left -= int64(1 + n%3)
		testkit.Mustf(t, s.Sell(t.Context(), Nth(n, product, left)), "order %d", n)
	}
	return left
}

// PagesAfter reads all pages after a position and returns their orders.
func PagesAfter(t *testing.T, s Shelf, product int64, p ledger.Position, want ledger.Want) (all []ledger.Order) {
	t.Helper()
	for tries := 0; !p.End(); tries++ {
		f, next, err := s.Page(t.Context(), product, p, want)
		if err != nil || len(f.Orders) > want.Orders || tries > 100 {
			t.Fatalf("Page(%+v) = %d orders, %v", p, len(f.Orders), err)
		}
		all, p = append(all, f.Orders...), ThroughJSON(t, next)
	}
	return all
}

// ThroughJSON returns a position after a round trip through JSON.
func ThroughJSON(t *testing.T, p ledger.Position) (back ledger.Position) {
	t.Helper()
	text, err := json.Marshal(p)
	testkit.Must(t, errors.Join(err, json.Unmarshal(text, &back)))
	return back
}

// Numbers are those that the orders' ids end with.
func Numbers(orders []ledger.Order) (n []int) {
	for _, o := range orders {
		var product, i int
		_, _ = fmt.Sscanf(o.ID, "00000000-0000-7000-%04d-%012d", &product, &i)
		n = append(n, i)
	}
	return n
}

// Count lists the numbers from one to before another.
func Count(from, to int) (n []int) {
	for i := from; i < to; i++ {
		n = append(n, i)
	}
	return n
}

// A snapshot counts all rows and carries the first; the pages after it carry the others, each once, and no later ones.
func pages(t *testing.T, s Shelf) {
	_, _, err := s.Snapshot(t.Context(), 1, ledger.Want{Orders: 7})
	testkit.IsError(t, err, store.ErrUnknownProduct, "Snapshot() of a product that nobody made")
	s.Reset(t, 1, 1000)
	s.Reset(t, 2, 1000)
	if f, p, err := s.Snapshot(t.Context(), 1, ledger.Want{Orders: 7}); err != nil || f.Initial != 1000 ||
		f.Totals != (ledger.Totals{}) || !p.NoOrders {
		t.Errorf("Snapshot() without orders = %+v, %+v, %v", f, p, err)
	}
	left := SellUntil(t, s, 1, 0, 25, 1000)
	SellUntil(t, s, 2, 0, 3, 1000)
	for round := range 2 {
		sold := 25 + 10*round
		f, p, err := s.Snapshot(t.Context(), 1, ledger.Want{Orders: 7})
		if err != nil || f.Initial != 1000 || f.Stock != left || f.Totals != (ledger.Totals{Orders: int64(sold),
			Units: 1000 - left}) {
			t.Fatalf("Snapshot() = %+v, %v, want %d orders for %d units", f, err, sold, 1000-left)
		}
		left = SellUntil(t, s, 1, sold, sold+10, left) // after the snapshot
		all := append(slices.Clip(f.Orders), PagesAfter(t, s, 1, ThroughJSON(t, p), ledger.Want{Orders: 7})...)
		if got := Numbers(all); !slices.Equal(got, Count(0, sold)) {
			t.Errorf("pages hold %v, want 0 to %d", got, sold-1)
		}
		if p.Until == "" && p.Revision == 0 {
			t.Errorf("position %+v has no end", p)
		}
	}
	f, p, err := s.Snapshot(t.Context(), 1, ledger.Want{})
	if err != nil || len(f.Orders) > 0 || f.Totals.Orders != 45 || f.Totals.Units != 1000-left {
		t.Errorf("Snapshot() of no orders = %+v, %v", f, err)
	}
	if got := Numbers(PagesAfter(t, s, 1, p, ledger.Want{Orders: 1000})); !slices.Equal(got, Count(0, 45)) {
		t.Errorf("the page after it = %v", got)
	}
}

// A product whose count is gone while the rest of it is there is damaged. A Reader that called it unknown would judge
// the other stores only.
func countLost(t *testing.T, s Shelf) {
	s.Reset(t, 7, 5)
	SellUntil(t, s, 7, 0, 1, 5)
	testkit.Must(t, s.Lose(t.Context(), 7))
	for product, want := range map[int64]error{7: store.ErrUnavailable, 8: store.ErrUnknownProduct} { // nobody made 8
		if _, _, err := s.Snapshot(t.Context(), product, ledger.Want{Orders: 10}); !errors.Is(err, want) {
			t.Errorf("Snapshot(%d) = %v, want %v", product, err, want)
		}
		if s.Blind {
			continue
		}
		if _, err := s.Facts(t.Context(), product); !errors.Is(err, want) {
			t.Errorf("Facts(%d) = %v, want %v", product, err, want)
		}
	}
}

// A scan reads the rows of one moment, as often as it is asked.
func scan(t *testing.T, s Shelf) {
	if err := s.Scan(t.Context(), 1, func(*ledger.Snapshot) error {
		return nil
	}); !errors.Is(err, store.ErrUnknownProduct) {
		t.Errorf("Scan() of a product that nobody made = %v, want ErrUnknownProduct", err)
	}
	s.Reset(t, 1, 10_000)
	sold := 1005 // more than one batch
	if testing.Short() {
		sold = 5
	}
	left := SellUntil(t, s, 1, 0, sold, 10_000)
	err := s.Scan(t.Context(), 1, func(snap *ledger.Snapshot) error {
		if snap.Stock != left || snap.Initial != 10_000 || snap.Totals.Orders != int64(sold) {
			t.Errorf("Snapshot = %+v, want %d of 10000 left", snap.Facts, left)
		}
		for range 2 {
			var all []ledger.Order
			if err := snap.Orders(func(batch []ledger.Order) error {
				all = append(all, slices.Clone(batch)...)
				return nil
			}); err != nil {
				return err
			}
			slices.SortFunc(all, func(a, b ledger.Order) int { return strings.Compare(a.ID, b.ID) })
			if got := Numbers(all); !slices.Equal(got, Count(0, sold)) {
				t.Errorf("%d orders, want %d", len(got), sold)
			}
		}
		enough := errors.New("enough")
		if err := snap.Orders(func([]ledger.Order) error { return enough }); !errors.Is(err, enough) {
			t.Errorf("Orders() = %v, want the error of its reader", err)
		}
		return nil
	})
	testkit.Is(t, err, nil, "Scan()")
}

// The conservation law holds on every first page while sales go on, and the pages hold what it counts.
func snapshotWhileSalesGoOn(t *testing.T, s Shelf) {
	const initial = 1_000_000
	s.Reset(t, 1, initial)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		left := int64(initial)
		for n := 0; ; n++ {
			left -= int64(1 + n%3)
			if err := s.Sell(t.Context(), Nth(n, 1, left)); err != nil || ctx.Err() != nil {
				ended <- err
				return
			}
		}
	}()
	defer func() {
		stop()
		testkit.Is(t, <-ended, nil, "sell")
	}()
	var f ledger.Facts
	for seen := int64(0); seen < 60; { // until some have been sold
		var p ledger.Position
		var err error
		if f, p, err = s.Snapshot(t.Context(), 1, ledger.Want{Orders: 5}); err != nil {
			t.Fatalf("Snapshot() = %v", err)
		}
		if f.Initial != initial || f.Stock+f.Totals.Units != initial {
			t.Fatalf("initial %d, stock %d, %+v: %d units are neither here nor there", f.Initial, f.Stock, f.Totals,
				initial-f.Stock-f.Totals.Units)
		}
		orders := append(slices.Clip(f.Orders), PagesAfter(t, s, 1, p, ledger.Want{Orders: 10})...)
		if got := Numbers(orders); !slices.Equal(got, Count(0, int(f.Totals.Orders))) {
			t.Fatalf("pages hold %v, want 0 to %d", got, f.Totals.Orders-1)
		}
		seen = f.Totals.Orders
	}
}
