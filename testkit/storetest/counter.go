package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
	"lastitem/testkit"
)

// Counter is a store in which modes act on products.
type Counter struct {
	Reader
	Reset func(product int64, rules ledger.Rules) error
	// Order adds an order and leaves the stock alone.
	Order func(o ledger.Order) error
	Acts  map[ledger.Act]func(product int64) error
	// Sold are the ways of selling that the store knows.
	Sold []ledger.Sold
}

// begin makes a product that is sold in a way.
func (c Counter) begin(t *testing.T, product int64, sold ledger.Sold) {
	t.Helper()
	rules := map[ledger.Sold]ledger.Rules{ledger.InSegments: {Segments: 3}, ledger.PerBuyer: {PerBuyer: 5},
		ledger.InUnits: {Units: true}}
	testkit.Must(t, c.Reset(product, rules[sold]))
	o := SomeOrder(fmt.Sprint("o", product), product)
	o.Fence = 0
	testkit.Must(t, c.Order(o))
	first := map[ledger.Sold]ledger.Act{ledger.Absolutely: ledger.Overwrite, ledger.Relatively: ledger.Reserve,
		ledger.Computed: ledger.ReserveComputed}
	if c.Acts[ledger.ReserveComputed] != nil { // a hold would decide against it, an adjustment leaves it open
		first[ledger.Relatively] = ledger.Adjust
	}
	if act, there := first[sold]; there {
		testkit.Must(t, c.Acts[act](product))
	}
}

// read says how a product is sold, and how many are left.
func (c Counter) read(t *testing.T, product int64) (ledger.Sold, int64) {
	t.Helper()
	f, err := Whole(t, c, product)
	testkit.Must(t, err)
	if f.Sold == ledger.Undecided && slices.ContainsFunc(f.Orders, func(o ledger.Order) bool {
		return o.Way == ledger.Absolutely
	}) {
		f.Sold = ledger.Absolutely
	}
	return f.Sold, f.Stock
}

// Every tries every act on a product that is sold in every way: afterwards it is sold as the table says, or the act was
// refused, and has changed nothing.
func (c Counter) Every(t *testing.T) {
	product := int64(100)
	for _, was := range c.Sold {
		for act, do := range c.Acts {
			product++
			c.begin(t, product, was)
			sold, stock := c.read(t, product)
			testkit.Is(t, sold, was, "how it is sold at first")
			err := do(product)
			refused := errors.Is(err, store.ErrSegmented) || errors.Is(err, store.ErrOtherWay) ||
				errors.Is(err, store.ErrReservationUnsupported) || errors.Is(err, store.ErrAdjustUnsupported)
			next, ok := was.After(cmp.Or(map[ledger.Act]ledger.Act{Fenced: ledger.Overwrite}[act], act))
			if refused == ok || err != nil && !refused {
				t.Errorf("sold %q: %s = %v, want it allowed: %t", was, act, err, ok)
			}
			if !ok {
				next = was
			}
			if sold, left := c.read(t, product); sold != next || !ok && left != stock {
				t.Errorf("sold %q: after %s it is sold %q, with %d left of %d; want %q", was, act, sold, left, stock, next)
			}
		}
	}
}

// Fenced is Overwrite with a fencing token.
const Fenced ledger.Act = "overwrite with a fence"

// SomeOrder is an order with a value in every field.
func SomeOrder(id string, product int64) ledger.Order {
	remaining := int64(4)
	return ledger.Order{
		ID: id, ProductID: product, Quantity: 1, Remaining: &remaining, Mode: "unsafe", Replica: "replica-1",
		Key: []byte("\xff\x00k "), Fence: 1<<63 + 1, CreatedMicros: 1700000000123456,
	}
}
