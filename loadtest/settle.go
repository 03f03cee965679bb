package loadtest

import (
	"context"
	"sync"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
)

// A request without an answer may still be executed. The ledger is read every settleEvery until it has not changed settleReads times in a
// row, or until settleAtMost has passed.
const (
	settleEvery  = 150 * time.Millisecond
	settleReads  = 4
	settleAtMost = 8 * time.Second
	// settleServer is the longest time that a service may go on with a request after the request's wait for a lock, whether its client is
	// still there or not: the service's own limit, plus some slack.
	settleServer = 11 * time.Second
	// settleAtOnce is how many products are settled at the same time: one after the other, a hundred of them would take a minute.
	settleAtOnce = 16
)

// bookkeeping is the ledger of one product after the run, or why it could not be read.
type bookkeeping struct {
	ledger *api.Ledger // nil = missing data for the judge
	err    error
}

// settleAll reads the ledger of each requested product; if outcomes are unknown, it waits until the ledger has stopped changing.
func settleAll(ctx context.Context, c *Control, res *Result) map[int64]bookkeeping {
	return each(asked(res.History), func(product, last int64) (b bookkeeping) {
		read := func(ctx context.Context) (*api.Ledger, error) { return c.Ledger(ctx, product) }
		if last >= 0 {
			quiet := res.Started.Add(time.Duration(last) + res.Plan.Wait + settleServer)
			b.ledger, b.err = settle(ctx, read, sameLedger, quiet)
		} else {
			b.ledger, b.err = read(ctx)
		}
		return b
	})
}

// each calls settled for every product of asked with its time, settleAtOnce of them at a time, and returns the results by product.
func each[T any](asked map[int64]int64, settled func(product, last int64) T) map[int64]T {
	var mu sync.Mutex
	var done sync.WaitGroup
	results, room := map[int64]T{}, make(chan struct{}, settleAtOnce)
	for product, last := range asked {
		room <- struct{}{}
		done.Go(func() {
			defer func() { <-room }()
			result := settled(product, last)
			mu.Lock()
			defer mu.Unlock()
			results[product] = result
		})
	}
	done.Wait()
	return results
}

// asked returns the products of a history, and for each the time of the last call with an unknown outcome, -1 if there is none.
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

// settle reads until the result has stopped changing, but at least until quiet, and returns the last result.
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

// sameLedger reports whether nothing was sold between two ledgers of a product.
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
