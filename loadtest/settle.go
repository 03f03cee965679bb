package loadtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/target"
)

const (
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

// afterwards bounds the settling and judging after the load of a run. They run even after an interruption, because
// without them a partial result is useless. The bound grows with what there is to wait for and to read: the requests
// still at work, the products, the orders, and a
// worker of somebody's service.
func afterwards(svc service, res *Result) time.Duration {
	rounds := res.Plan.Products / settleAtOnce
	orders := res.Latency[client.Accepted].Count
	return settleAtLeast + res.Plan.Wait + settleServer + time.Duration(rounds)*target.SettleAtMost +
		time.Duration(orders)*settlePerOrder + target.RestAtMost(svc.patience)
}

// settleAll reads the ledger of each requested product. If outcomes are unknown, it waits until no such request can
// change the ledger any more, and it has stopped changing. Nobody knows how long a service that is not ours goes on
// with a request after its client has left; settleServer is as good a guess as any.
func settleAll(ctx context.Context, svc service, res *Result) map[int64]bookkeeping {
	if svc.ledger == nil {
		return nil
	}
	over := func(op judge.Op) int64 {
		if svc.foreign {
			return op.Return
		}
		return op.Call + int64(res.Plan.Wait)
	}
	books := atOnce(asked(res, over), func(product, last int64) (b bookkeeping) {
		defer func() {
			if svc.tickets == nil || b.err != nil {
				return
			}
			b.tickets, b.err = svc.tickets(ctx, product)
			if p, refused := errors.AsType[*target.ProblemError](b.err); refused && p.Problem.Code == api.ReconcileRefused {
				b.tickets, b.unread, b.err = &api.TicketBook{}, p.Problem.Detail, nil
			}
		}()
		read := func(ctx context.Context) (*api.Ledger, error) { return svc.ledger(ctx, product) }
		quiet := res.Started.Add(time.Duration(last) + settleServer)
		if svc.foreign {
			if watched := res.Started.Add(res.Elapsed + svc.watch); last < 0 || watched.After(quiet) {
				quiet = watched
			}
			var rested bool
			b.ledger, rested, b.err = target.AtRest(ctx, noting(read, &b.gone), svc.gone, acceptedOf(res, product), quiet,
				svc.patience)
			b.restless = !rested
			return b
		}
		if last < 0 {
			b.ledger, b.err = read(ctx)
			return b
		}
		var late bool
		b.ledger, late, b.err = target.Settle(ctx, read, quiet)
		b.early = !late
		return b
	})
	if svc.foreign {
		res.Rested = time.Since(res.Started.Add(res.Elapsed))
	}
	return books
}

// noting reads, and counts in gone the orders of earlier readings that the last one does not have.
func noting(read func(context.Context) (*api.Ledger, error), gone *int) func(context.Context) (*api.Ledger, error) {
	seen := map[string]bool{}
	return func(ctx context.Context) (*api.Ledger, error) {
		l, err := read(ctx)
		if err != nil {
			return l, err
		}
		*gone = len(seen)
		for _, o := range l.Orders {
			if seen[o.OrderID] {
				*gone--
			}
			seen[o.OrderID] = true
		}
		return l, nil
	}
}

// acceptedOf is how many units of a product were acknowledged, without those of orders that were then cancelled.
func acceptedOf(res *Result, product int64) (units int64) {
	for _, op := range res.History {
		if op.ProductID == product && op.Outcome == judge.OK {
			units += op.Quantity
		}
	}
	return units - cancelledOf(res, product)
}

// cancelledOf is how many units of a product belong to orders that were answered as cancelled.
func cancelledOf(res *Result, product int64) (units int64) {
	seen := map[string]bool{}
	for _, op := range res.Cancels[product] {
		if op.Kind == judge.Cancel && op.Outcome == judge.OK && !seen[op.OrderID] {
			seen[op.OrderID], units = true, units+op.Quantity
		}
	}
	return units
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
	history := slices.Clone(res.History)
	for _, ops := range res.Adjusts {
		history = append(history, ops...)
	}
	for product, ops := range res.Cancels {
		for _, op := range ops {
			history = append(history, judge.Op{ProductID: product, Call: op.Call, Return: op.Return, Outcome: op.Outcome})
		}
	}
	for _, op := range history {
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
