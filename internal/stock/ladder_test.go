package stock_test

import (
	"errors"
	"slices"
	"testing"

	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
)

// held is a deduction of one unit that is stopped at a step.
type held struct {
	*stocktest.Watched
	result func() stocktest.Result
}

// hold starts a deduction of one unit and waits until it has reached p.
func hold(t *testing.T, r *stocktest.Replica, p step.Point, mode string, s stock.Store, product int64,
	key string) held {
	t.Helper()
	w := r.Hold(t, p)
	result := stocktest.Go(t, func() (stock.Receipt, error) { return r.Deduct(w.Ctx, mode, s, product, 1, key) })
	w.Await(t)
	return held{w, result}
}

// goOn lets the deduction finish.
func (h held) goOn(t *testing.T) error {
	t.Helper()
	h.Resume()
	return h.result().Err
}

// sells lets the deduction finish, which must succeed.
func (h held) sells(t *testing.T) {
	t.Helper()
	testkit.Is(t, h.goOn(t), nil, "Deduct() that was held")
}

// A holds the lock and B does not get it; then C finds the lock free, because B's finally has deleted it.
func TestSetNXFinallyBreaksBySchedule(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		const mode = "setnx-finally"
		product := h.Product(t, 1, 0)
		a := hold(t, h.Replicas[0], step.Read, mode, stock.Redis, product, "a")
		h.Replicas[1].Refuse(t, stock.ErrLockBusy, mode, stock.Redis, product, 1, "b")
		h.Replicas[2].Sell(t, mode, stock.Redis, product, 1, "c")
		a.sells(t)
		h.WantBooks(t, product, stock.Redis, soldTwice)
	})
}

// A has finished and is about to release when its lock expires; B takes it; A's release comes late. If that deletes B's
// key, C enters while B is inside.
func TestLateRelease(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		for _, m := range stock.Modes() {
			if !slices.Contains([]string{"setnx-expire", "setnx-ttl", "setnx-owner", "lua-lock", "lock-then-check", "fencing"},
				m.Name) {
				continue
			}
			for _, s := range m.Stores {
				t.Run(m.Name+" "+string(s), func(t *testing.T) { lateRelease(t, h, m.Name, s, m.Claims[s].Late == "O") })
			}
		}
	})
}

func lateRelease(t *testing.T, h *stocktest.Harness, mode string, s stock.Store, broken bool) {
	product := h.Product(t, 2, 0)
	a := hold(t, h.Replicas[0], step.Releasing, mode, s, product, "a")
	h.DeleteLocks(t)
	b := hold(t, h.Replicas[1], step.Read, mode, s, product, "b")
	a.sells(t)
	_, err := h.Replicas[2].Deduct(t.Context(), mode, s, product, 1, "c")
	want := stocktest.Books{Initial: 2, Stock: 0, Sold: 2, Orders: 2}
	if broken {
		want.Sold, want.Orders = 3, 3
	}
	if (err == nil) != broken || err != nil && !errors.Is(err, stock.ErrLockBusy) {
		t.Errorf("C's Deduct() while B holds the lock = %v, want that it gets in: %t", err, broken)
	}
	b.sells(t)
	h.WantBooks(t, product, s, want)
}

// A lock lost before the check is noticed. For a lock lost after it, see TestLockLostSellsTwice.
func TestLockThenCheckFindsAnEarlyLoss(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		const mode = "lock-then-check"
		for _, s := range []stock.Store{stock.Redis, stock.SQL} {
			for _, rival := range []bool{false, true} {
				product := h.Product(t, 2, 0)
				a := hold(t, h.Replicas[0], step.Locked, mode, s, product, "a")
				h.DeleteLocks(t)
				want := stocktest.Books{Initial: 2, Stock: 2}
				var b held
				if rival {
					b = hold(t, h.Replicas[1], step.Locked, mode, s, product, "b")
				}
				testkit.IsError(t, a.goOn(t), stock.ErrLockLost, "%s, with a rival: %t: A's Deduct()", s, rival)
				if rival {
					b.sells(t)
					want = stocktest.Books{Initial: 2, Stock: 1, Sold: 1, Orders: 1}
				}
				h.WantBooks(t, product, s, want, rival)
			}
		}
	})
}

// A request for one product waits for the lock of another, even on another replica.
func TestGlobalLockIsOneForAllProducts(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		one, other := h.Product(t, 1, 0), h.Product(t, 1, 0)
		for mode, want := range map[string]error{"global-lock": stock.ErrLockBusy, "handoff": nil} {
			a := hold(t, h.Replicas[0], step.Locked, mode, stock.Redis, one, "a")
			h.Replicas[1].Refuse(t, want, mode, stock.Redis, other, 1, "b")
			if mode == "global-lock" { // a reset of the other product must not take the lock from a holder
				h.SetStock(t, other, 1, 0)
				h.Replicas[1].Refuse(t, want, mode, stock.Redis, other, 1, "b")
			}
			a.sells(t)
			h.SetStock(t, one, 1, 0)
		}
	})
}
