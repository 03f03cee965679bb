package stocktest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/judge"
)

// Rounds is how often a load is repeated until a mode that claims to break is seen to break.
const Rounds = 50

// Run runs the suite for modes, on every store that may keep their count. A mode without its backends must say that it
// is unavailable.
func Run(t *testing.T, env Env, modes []stock.Mode) {
	h := Open(t, env, 3, modes)
	for _, m := range modes {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			h.run(t, m)
		})
	}
}

// RunApart is Run with an Env for each mode: an embedded Redis looks at all its keys in every command.
func RunApart(t *testing.T, open func(*testing.T) Env, modes []stock.Mode) {
	for _, m := range modes {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			Open(t, open(t), 3, []stock.Mode{m}).run(t, m)
		})
	}
}

func (h *Harness) run(t *testing.T, m stock.Mode) {
	if slices.ContainsFunc(m.Needs, func(b stock.Backend) bool { return !h.env.has(b) }) {
		unavailable(t, h, m)
		return
	}
	if len(m.Stores) == 0 {
		baseline(t, h, m)
	}
	for _, s := range m.Stores { // one after the other: they may share a lock, as with one for all products
		t.Run(string(s), cell{h, m, s}.run)
	}
}

// unavailable checks that a mode without its backends is listed with the reason, and deducts nothing.
func unavailable(t *testing.T, h *Harness, m stock.Mode) {
	s, err := h.Replicas[0].Mode(m.Name)
	if err != nil || s.Err == nil || s.Err.Error() == "" {
		t.Errorf("Mode(%q) = %v, %v, want the reason why it is unavailable", m.Name, s.Err, err)
	}
	key := ""
	if m.KeyRequired {
		key = "the key"
	}
	if _, err := h.Replicas[0].Deduct(t.Context(), m.Name, "", 1, 1, key); !errors.Is(err, stock.ErrModeUnavailable) {
		t.Errorf("Deduct() = %v, want ErrModeUnavailable", err)
	}
}

// baseline touches no store.
func baseline(t *testing.T, h *Harness, m stock.Mode) {
	r, err := h.Replicas[0].Deduct(t.Context(), m.Name, "", 1, 1, "")
	if err != nil || uuid.Validate(r.OrderID) != nil {
		t.Errorf("Deduct() = %+v, %v, want an order id", r, err)
	}
}

// cell is one mode over one store.
type cell struct {
	h    *Harness
	mode stock.Mode
	at   stock.Store
}

func (c cell) run(t *testing.T) {
	t.Run("order", c.order)
	t.Run("steps", c.steps)
	t.Run("sold out", c.soldOut)
	t.Run("adjusts", c.adjusts)
	t.Run("unknown product", c.unknownProduct)
	t.Run("segmented product", c.segmentedProduct)
	t.Run("hang up", c.hangUp)
	// it reads between a lock and its release
	if points := c.points(t); slices.Contains(points, step.Locked) && slices.Contains(points, step.Read) {
		t.Run("panic", c.panics)
	}
	t.Run("busy", c.busy)
	t.Run("holds", c.holds)
	if c.mode.Cart {
		t.Run("cart", c.cart)
	}
	claims := c.mode.Claims[c.at]
	if claims.Retry == "." {
		t.Run("answers", c.answers)
	}
	t.Run("threads", func(t *testing.T) { c.claim(t, claims.Threads, 1, 1) })
	if claims.Threads == "." {
		t.Run("replicas", func(t *testing.T) { c.claim(t, claims.Replicas, 3, 3) })
	}
}

// deduct takes units on the first replica, not waiting for locks.
func (c cell) deduct(ctx context.Context, product, quantity int64, key string) (stock.Receipt, error) {
	return c.h.Replicas[0].Deduct(ctx, c.mode.Name, c.at, product, quantity, keyOf(product, key))
}

// keyOf makes a key that no other test uses.
func keyOf(product int64, key string) string { return fmt.Sprintf("%d/%s", product, key) }

