package stocktest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"lastitem/internal/step"
	"lastitem/internal/stock"
)

// shortLease is a lease time that ends while the holder is still at work; longWork is how long its work takes.
const (
	shortLease = 300 * time.Millisecond
	longWork   = 150 * time.Millisecond
)

// holds checks Holds both ways: a listed field takes effect, any other field is refused.
func (c cell) holds(t *testing.T) {
	onProduct := c.locks(t) && !c.mode.KeyRequired // a mode that requires a key locks the key
	if listed := slices.Contains(c.mode.Holds, stock.WorkField); listed != onProduct {
		t.Errorf("Holds %v; the mode takes a lock on the product: %t, want hold_ms listed exactly then", c.mode.Holds,
			onProduct)
	}
	for _, f := range []struct {
		name             stock.HoldField
		hold             stock.Hold
		works, cannotYet func(*testing.T)
	}{
		{stock.LeaseField, stock.Hold{Lease: shortLease}, c.leaseEnds, c.lockerRefusesLease},
		{stock.DepthField, stock.Hold{Depth: 1}, c.entersAgain, c.lockerExcludesItself},
		{stock.WorkField, stock.Hold{Work: longWork}, c.worksLong, func(*testing.T) {}},
	} {
		t.Run(string(f.name), func(t *testing.T) {
			if slices.Contains(c.mode.Holds, f.name) {
				f.works(t)
				return
			}
			c.holdRefused(t, f.name, f.hold)
			// its lock is a row lock, not a Locker
			if slices.Contains(c.mode.Holds, stock.WorkField) && c.mode.Name != "sql-for-update" {
				f.cannotYet(t)
			}
		})
	}
}

// holding sends a request with a hold to the first replica, not waiting for locks.
func (c cell) holding(product int64, h stock.Hold) stock.Request {
	req := Request(product, 1, keyOf(product, "hold"))
	req.Store, req.Hold = c.at, h
	return req
}

// holdRefused: the error names the field, and nothing happens.
func (c cell) holdRefused(t *testing.T, name stock.HoldField, h stock.Hold) {
	product := c.product(t, 5)
	_, err := c.h.Replicas[0].Shop.Deduct(t.Context(), c.mode.Name, c.holding(product, h))
	var e *stock.InvalidError
	if !errors.As(err, &e) || e.Field != string(name) {
		t.Errorf("Deduct() with %+v = %v, want that %s is refused", h, err, name)
	}
	if got, want := c.h.Books(t, product, c.at), (Books{Initial: 5, Stock: 5}); got != want {
		t.Errorf("books after the refusal = %+v, want %+v", got, want)
	}
}

// direct calls the mode without the shop, which would refuse first.
func (c cell) direct(t *testing.T, h stock.Hold) (product int64, err error) {
	t.Helper()
	d, err := c.mode.New(c.h.Replicas[0].Deps[c.mode.Name])
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	product = c.h.ProductOf(t, c.mode, 5, 1)
	_, err = d.Deduct(t.Context(), c.holding(product, h))
	return product, err
}

// lockerRefusesLease: a mode that does not list lease_ms has a lock that refuses a lease time, and names the field.
func (c cell) lockerRefusesLease(t *testing.T) {
	var e *stock.InvalidError
	_, err := c.direct(t, stock.Hold{Lease: shortLease})
	if !errors.As(err, &e) || e.Field != string(stock.LeaseField) {
		t.Errorf("the lock for %s = %v, want lease_ms refused, or lease_ms in Holds", shortLease, err)
	}
}

// lockerExcludesItself: a mode that does not list depth has a lock that excludes its own holder. A lock that threads
// break excludes nobody.
func (c cell) lockerExcludesItself(t *testing.T) {
	if c.mode.Claims[c.at].Threads != "." {
		return
	}
	product, err := c.direct(t, stock.Hold{Depth: 1})
	if !errors.Is(err, stock.ErrLockBusy) {
		t.Errorf("the holder's second Acquire = %v, want ErrBusy, or depth in Holds", err)
	}
	if _, err := c.deduct(t.Context(), product, 1, "next"); err != nil {
		t.Errorf("Deduct() after it, not waiting = %v, want nil", err)
	}
}

