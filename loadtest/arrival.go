package loadtest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"lastitem/judge"
	"lastitem/loadtest/plan"
	"lastitem/target"
)

// confirmTries is how often at least a confirm is sent while nobody knows its outcome: before it is known, the buyer's
// money can neither be kept nor sent back. An adjustment is sent as often.
const confirmTries = 4

// arrive executes one arrival: a deduction with its repetitions if the plan has any, or what v says if the plan
// reserves. intended is when it was due, in nanoseconds on rec's clock; -1 = whenever it is sent. If rec is nil, the
// arrival is not counted.
func (w *worker) arrive(ctx context.Context, rec *recorder, product, intended int64, v plan.Visit) {
	ask := target.Ask{Mode: w.script.mode, Store: w.plan.Store, Product: product, Quantity: w.plan.Quantity,
		Buyer: v.Buyer, Wait: w.plan.Wait}
	if v.Adjust != 0 && rec != nil {
		w.insist(ctx, rec, target.Ask{Kind: judge.Adjust, Product: product, Store: w.script.store, Quantity: v.Adjust,
			Key: uuid.NewString()}, -1, false, max(w.plan.Retry+1, confirmTries))
	}
	if w.script.keyed || w.plan.Reserving.On() && v.Twice {
		ask.Key = uuid.NewString()
	}
	if w.plan.Reserving.On() {
		w.buy(ctx, rec, ask, intended, v)
		return
	}
	if w.script.visit != nil {
		var left bool
		if ask, left = w.script.visit(ask); !left {
			return
		}
	}
	await := func() {}
	if v.Twice && w.second != nil {
		await = w.again(ctx, rec, ask, intended)
	}
	sold := w.insist(ctx, rec, ask, intended, false, w.plan.Retry+1)
	await() // the second click may have sold another order, and what ends this one needs its connection
	if w.script.endings != nil && sold.Outcome == judge.OK {
		ask.Order, ask.Visit = sold.OrderID, ask.Visit.About(sold.OrderID)
		w.end(ctx, rec, ask)
	}
}

// end cancels and ships an order, as the script has it for the next one.
func (w *worker) end(ctx context.Context, rec *recorder, ask target.Ask) {
	kinds := w.script.endings()
	if len(kinds) > 1 {
		ask.Kind = kinds[1]
		defer w.again(ctx, rec, ask, -1)()
	}
	if len(kinds) > 0 {
		ask.Kind = kinds[0]
		w.insist(ctx, rec, ask, -1, false, w.plan.Retry+1)
	}
}

// endingsOf returns what is sent about the orders of a service: of twelve orders one is cancelled, one cancelled twice
// at once and, where orders can be shipped, one shipped while it is cancelled.
func endingsOf(f *target.Remote) func() []judge.ReservationKind {
	if f.Cancel == nil {
		return nil
	}
	var sold atomic.Int64
	return func() []judge.ReservationKind {
		switch n := sold.Add(1) % 12; {
		case n == 2:
			return []judge.ReservationKind{judge.Cancel}
		case n == 6:
			return []judge.ReservationKind{judge.Cancel, judge.Cancel}
		case n == 10 && f.Ship != nil:
			return []judge.ReservationKind{judge.Cancel, judge.Ship}
		}
		return nil
	}
}

// again begins the same on the second connection, such as the second click of a deduction.
func (w *worker) again(ctx context.Context, rec *recorder, ask target.Ask, intended int64) (await func()) {
	other := &worker{id: w.id, plan: w.plan, script: w.script, engine: w.second}
	return w.beside(func() { other.insist(ctx, rec, ask, intended, false, w.plan.Retry+1) })
}

// buy executes one arrival: a reservation, and what its buyer does then.
func (w *worker) buy(ctx context.Context, rec *recorder, ask target.Ask, intended int64, v plan.Visit) {
	ask.Kind, ask.For = judge.Reserve, w.plan.Reserving.For
	switch {
	case v.Cart && w.script.carts:
		ask.Second = w.plan.Second()
	case v.Cart:
		ask.Product = w.plan.Second()
	}
	began := time.Now()
	held := w.insist(ctx, rec, ask, intended, v.Twice, w.plan.Retry+1)
	if held.ReservationID == "" {
		return
	}
	answered := time.Now()
	ask.Reservation, ask.Key = held.ReservationID, ""
	if v.Extends && !w.extend(ctx, rec, ask, v.Twice) || v.Act == plan.Leaves {
		return
	}
	after := v.After - time.Since(answered)
	if v.Act == plan.PaysLate {
		after = v.After - time.Since(began)
	}
	if !w.engine.Rest(ctx, max(after, 0)) {
		return // the run was interrupted: the deadline ends it
	}
	ask.Kind = judge.Cancel
	if v.Act != plan.Cancels {
		ask.Kind, ask.Key = judge.Confirm, uuid.NewString()
	}
	end := w.insist(ctx, rec, ask, -1, v.Twice, max(w.plan.Retry+1, confirmTries))
	if v.Returns && ask.Kind == judge.Confirm && end.Outcome == judge.OK {
		w.giveBack(ctx, rec, ask, end.OrderID, v)
	}
}

// extend moves the deadline; false means that the run was interrupted.
func (w *worker) extend(ctx context.Context, rec *recorder, ask target.Ask, twice bool) bool {
	if !w.engine.Rest(ctx, w.plan.Reserving.PayFrom) {
		return false
	}
	ask.Kind = judge.Extend
	w.insist(ctx, rec, ask, -1, twice, w.plan.Retry+1)
	return true
}

// giveBack returns an order, of a cart each line of it, and asks once more for the opposite: the first answer stands.
func (w *worker) giveBack(ctx context.Context, rec *recorder, ask target.Ask, order string, v plan.Visit) {
	lines := []int64{ask.Product, ask.Second}
	ask.Kind, ask.Second, ask.Order = judge.Return, 0, order
	for _, ask.Product = range lines {
		for _, ask.Restock = range []bool{v.Restock, !v.Restock} {
			if ask.Product != 0 {
				w.insist(ctx, rec, ask, -1, v.Twice, w.plan.Retry+1)
			}
		}
	}
}