// product creates a product that is segmented if the mode wants that.
func (c cell) product(t *testing.T, units int64) int64 {
	t.Helper()
	return c.h.ProductOf(t, c.mode, units, math.MaxInt)
}

// claim checks the mode's claim. A mode that claims to break gets several rounds, but must never break in another way.
func (c cell) claim(t *testing.T, claim string, replicas int, quantity int64) {
	p := Plan{
		Mode: c.mode.Name, Store: c.at, Replicas: replicas, Segments: c.mode.Segments,
		Stock: 20*quantity + quantity - 1, Quantity: quantity, Clients: 9, Requests: 36,
	}
	if strings.Contains(claim, "B") {
		p.PerBuyer = quantity
	}
	WantClaim(t, c.h.Shown(t, p, api.Outcomes(claim)), api.Outcomes(claim), replicas, "replicas")
}

// order checks the order that a deduction writes.
func (c cell) order(t *testing.T) {
	product := c.product(t, 50)
	before := time.Now().Add(-time.Minute)
	got, err := c.deduct(t.Context(), product, 3, "the key")
	if err != nil {
		t.Fatalf("Deduct() = %v", err)
	}
	l, err := c.h.Replicas[1].Ledger(t.Context(), product)
	if err != nil || len(l.Facts[c.at].Orders) != 1 {
		t.Fatalf("Ledger() = %+v, %v, want one order", l, err)
	}
	o := l.Facts[c.at].Orders[0]
	if uuid.Validate(o.ID) != nil || (o.ID != got.OrderID) != c.mode.NoInbox {
		t.Errorf("order id %q in the ledger, %q in the receipt, want one UUID", o.ID, got.OrderID)
	}
	if at := o.CreatedAt(); at.Before(before) || at.After(time.Now().Add(time.Minute)) {
		t.Errorf("order created at %v, want about now", at)
	}
	if o.Fence != got.Fence {
		t.Errorf("fence %d in the ledger, %d in the receipt", o.Fence, got.Fence)
	}
	remaining := int64(47)
	want := &remaining
	if c.mode.Segments > 0 || c.mode.Way != nil && c.mode.Way.Act != ledger.Reserve {
		want = nil
	}
	if diff := cmp.Diff([]*int64{want, want}, []*int64{got.Remaining, o.Remaining}); diff != "" {
		t.Errorf("remaining in the receipt and the ledger (-want +got):\n%s", diff)
	}
	type row struct {
		Product, Quantity  int64
		Mode, Replica, Key string
	}
	wantRow := row{product, 3, c.mode.Name, "replica-1", keyOf(product, "the key")}
	if diff := cmp.Diff(wantRow, row{o.ProductID, o.Quantity, o.Mode, o.Replica, string(o.Key)}); diff != "" {
		t.Errorf("order row (-want +got):\n%s", diff)
	}
	for other, f := range l.Facts {
		if other == stock.Redis && c.mode.Tickets { // it was won there
			f.Stock += f.Passed
		}
		if other != c.at && (f.Stock != 50 || len(f.Orders) > 0) {
			t.Errorf("store %s holds %d units and %d orders, want 50 and none: it was not to be touched", other, f.Stock,
				len(f.Orders))
		}
	}
}

// points returns the steps of one deduction.
func (c cell) points(t *testing.T) []step.Point {
	t.Helper()
	product := c.h.ProductOf(t, c.mode, 5, 1)
	w := c.h.Replicas[0].Watch(t, nil)
	if _, err := c.deduct(w.Ctx, product, 1, "steps"); err != nil {
		t.Fatalf("Deduct() = %v", err)
	}
	return w.Steps()
}

// locks tells whether the mode takes a lock.
func (c cell) locks(t *testing.T) bool { return slices.Contains(c.points(t), step.Locked) }

