package stock_test

import (
	"context"
	"errors"
	"testing"

	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
)

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

// A writer is stopped between the count and its order. A read without the lock sees that; a read under the lock waits until the order is
// there, on every replica.
func TestRWLockReadersSeeNoHalfDeduction(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 5, 0)
		for i, reader := range h.Replicas {
			writer := hold(t, h.Replicas[0], step.Written, "rwlock", stock.Redis, product, reader.Options.Replica)
			if whole, err := halves(t.Context(), reader, product); whole || err != nil {
				t.Errorf("the books without a lock are whole: %t, %v; the writer was to stand in between", whole, err)
			}
			untouched := func(context.Context) error { return errors.New("read beside the writer") }
			if err := reader.ReadLocked(t.Context(), "rwlock", product, 0, untouched); !errors.Is(err, stock.ErrLockBusy) {
				t.Errorf("ReadLocked() that does not wait = %v, want ErrLockBusy", err)
			}
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

// A read of an unknown product takes no lock: it would leave a counter in Redis for each.
func TestRWLockUnknownProduct(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		r := h.Replicas[0]
		err := r.ReadLocked(t.Context(), "rwlock", 1234567, 0, func(context.Context) error {
			t.Error("it reads under the lock")
			return nil
		})
		if !errors.Is(err, stock.ErrUnknownProduct) {
			t.Errorf("ReadLocked() = %v, want ErrUnknownProduct", err)
		}
	})
}

// Readers do not exclude each other, but they exclude a writer.
func TestRWLockReadersShare(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 5, 0)
		err := h.Replicas[0].ReadLocked(t.Context(), "rwlock", product, 0, func(context.Context) error {
			err := h.Replicas[1].ReadLocked(t.Context(), "rwlock", product, 0, func(context.Context) error { return nil })
			if err != nil {
				t.Errorf("ReadLocked() beside another = %v, want nil", err)
			}
			h.Replicas[2].Refuse(t, stock.ErrLockBusy, "rwlock", stock.Redis, product, 1, "k")
			return nil
		})
		if err != nil {
			t.Errorf("ReadLocked() = %v, want nil", err)
		}
		h.Replicas[2].Sell(t, "rwlock", stock.Redis, product, 1, "k")
	})
}
