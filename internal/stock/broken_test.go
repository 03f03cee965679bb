package stock_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
)

// With the lock deleted, as an expiry would, the lock modes do what unsafe does: they trust it. This stands for the
// hazards slow and pause, and for failover if the Redis of the lock forgets.
func TestLockLostSellsTwice(t *testing.T) {
	t.Parallel()
	h := stocktest.Open(t, stocktest.Embedded(t), 2, stock.Modes())
	trusting := []string{
		"setnx", "setnx-expire", "setnx-ttl", "setnx-owner", "lua-lock", "lock-then-check", "watchdog", "handoff", "fair",
		"rwlock",
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
	b.Refuse(t, stock.ErrLockBusy, mode, s, product, 1, "b")
	h.DeleteLocks(t)
	b.Sell(t, mode, s, product, 1, "b")
	a.sells(t)
	h.WantBooks(t, product, s, soldTwice)
}

// leaseLoad is work of 0.9 s under the lock, with or without a lease time of 0.3 s.
func leaseLoad(mode string, s stock.Store, lease time.Duration) stocktest.Plan {
	return stocktest.Plan{
		Mode: mode, Store: s, Replicas: 3, Stock: 4, Quantity: 1, Clients: 6, Requests: 9,
		Hold: stock.Hold{Lease: lease, Work: 900 * time.Millisecond},
	}
}

// A lease time switches the watchdog off: with work that takes longer, a mode that is otherwise exact oversells under
// load alone. A mode that checks ownership in its write stays exact.
func TestLeaseTimeOversells(t *testing.T) {
	t.Parallel()
	h := stocktest.Open(t, stocktest.Real(t), 3, stock.Modes())
	const short = 300 * time.Millisecond
	for _, c := range []struct {
		mode  string
		store stock.Store
		lease time.Duration
		claim api.Outcomes
	}{
		{"watchdog", stock.Redis, short, "O"},
		{"watchdog", stock.Redis, 0, api.Exact},
		{"handoff", stock.SQL, short, "O"},
		{"handoff", stock.SQL, 0, api.Exact},
	} {
		t.Run(c.mode+" "+c.lease.String(), func(t *testing.T) {
			t.Parallel()
			stocktest.WantClaim(t, h.Load(t, leaseLoad(c.mode, c.store, c.lease)), c.claim)
		})
	}
	t.Run("lease-seq", func(t *testing.T) {
		t.Parallel()
		plan := leaseLoad("lease-seq", stock.SQL, short)
		plan.Requests = 18 // some are refused as contended
		r := h.Load(t, plan)
		if r.Oversold+r.LostUpdates+r.Leaked != 0 {
			t.Errorf("lease-seq with a lease time shorter than its work:\n%s", r.Text("en"))
		}
	})
}

// The limits of a hold, the same for every mode.
func TestHoldLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hold  stock.Hold
		field string // "" = allowed
	}{
		{stock.Hold{}, ""},
		{stock.Hold{Lease: stock.MinLease, Depth: stock.MaxDepth, Work: stock.MaxWork}, ""},
		{stock.Hold{Lease: stock.MaxLease}, ""},
		{stock.Hold{Lease: stock.MinLease - 1}, "lease_ms"},
		{stock.Hold{Lease: stock.MaxLease + 1}, "lease_ms"},
		{stock.Hold{Lease: -1}, "lease_ms"},
		{stock.Hold{Depth: -1}, "depth"},
		{stock.Hold{Depth: stock.MaxDepth + 1}, "depth"},
		{stock.Hold{Work: -1}, "hold_ms"},
		{stock.Hold{Work: stock.MaxWork + 1}, "hold_ms"},
	} {
		req := stocktest.Request(1, 1, "")
		req.Hold = c.hold
		err := req.Check()
		var e *stock.InvalidError
		if errors.As(err, &e) != (c.field != "") || e != nil && e.Field != c.field {
			t.Errorf("Check() of %+v = %v, want %q refused", c.hold, err, c.field)
		}
	}
}

var (
	soldOnce  = stocktest.Books{Initial: 1, Stock: 0, Sold: 1, Orders: 1}
	soldTwice = stocktest.Books{Initial: 1, Stock: 0, Sold: 2, Orders: 2}
)

// A's lock expires after its read; B reads before A writes; A writes; B writes. Only where the read shows its token too
// does the row know of B when A comes.
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

// If B has written already, these modes refuse A: the usual illustration of fencing. The next token is one more than
// B's. lease-seq reads again by itself, and sells the other unit.
func TestFencingRefusesStaleWrite(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		for _, mode := range []string{"lease-seq", "fencing", "fencing-read", "fencing-strict"} {
			product := h.Product(t, 2, 0)
			a := hold(t, h.Replicas[0], step.Read, mode, stock.SQL, product, "a")
			h.DeleteLocks(t)
			r := h.Replicas[1].Sell(t, mode, stock.SQL, product, 1, "b")
			t.Logf("%s: A has read stock 2 and stops; its lock is deleted; B sells one, fence %d; A goes on", mode, r.Fence)
			a.Resume()
			result := a.result()
			again, err := result.Receipt, result.Err
			if mode != "lease-seq" {
				t.Logf("%s: A's write is refused: %v; A begins again", mode, err)
				testkit.IsError(t, err, stock.ErrContended, "%s: A's Deduct()", mode)
				again, err = h.Replicas[0].Deduct(t.Context(), mode, stock.SQL, product, 1, "a")
			}
			t.Logf("%s: A sells the other one, fence %d", mode, again.Fence)
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

// Setting the stock resets the row's fence. Otherwise a Redis that lost its counter could not sell the product until
// the counter has passed the highest token in the row.
func TestSetStockForgivesALostCounter(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 5, 0)
		deduct := func() error {
			_, err := h.Replicas[0].Deduct(t.Context(), "fencing-strict", stock.SQL, product, 1, "k")
			return err
		}
		testkit.Mustf(t, errors.Join(deduct(), deduct()), "Deduct()")
		h.LoseLocks(t)
		testkit.IsError(t, deduct(), stock.ErrContended, "Deduct() with a token from the beginning")
		h.LoseLocks(t)
		h.SetStock(t, product, 5, 0)
		testkit.Is(t, deduct(), nil, "Deduct() after SetStock")
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