// steps checks that the points are passed in their order, each once, and none is left out. A mode that threads break
// may pass them in another order, because that may be its mistake.
func (c cell) steps(t *testing.T) {
	got := c.points(t)
	sorted := slices.Sorted(slices.Values(got))
	held := !slices.Contains(got, step.Locked) || c.mode.Claims[c.at].Threads == "."
	if once := slices.Compact(slices.Clone(sorted)); len(once) != len(got) || held && !slices.Equal(once, got) {
		t.Errorf("steps %v, want each once, in the order of the points", got)
	}
	want := map[step.Point]bool{step.Written: true, step.Ordered: !c.mode.Tickets,
		step.Committed: c.at != stock.Redis && !c.mode.Tickets}
	locked := slices.Contains(got, step.Locked)
	for _, p := range []step.Point{step.Waiting, step.Locked, step.Releasing, step.Released} {
		want[p] = locked
	}
	want[step.Waiting] = locked || c.mode.Queued
	for p, wanted := range want {
		if slices.Contains(got, p) != wanted {
			t.Errorf("steps %v: %s among them = %t, want %t", got, p, !wanted, wanted)
		}
	}
}

func (c cell) soldOut(t *testing.T) {
	product := c.product(t, 7)
	_, err := c.deduct(t.Context(), product, 8, "too many")
	var got *stock.SoldOutError
	if !errors.As(err, &got) || !errors.Is(err, stock.ErrSoldOut) {
		t.Fatalf("Deduct(8 of 7) = %v, want ErrSoldOut", err)
	}
	want := &stock.SoldOutError{ProductID: product, Requested: 8, Available: 7}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Deduct(8 of 7) (-want +got):\n%s", diff)
	}
	if _, err := c.deduct(t.Context(), product, 7, "all"); err != nil {
		t.Errorf("Deduct(7 of 7) = %v, want nil", err)
	}
	if _, err := c.deduct(t.Context(), product, 1, "one more"); !errors.Is(err, stock.ErrSoldOut) {
		t.Errorf("Deduct(1 of 0) = %v, want ErrSoldOut", err)
	}
	c.balance(t, product, Books{Initial: 7, Stock: 0, Sold: 7, Orders: 1})
}

// adjusts: a mode sells what was added meanwhile, once for each key, even if it had read the count before; or the
// product that it has sold refuses that, and has not changed.
func (c cell) adjusts(t *testing.T) {
	product := c.product(t, 3)
	at := c.at
	if c.mode.Tickets { // in both stores that have a count
		at = ""
	}
	adjust := func(key string, delta int64) error {
		_, err := c.h.Replicas[1].Adjust(t.Context(), product, at, ledger.Adjustment{Delta: delta, Key: []byte(key)})
		return err
	}
	sell := func(quantity int64, key string) error {
		_, err := c.deduct(t.Context(), product, quantity, key)
		return err
	}
	if err := sell(1, "first"); err != nil {
		t.Fatalf("Deduct() = %v", err)
	}
	err := errors.Join(adjust("k", 2), adjust("k", 2))
	if !c.mode.Adjusts {
		if err == nil { // then the product refuses the mode, or it is one that refuses too much
			if err = sell(1, "second"); c.mode.Name == "redis-decr" {
				c.balance(t, product, Books{Initial: 5, Stock: 3, Sold: 2, Orders: 2})
				return
			}
		} else {
			c.balance(t, product, Books{Initial: 3, Stock: 2, Sold: 1, Orders: 1})
		}
		if !errors.Is(err, stock.ErrAdjustUnsupported) && !errors.Is(err, stock.ErrReservationUnsupported) {
			t.Errorf("Adjust() = %v, want ErrAdjustUnsupported, or Adjusts on the mode", err)
		}
		return
	}
	if c.h.env.Cluster && c.mode.Segments > 0 && errors.Is(err, stock.ErrAdjustUnsupported) {
		return // no script reaches all segments
	}
	if err = errors.Join(err, sell(3, "second"), adjust("l", -1)); err != nil {
		t.Errorf("Adjust() and Deduct() by turns = %v", err)
	}
	if err := adjust("m", -1); !errors.Is(err, stock.ErrSoldOut) {
		t.Errorf("Adjust() of more than is left = %v, want ErrSoldOut", err)
	}
	c.balance(t, product, Books{Initial: 4, Stock: 0, Sold: 4, Orders: 2})
	if points := c.points(t); slices.Contains(points, step.Read) && c.mode.Segments == 0 { // segments are locked
		product = c.product(t, 3)
		reader := c.h.Replicas[0].Hold(t, step.Read)
		first := Go(t, func() (stock.Receipt, error) { return c.deduct(reader.Ctx, product, 1, "reads") })
		reader.Await(t)
		if err := adjust("n", 2); err != nil {
			t.Errorf("Adjust() after a read = %v", err)
		}
		reader.Resume()
		_ = first() // it may be contended
		if got := c.h.Books(t, product, c.at); got.Stock+got.Sold != 5 || got.Initial != 5 {
			t.Errorf("books after an adjustment between read and write = %+v, want 5 units", got)
		}
	}
}