// leaseEnds stops a holder inside its section. A rival enters once the lease time is over; without a lease time it does
// not.
func (c cell) leaseEnds(t *testing.T) {
	for _, leased := range []time.Duration{0, shortLease} {
		product := c.h.ProductOf(t, c.mode, 5, 1)
		holder, first := c.reading(t, product, leased)
		req := Request(product, 1, keyOf(product, "rival"))
		req.Store, req.Wait = c.at, Patience
		if leased == 0 {
			req.Wait = 2 * shortLease
		}
		_, err := c.h.Replicas[1].Shop.Deduct(t.Context(), c.mode.Name, req)
		if busy := errors.Is(err, stock.ErrLockBusy); busy != (leased == 0) || !busy && err != nil {
			t.Errorf("lease time %s, and the holder at work: the rival's Deduct() = %v, want busy: %t", leased, err, leased == 0)
		}
		holder.Resume()
		r := first()
		if outcome, _ := Outcome(r.Err); leased == 0 && r.Err != nil || outcome == "" {
			t.Errorf("lease time %s: the holder's Deduct() = %v", leased, r.Err)
		}
		// A rival that gave up may still be leaving the queue, so the next one waits, but for far less than the lock's TTL.
		next := Request(product, 1, keyOf(product, "next"))
		next.Store, next.Wait = c.at, Patience
		if _, err := c.h.Replicas[0].Shop.Deduct(t.Context(), c.mode.Name, next); err != nil {
			t.Errorf("Deduct() after both = %v, want nil", err)
		}
	}
}

// reading starts a holder with a lease time, and returns when it has read. On a busy machine the time may be over
// before that, which ends the deduction; then the next holder has twice the time.
func (c cell) reading(t *testing.T, product int64, leased time.Duration) (holder *Watched, result func() Result) {
	t.Helper()
	for lease := leased; ; lease *= 2 {
		holder, over := c.h.Replicas[0].Hold(t, step.Read), make(chan struct{})
		result := Go(t, func() (stock.Receipt, error) {
			defer close(over)
			return c.h.Replicas[0].Shop.Deduct(holder.Ctx, c.mode.Name, c.holding(product, stock.Hold{Lease: lease}))
		})
		select {
		case <-holder.Reached:
			return holder, result
		case <-over:
			if r := result(); r.Err == nil || lease == 0 || lease > Patience/4 {
				t.Fatalf("lease time %s: the deduction ended before it had read: %v; it passed %v", lease, r.Err, holder.Steps())
			}
		case <-time.After(Patience):
			t.Fatalf("lease time %s: the deduction has not read; it passed %v", lease, holder.Steps())
		}
	}
}

// entersAgain: the holder can re-enter, a rival stays out until the last entry is released, and then the lock is free.
func (c cell) entersAgain(t *testing.T) {
	const depth = 3
	product := c.h.ProductOf(t, c.mode, 5, 1)
	holder := c.h.Replicas[0].Hold(t, step.Read)
	first := Go(t, func() (stock.Receipt, error) {
		return c.h.Replicas[0].Shop.Deduct(holder.Ctx, c.mode.Name, c.holding(product, stock.Hold{Depth: depth}))
	})
	holder.Await(t)
	req := Request(product, 1, keyOf(product, "rival"))
	req.Store = c.at
	if _, err := c.h.Replicas[1].Shop.Deduct(t.Context(), c.mode.Name, req); !errors.Is(err, stock.ErrLockBusy) {
		t.Errorf("the rival's Deduct() = %v, want busy", err)
	}
	holder.Resume()
	if r := first(); r.Err != nil {
		t.Errorf("the holder's Deduct() = %v, want nil", r.Err)
	}
	for _, p := range []step.Point{step.Locked, step.Released} {
		got := 0
		for _, at := range holder.Steps() {
			if at == p {
				got++
			}
		}
		if got != 1+depth {
			t.Errorf("%s %d times, want %d", p, got, 1+depth)
		}
	}
	if _, err := c.deduct(t.Context(), product, 1, "next"); err != nil {
		t.Errorf("Deduct() after it, not waiting = %v, want nil", err)
	}
}

// worksLong: the work lies between the read and the write.
func (c cell) worksLong(t *testing.T) {
	product := c.h.ProductOf(t, c.mode, 5, 1)
	at := map[step.Point]time.Time{}
	w := c.h.Replicas[0].Watch(t, func(_ *Watched, p step.Point) { at[p] = time.Now() })
	if _, err := c.h.Replicas[0].Shop.Deduct(w.Ctx, c.mode.Name,
		c.holding(product, stock.Hold{Work: longWork})); err != nil {
		t.Fatalf("Deduct() = %v", err)
	}
	if took := at[step.Written].Sub(at[step.Read]); took < longWork {
		t.Errorf("%s from read to written, want %s at least", took, longWork)
	}
}
