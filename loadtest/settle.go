package loadtest

import (
	"context"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
)

// A request without an answer may still be at work. The ledger is read again and again until it has not changed settleReads
// times in a row, settleEvery apart, or until settleAtMost has passed.
const (
	settleEvery  = 150 * time.Millisecond
	settleReads  = 4
	settleAtMost = 8 * time.Second
	// A service goes on for that long at most with what its client has given up: its own bound, and some slack.
	settleServer = 11 * time.Second
)

// bookkeeping is the ledger of one product after the run, or why it could not be read.
type bookkeeping struct {
	ledger *api.Ledger // nil = the judge takes it for missing data
	err    error
}

// settleAll reads the ledger of each product that was asked for, where outcomes are unknown not before it has stopped
// changing.
func settleAll(ctx context.Context, c *Control, res *Result) map[int64]bookkeeping {
	books := map[int64]bookkeeping{}
	for product, last := range asked(res.History) {
		read := func(ctx context.Context) (*api.Ledger, error) { return c.Ledger(ctx, product) }
		var b bookkeeping
		if last >= 0 {
			quiet := res.Started.Add(time.Duration(last) + res.Plan.Wait + settleServer)
			b.ledger, b.err = settle(ctx, read, sameLedger, quiet)
		} else {
			b.ledger, b.err = read(ctx)
		}
		books[product] = b
	}
	return books
}

// asked returns the products of a history, and for each the last call whose outcome is unknown, -1 where there is none.
func asked(history []audit.Op) map[int64]int64 {
	products := map[int64]int64{}
	for _, op := range history {
		last, seen := products[op.ProductID]
		if !seen {
			last = -1
		}
		if op.Outcome == audit.Unknown {
			last = max(last, op.Call)
		}
		products[op.ProductID] = last
	}
	return products
}

// settle reads until what is read has stopped changing, though not before quiet, and returns what was read last.
func settle[T any](ctx context.Context, read func(context.Context) (T, error), same func(a, b T) bool, quiet time.Time) (T, error) {
	give := time.Now().Add(max(settleAtMost, time.Until(quiet)))
	last, err := read(ctx)
	for unchanged := 0; (unchanged < settleReads || time.Now().Before(quiet)) && time.Now().Before(give) && rest(ctx, settleEvery); {
		next, nextErr := read(ctx)
		if err == nil && nextErr == nil && same(last, next) {
			unchanged++
		} else {
			unchanged = 0
		}
		last, err = next, nextErr
	}
	return last, err
}

// sameLedger says whether nothing has been sold between two ledgers of a product.
func sameLedger(a, b *api.Ledger) bool {
	if len(a.Orders) != len(b.Orders) || len(a.Keys) != len(b.Keys) || len(a.Stock) != len(b.Stock) {
		return false
	}
	for store, stock := range a.Stock {
		if now, ok := b.Stock[store]; !ok || now != stock {
			return false
		}
	}
	return true
}