// balance compares the books without the keys.
func (c cell) balance(t *testing.T, product int64, want Books) {
	t.Helper()
	got := c.h.Books(t, product, c.at)
	got.Keys = want.Keys
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("books (-want +got):\n%s", diff)
	}
}

func (c cell) unknownProduct(t *testing.T) {
	product := c.h.products.Add(1)
	_, err := c.deduct(t.Context(), product, 1, "early")
	refusedFor(t, err, stock.ErrUnknownProduct, product)
	if left := c.h.staying(t, product); len(left) > 0 { // anybody can ask for any number of them
		t.Errorf("it leaves %v in Redis, want nothing that stays for long", left)
	}
	c.h.set(t, product, 1, Rules(c.mode, math.MaxInt))
	if _, err := c.deduct(t.Context(), product, 1, "early"); err != nil {
		t.Errorf("Deduct() with the same key once it is there = %v, want nil", err)
	}
}

// refusedFor checks that a deduction was refused with want, and that the error names the product.
func refusedFor(t *testing.T, err, want error, product int64) {
	t.Helper()
	var e *ledger.ProductError
	if !errors.Is(err, want) || !errors.As(err, &e) || e.ProductID != product {
		t.Errorf("Deduct() = %v, want %v for product %d", err, want, product)
	}
}

// segmentedProduct checks that a mode on one counter refuses a product whose count is split.
func (c cell) segmentedProduct(t *testing.T) {
	if c.mode.Segments > 0 {
		return
	}
	product := c.h.Product(t, 10, 4)
	_, err := c.deduct(t.Context(), product, 1, "split")
	refusedFor(t, err, stock.ErrSegmented, product)
	if got, want := c.h.Books(t, product, c.at), (Books{Initial: 10, Stock: 10}); got != want {
		t.Errorf("books after the refusal = %+v, want %+v", got, want)
	}
	c.h.set(t, product, 10, Rules(c.mode, 0))
	if _, err := c.deduct(t.Context(), product, 1, "split"); err != nil {
		t.Errorf("Deduct() once it is not segmented any more = %v, want nil", err)
	}
}

// hangUp ends the client's context at each point: no half-done deduction may remain, nor the lock.
func (c cell) hangUp(t *testing.T) {
	for _, p := range c.points(t) {
		t.Run(p.String(), func(t *testing.T) {
			product := c.h.ProductOf(t, c.mode, 5, 1)
			w := c.h.Replicas[0].HangUp(t, p)
			_, err := c.deduct(w.Ctx, product, 2, "gone")
			want := Books{Initial: 5, Stock: 5}
			switch outcome, _ := Outcome(err); {
			case outcome == judge.OK:
				want = Books{Initial: 5, Stock: 3, Sold: 2, Orders: 1}
			case outcome != judge.Declined || p >= step.Written:
				t.Errorf("Deduct() = %v (%s), want that it happened, or before the write that it did not", err, outcome)
			}
			if !slices.Contains(w.Steps(), p) {
				t.Fatalf("steps %v, want %s among them", w.Steps(), p)
			}
			c.balance(t, product, want)
			if _, err := c.deduct(t.Context(), product, 1, "next"); err != nil {
				t.Errorf("Deduct() after it, not waiting = %v, want nil", err)
			}
		})
	}
}

