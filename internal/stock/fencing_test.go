package stock_test

import (
	"errors"
	"testing"

	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
)

var (
	soldOnce  = stocktest.Books{Initial: 1, Stock: 0, Sold: 1, Orders: 1}
	soldTwice = stocktest.Books{Initial: 1, Stock: 0, Sold: 2, Orders: 2}
)

// A's lock expires after its read; B reads before A writes; A writes; B writes. Only where the read shows its token too does the
// row know of B when A comes.
func TestFencingOfTwoStaleReaders(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		for mode, want := range map[string]stocktest.Books{
			"fencing": soldTwice, "fencing-read": soldOnce, "fencing-strict": soldOnce,
		} {
			product := h.Product(t, 1, 0)
			a := hold(t, h.Replicas[0], step.Read, mode, stock.SQL, product, "a")
			h.DeleteLocks(t)
			b := hold(t, h.Replicas[1], step.Read, mode, stock.SQL, product, "b")
			errA, errB := a.goOn(t), b.goOn(t)
			if refused := errors.Is(errA, stock.ErrContended); refused != (want == soldOnce) || !refused && errA != nil {
				t.Errorf("%s: A's Deduct() = %v, want that it is refused: %t", mode, errA, want == soldOnce)
			}
			if errB != nil {
				t.Errorf("%s: B's Deduct() = %v, want nil", mode, errB)
			}
			h.WantBooks(t, product, stock.SQL, want, mode)
		}
	})
}

// If B has written already, these modes refuse A: the usual illustration of fencing. The next token is one more than B's.
func TestFencingRefusesStaleWrite(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		for _, mode := range []string{"lease-seq", "fencing", "fencing-read", "fencing-strict"} {
			product := h.Product(t, 2, 0)
			a := hold(t, h.Replicas[0], step.Read, mode, stock.SQL, product, "a")
			h.DeleteLocks(t)
			r := h.Replicas[1].Sell(t, mode, stock.SQL, product, 1, "b")
			if err := a.goOn(t); !errors.Is(err, stock.ErrContended) {
				t.Errorf("%s: A's Deduct() = %v, want ErrContended", mode, err)
			}
			again, err := h.Replicas[0].Deduct(t.Context(), mode, stock.SQL, product, 1, "a")
			if err != nil || again.Fence != r.Fence+1 {
				t.Errorf("%s: A's second Deduct() = fence %d, %v, want %d", mode, again.Fence, err, r.Fence+1)
			}
			h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 2, Stock: 0, Sold: 2, Orders: 2}, mode)
		}
	})
}

// Redis comes back without its counter, and B gets the token that A has.
func TestFencingOfATokenGivenTwice(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		for mode, want := range map[string]stocktest.Books{
			"fencing": soldTwice, "fencing-read": soldTwice, "fencing-strict": soldOnce,
		} {
			product := h.Product(t, 1, 0)
			a := hold(t, h.Replicas[0], step.Read, mode, stock.SQL, product, "a")
			h.LoseLocks(t)
			_, err := h.Replicas[1].Deduct(t.Context(), mode, stock.SQL, product, 1, "b")
			if refused := errors.Is(err, stock.ErrContended); refused != (want == soldOnce) || !refused && err != nil {
				t.Errorf("%s: B's Deduct() with A's token = %v, want that it is refused: %t", mode, err, want == soldOnce)
			}
			a.sells(t)
			h.WantBooks(t, product, stock.SQL, want, mode)
			h.Replicas[1].Refuse(t, stock.ErrSoldOut, mode, stock.SQL, product, 1, "c")
		}
	})
}

// Setting the stock resets the row's fence. Otherwise a Redis that lost its counter could not sell the product until the counter has
// passed the highest token in the row.
func TestSetStockForgivesALostCounter(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 5, 0)
		deduct := func() error {
			_, err := h.Replicas[0].Deduct(t.Context(), "fencing-strict", stock.SQL, product, 1, "k")
			return err
		}
		if err := errors.Join(deduct(), deduct()); err != nil {
			t.Fatalf("Deduct() = %v, want nil", err)
		}
		h.LoseLocks(t)
		if err := deduct(); !errors.Is(err, stock.ErrContended) {
			t.Errorf("Deduct() with a token from the beginning = %v, want ErrContended", err)
		}
		h.LoseLocks(t)
		h.SetStock(t, product, 5, 0)
		if err := deduct(); err != nil {
			t.Errorf("Deduct() after SetStock = %v, want nil", err)
		}
	})
}

// The three fencing modes may share a product, because they share its lock and its counter.
func TestFencingModesMix(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 9, 0)
		for i, mode := range []string{"fencing", "fencing", "fencing-strict", "fencing-read", "fencing-strict", "fencing"} {
			r, err := h.Replicas[i%3].Deduct(t.Context(), mode, stock.SQL, product, 1, mode)
			if err != nil || r.Fence != uint64(i+1) {
				t.Errorf("%s: Deduct() = fence %d, %v, want %d", mode, r.Fence, err, i+1)
			}
		}
		a := hold(t, h.Replicas[0], step.Locked, "fencing", stock.SQL, product, "a")
		h.Replicas[1].Refuse(t, stock.ErrLockBusy, "fencing-strict", stock.SQL, product, 1, "b")
		a.sells(t)
	})
}
