package loadtest

import (
	"context"
	"sync"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
)

// A request without an answer may still be executed. The ledger is read every settleEvery until no such request can
// change it any more, and it has not changed settleReads times in a row; for the latter it is read for settleAtMost at
// most.
const (
	settleEvery  = 150 * time.Millisecond
	settleReads  = 4
	settleAtMost = 8 * time.Second
	// settleServer is the longest time that a service may go on with a request after the request's wait for a lock,
	// whether its client is still there or not: the service's own limit, plus some slack.
	settleServer = 11 * time.Second
	// settleAtLeast and settlePerOrder bound settling and judging together. A page of a ledger has a thousand orders, and
	// a run with an unknown outcome reads every page at least five times.
	settleAtLeast  = 30 * time.Second
	settlePerOrder = 500 * time.Microsecond
	// settleAtOnce is how many products are settled at the same time: one after the other, a hundred of them would take a
	// minute.
	settleAtOnce = 16
)

// bookkeeping is the ledger of one product after the run, or why it could not be read.
type bookkeeping struct {
	ledger *api.Ledger // nil = missing data for the judge
	early  bool        // it was read when a request without an answer could still be executed
	err    error
}

// afterwards bounds the settling and judging after the load of a run. They run even after an interruption, because
// without them a partial result is useless. The bound grows with what there is to wait for and to read: the requests
// still at work, the products, the orders.
func afterwards(res *Result) time.Duration {
	rounds := res.Plan.Products / settleAtOnce
	orders := res.Latency[client.Accepted].Count
	return settleAtLeast + res.Plan.Wait + settleServer + time.Duration(rounds)*settleAtMost +
		time.Duration(orders)*settlePerOrder
}

// settleAll reads the ledger of each requested product; if outcomes are unknown, it waits until the ledger has stopped
// changing.
func settleAll(ctx context.Context, c *Control, res *Result) map[int64]bookkeeping {
	sent := func(op judge.Op) int64 { return op.Call }
	return atOnce(asked(res, sent), func(product, last int64) (b bookkeeping) {
		read := func(ctx context.Context) (*api.Ledger, error) { return c.Ledger(ctx, product) }
		if last >= 0 {
			quiet := res.Started.Add(time.Duration(last) + res.Plan.Wait + settleServer)
			var late bool
			b.ledger, late, b.err = settle(ctx, read, sameLedger, quiet)
			b.early = !late
		} else {
			b.ledger, b.err = read(ctx)
		}
		return b
	})
}

// atOnce calls settled for every product of asked with its time, settleAtOnce of them at a time, and returns the
// results by product.
func atOnce[T any](asked map[int64]int64, settled func(product, last int64) T) map[int64]T {
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

// asked returns the products of a run, and for each the latest time of the calls with an unknown outcome, -1 if there
// are none. A run that sent nothing has its first product.
func asked(res *Result, at func(judge.Op) int64) map[int64]int64 {
	products := map[int64]int64{}
	if len(res.History) == 0 {
		products[res.Plan.Product] = -1
	}
	for _, op := range res.History {
		last, seen := products[op.ProductID]
		if !seen {
			last = -1
		}
		if op.Outcome == judge.Unknown {
			last = max(last, at(op))
		}
		products[op.ProductID] = last
	}
	return products
}

// settle reads until the result has stopped changing, with one read at least that begins at quiet or later, and returns
// the result of the last read; late says whether that read began so late. When ctx ends it returns what it has: a read
// that is cut off does not count if there is an earlier one.
func settle[T any](ctx context.Context, read func(context.Context) (T, error), same func(a, b T) bool,
	quiet time.Time) (last T, late bool, err error) {
	give := time.Now().Add(settleAtMost)
	began := time.Now()
	last, err = read(ctx)
	for unchanged := 0; began.Before(quiet) || unchanged < settleReads && time.Now().Before(give); {
		if !rest(ctx, settleEvery) {
			break
		}
		now := time.Now()
		next, nextErr := read(ctx)
		if nextErr != nil && ctx.Err() != nil {
			break
		}
		if err == nil && nextErr == nil && same(last, next) {
			unchanged++
		} else {
			unchanged = 0
		}
		last, err, began = next, nextErr, now
	}
	return last, !began.Before(quiet), err
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
