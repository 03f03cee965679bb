package stock_test

import (
	"errors"
	"slices"
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
	for _, e := range stocktest.Envs {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			h := stocktest.Open(t, e.Open(t), 2, stock.Modes())
			a, b := h.Replicas[0], h.Replicas[1]
			for _, m := range []string{"unsafe", "mutex-per-request"} {
				if got := sellTwice(t, h, a, a, m, stock.Redis); got != want {
					t.Errorf("%s: books = %+v, want %+v", m, got, want)
				}
			}
			for _, s := range []stock.Store{stock.Redis, stock.SQL} {
				if got := sellTwice(t, h, a, b, "mutex", s); got != want {
					t.Errorf("mutex on two replicas, %s: books = %+v, want %+v", s, got, want)
				}
			}
		})
	}
}

// With the lock deleted, as an expiry would, the lock modes do what unsafe does: they trust it. This stands for the hazards slow and
// pause, and for failover if the Redis of the lock forgets.
func TestLockLostSellsTwice(t *testing.T) {
	t.Parallel()
	h := stocktest.Open(t, stocktest.Embedded(t), 2, stock.Modes())
	trusting := []string{
		"setnx", "setnx-expire", "setnx-ttl", "setnx-owner", "lua-lock", "lock-then-check", "watchdog", "handoff", "fair", "rwlock",
		"global-lock", "segmented", "multi-lock",
	}
	for _, m := range stock.Modes() {
		if !slices.Contains(trusting, m.Name) {
			continue
		}
		for _, s := range m.Stores {
			t.Run(m.Name+" "+string(s), func(t *testing.T) { lockLost(t, h, m.Name, s) })
		}
	}
}

func lockLost(t *testing.T, h *stocktest.Harness, mode string, s stock.Store) {
	product, b := h.Product(t, 1, 0), h.Replicas[1]
	a := hold(t, h.Replicas[0], step.Read, mode, s, product, "a")
	if _, err := b.Deduct(t.Context(), mode, s, product, 1, "b"); !errors.Is(err, stock.ErrLockBusy) {
		t.Errorf("B's Deduct() while A holds the lock = %v, want ErrLockBusy", err)
	}
	h.DeleteLocks(t)
	if _, err := b.Deduct(t.Context(), mode, s, product, 1, "b"); err != nil {
		t.Errorf("B's Deduct() once the lock is gone = %v, want nil", err)
	}
	if err := a.goOn(t); err != nil {
		t.Errorf("A's Deduct() = %v, want nil", err)
	}
	if got, want := h.Books(t, product, s), (stocktest.Books{Initial: 1, Stock: 0, Sold: 2, Orders: 2}); got != want {
		t.Errorf("books = %+v, want %+v", got, want)
	}
}

func TestLeaseSeqRefusesStaleWrite(t *testing.T) {
	t.Parallel()
	for _, e := range stocktest.Envs {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			h := stocktest.Open(t, e.Open(t), 2, stock.Modes())
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
