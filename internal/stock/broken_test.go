package stock_test

import (
	"errors"
	"testing"

	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
)

// sellTwice sells the one unit of a product twice, by one schedule: A stops after its read, B sells, A goes on.
func sellTwice(t *testing.T, h *stocktest.Harness, a, b *stocktest.Replica, mode string, s stock.Store) stocktest.Books {
	t.Helper()
	product := h.Product(t, 1, 0)
	held := a.Hold(t, step.Read)
	first := stocktest.Go(t, func() (stock.Receipt, error) { return a.Deduct(held.Ctx, mode, s, product, 1, "a") })
	held.Await(t)
	if _, err := b.Deduct(t.Context(), mode, s, product, 1, "b"); err != nil {
		t.Fatalf("B's Deduct() while A has read = %v, want nil", err)
	}
	held.Resume()
	if r := first(); r.Err != nil {
		t.Fatalf("A's Deduct() = %v, want nil", r.Err)
	}
	return h.Books(t, product, s)
}

func TestBreaksBySchedule(t *testing.T) {
	t.Parallel()
	want := stocktest.Books{Initial: 1, Stock: 0, Sold: 2, Orders: 2}
	for _, e := range envs {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			h := stocktest.Open(t, e.open(t), 2, stock.Modes())
			a, b := h.Replicas[0], h.Replicas[1]
			if got := sellTwice(t, h, a, a, "unsafe", stock.Redis); got != want {
				t.Errorf("unsafe: books = %+v, want %+v", got, want)
			}
			for _, s := range []stock.Store{stock.Redis, stock.SQL} {
				if got := sellTwice(t, h, a, b, "mutex", s); got != want {
					t.Errorf("mutex on two replicas, %s: books = %+v, want %+v", s, got, want)
				}
			}
		})
	}
}

// With the lock deleted, as an expiry would, the lock modes do what unsafe does: they trust it.
func TestLockLostSellsTwice(t *testing.T) {
	t.Parallel()
	h := stocktest.Open(t, embeddedEnv(t), 2, stock.Modes())
	a, b := h.Replicas[0], h.Replicas[1]
	for _, m := range []string{"setnx", "lua-lock", "watchdog", "handoff", "segmented"} {
		product := h.Product(t, 1, 0)
		held := a.Hold(t, step.Read)
		first := stocktest.Go(t, func() (stock.Receipt, error) { return a.Deduct(held.Ctx, m, stock.Redis, product, 1, "a") })
		held.Await(t)
		if _, err := b.Deduct(t.Context(), m, stock.Redis, product, 1, "b"); !errors.Is(err, stock.ErrLockBusy) {
			t.Errorf("%s: B's Deduct() while A holds the lock = %v, want ErrLockBusy", m, err)
		}
		h.DeleteLocks(t)
		if _, err := b.Deduct(t.Context(), m, stock.Redis, product, 1, "b"); err != nil {
			t.Errorf("%s: B's Deduct() once the lock is gone = %v, want nil", m, err)
		}
		held.Resume()
		if r := first(); r.Err != nil {
			t.Errorf("%s: A's Deduct() = %v, want nil", m, r.Err)
		}
		want := stocktest.Books{Initial: 1, Stock: 0, Sold: 2, Orders: 2}
		if got := h.Books(t, product, stock.Redis); got != want {
			t.Errorf("%s: books = %+v, want %+v", m, got, want)
		}
	}
}

func TestLeaseSeqRefusesStaleWrite(t *testing.T) {
	t.Parallel()
	for _, e := range envs {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			h := stocktest.Open(t, e.open(t), 2, stock.Modes())
			a, b := h.Replicas[0], h.Replicas[1]
			product := h.Product(t, 5, 0)
			held := a.Hold(t, step.Read)
			first := stocktest.Go(t, func() (stock.Receipt, error) {
				return a.Deduct(held.Ctx, "lease-seq", stock.SQL, product, 1, "a")
			})
			held.Await(t)
			h.DeleteLocks(t)
			r, err := b.Deduct(t.Context(), "lease-seq", stock.SQL, product, 2, "b")
			if err != nil {
				t.Fatalf("B's Deduct() once the lock is gone = %v, want nil", err)
			}
			held.Resume()
			if r := first(); !errors.Is(r.Err, stock.ErrContended) {
				t.Errorf("A's Deduct() = %v, want ErrContended", r.Err)
			}
			if got, want := h.Books(t, product, stock.SQL), (stocktest.Books{Initial: 5, Stock: 3, Sold: 2, Orders: 1}); got != want {
				t.Errorf("books = %+v, want %+v", got, want)
			}
			again, err := a.Deduct(t.Context(), "lease-seq", stock.SQL, product, 1, "a")
			if err != nil || again.Fence != r.Fence+1 {
				t.Errorf("A's second Deduct() = fence %d, %v, want %d: one more than B's", again.Fence, err, r.Fence+1)
			}
		})
	}
}
