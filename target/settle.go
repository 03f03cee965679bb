package target

import (
	"context"
	"errors"
	"maps"
	"time"

	"lastitem/contract/api"
)

// A service is read every settleEvery until it is at rest. SettleAtMost is for how long a ledger that only moves is
// read again, until settleReads readings have shown no change.
const (
	settleEvery  = 150 * time.Millisecond
	settleReads  = 4
	SettleAtMost = 8 * time.Second
)

// settle reads until again says that a reading, which began then, is the last. When ctx ends, that is the one before: a
// reading that is cut off does not count if there is an earlier one.
func settle[T any](ctx context.Context, read func(context.Context) (T, error),
	again func(last T, err error, began time.Time) bool) (last T, err error) {
	for n := 0; ; n++ {
		began := time.Now()
		next, failed := read(ctx)
		if n > 0 && failed != nil && ctx.Err() != nil {
			return last, err
		}
		if last, err = next, failed; !again(last, err, began) || !rest(ctx, settleEvery) {
			return last, err
		}
	}
}

// Settle reads the ledger of a product until it has stopped changing, with one reading at least that begins at quiet or
// later, and returns the last. late says whether that one began so late.
func Settle(ctx context.Context, read func(context.Context) (*api.Ledger, error), quiet time.Time) (last *api.Ledger,
	late bool, err error) {
	var before *api.Ledger
	end, unchanged := time.Now().Add(SettleAtMost), 0
	last, err = settle(ctx, read, func(l *api.Ledger, _ error, began time.Time) bool {
		if unchanged++; !sameLedger(before, l) {
			unchanged = 0
		}
		before, late = l, !began.Before(quiet)
		return !late || unchanged < settleReads && time.Now().Before(end)
	})
	return last, late, err
}

// restReads is how often books that add up are read again, and restTimes for how many times its patience a service that
// is not ours may go on writing.
const (
	restReads = 2
	restTimes = 12
)

// RestAtMost is how long [AtRest] reads at most.
func RestAtMost(patience time.Duration) time.Duration { return restTimes * patience }

// AtRest reads the books of a service that is not ours until they count: gone, the units that the books say are sold,
// are as many as were accepted, twice unchanged, or nothing has changed for patience; one reading at least begins at
// quiet or later. It returns the last reading, and whether it counts. A reading that is unfit ends it.
func AtRest(ctx context.Context, read func(context.Context) (*api.Ledger, error), gone func(*api.Ledger) int64,
	accepted int64, quiet time.Time, patience time.Duration) (last *api.Ledger, rested bool, err error) {
	var before *api.Ledger
	unchanged, since := 0, time.Now()
	end := since.Add(RestAtMost(patience))
	if quiet.After(since) {
		end = quiet.Add(RestAtMost(patience))
	}
	last, err = settle(ctx, read, func(l *api.Ledger, err error, began time.Time) bool {
		var unfit *UnfitError
		if errors.As(err, &unfit) {
			return false
		}
		if unchanged++; !sameLedger(before, l) || l.Moved {
			unchanged, since = 0, began
		}
		before = l
		long := unchanged > 0 && time.Since(since) >= patience // one reading may take longer than that
		rested = !began.Before(quiet) && (long || unchanged >= restReads && gone(l) == accepted)
		return !rested && time.Now().Before(end)
	})
	return last, rested, err
}

// Gone is how many units the books of a product say are sold: those in the orders or, where orders are not read, those
// that are gone from the stock. Orders that are read may come later than the stock falls.
func (f *Foreign) Gone(l *api.Ledger) (units int64) {
	if f.Orders == (Source{}) {
		return l.Initial[ForeignStore] - l.Stock[ForeignStore]
	}
	for _, o := range l.Orders {
		units += o.Quantity
	}
	return units
}

// Agreed is Gone if the stock, where it is read beside the orders, says the same; else -1: one of them comes later.
func (f *Foreign) Agreed(l *api.Ledger) int64 {
	gone := f.Gone(l)
	if f.Stock != (Source{}) && l.Initial[ForeignStore]-l.Stock[ForeignStore] != gone {
		return -1
	}
	return gone
}

// sameLedger reports whether nothing was sold between two ledgers of a product; nil is the same as none.
func sameLedger(a, b *api.Ledger) bool {
	return a != nil && b != nil && len(a.Orders) == len(b.Orders) && len(a.Keys) == len(b.Keys) &&
		maps.Equal(a.Stock, b.Stock)
}

// rest waits for d; false means that ctx ended first.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