// busy holds the lock and lets rivals try: one in the same process, and one in another if the mode claims exclusion
// between replicas.
func (c cell) busy(t *testing.T) {
	claims := c.mode.Claims[c.at]
	if claims.Threads != "." || !c.locks(t) {
		return
	}
	rivals := c.h.Replicas[:1]
	if claims.Replicas == "." {
		rivals = c.h.Replicas[:2]
	}
	for _, rival := range rivals {
		t.Run(rival.Options.Replica, func(t *testing.T) {
			product := c.h.ProductOf(t, c.mode, 5, 1)
			holder := c.h.Replicas[0].Hold(t, step.Locked)
			first := Go(t, func() (stock.Receipt, error) { return c.deduct(holder.Ctx, product, 1, "the key") })
			holder.Await(t)
			c.turnedAway(t, rival, product, 0)
			c.turnedAway(t, rival, product, 50*time.Millisecond)
			second := c.waits(t, rival, product)
			holder.Resume()
			if r := first(); r.Err != nil {
				t.Errorf("the holder's Deduct() = %v, want nil", r.Err)
			}
			if r := second(); r.Err != nil {
				t.Errorf("the waiting rival's Deduct() = %v, want nil", r.Err)
			}
		})
	}
}

// tooLate is by how much a rival may exceed its wait in the best of several tries: a busy machine may delay one.
const tooLate = 2 * time.Second

// turnedAway checks that a rival waits for as long as its wait allows, and no longer.
func (c cell) turnedAway(t *testing.T, rival *Replica, product int64, wait time.Duration) {
	t.Helper()
	shortest := Patience
	for range 5 {
		shortest = min(shortest, c.oneTurnedAway(t, rival, product, wait))
		if t.Failed() || shortest < wait+tooLate {
			return
		}
	}
	t.Errorf("a rival that waits %v waited %v at least", wait, shortest)
}

func (c cell) oneTurnedAway(t *testing.T, rival *Replica, product int64, wait time.Duration) (took time.Duration) {
	t.Helper()
	req := Request(product, 1, keyOf(product, "the key"))
	req.Store, req.Wait = c.at, wait
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	begin := time.Now()
	_, err := rival.Shop.Deduct(ctx, c.mode.Name, req)
	took = time.Since(begin)
	inFlight := c.mode.KeyRequired
	if errors.Is(err, stock.ErrInFlight) != inFlight || !errors.Is(err, stock.ErrLockBusy) || ctx.Err() != nil {
		t.Errorf("Deduct() of a rival that waits %v = %v after %v, want busy (in flight: %t)", wait, err, took, inFlight)
	}
	if took < wait && !inFlight {
		t.Errorf("a rival that waits %v gave up after %v", wait, took)
	}
	return took
}

// waits starts a rival with a long wait, and returns when it is waiting. If the lock is on the key, it uses another
// key.
func (c cell) waits(t *testing.T, rival *Replica, product int64) (await func() Result) {
	t.Helper()
	w := rival.Hold(t, step.Waiting)
	req := Request(product, 1, keyOf(product, "another key"))
	req.Store, req.Wait = c.at, Patience
	await = Go(t, func() (stock.Receipt, error) { return rival.Shop.Deduct(w.Ctx, c.mode.Name, req) })
	w.Await(t)
	w.Resume()
	return await
}
