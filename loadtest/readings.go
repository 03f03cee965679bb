package loadtest

import (
	"cmp"
	"fmt"
	"slices"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/say/text"
	"lastitem/target"
)

// reading is another way to read the books and the answers of a run: a service that means them so is right.
type reading struct {
	in  judge.Input
	why text.Text
}

// excuse makes a verdict INCONCLUSIVE that another reading does not share, and says which.
func excuse(r judge.Report, readings []reading, judged func(judge.Input) judge.Report) judge.Report {
	for _, other := range readings {
		if r.Verdict == judge.Broken && judged(other.in).Verdict != judge.Broken {
			r.Missing = append([]string{other.why.In(r.Lang)}, r.Missing...)
			r = undecided(r)
		}
	}
	return r
}

// readings are the ways in which the books of a right service may be meant.
func readings(f *target.Remote, in judge.Input, w *witness) (all []reading) {
	if once, n := named(in); n > 0 {
		all = append(all, reading{once, text.Of("%d [answer names|answers name] an order that an earlier answer had named, "+
			"as in %s: does the service take equal requests for one ({{key}} in --request tells them apart), or are orders "+
			"lost?").With(n, w.first[client.CodeOK])})
	}
	if in.Ledger == nil {
		return all
	}
	for _, s := range f.States(in.Ledger.ProductID) {
		l, other := *in.Ledger, in
		other.Ledger = &l
		l.Orders = slices.DeleteFunc(slices.Clone(l.Orders), func(o api.Order) bool { return s.Orders[o.OrderID] })
		other.History = slices.DeleteFunc(slices.Clone(in.History), func(op judge.Op) bool {
			return op.Outcome == judge.OK && s.Orders[op.OrderID]
		})
		if n := len(in.Ledger.Orders) - len(l.Orders); n > 0 && len(l.Orders) > 0 {
			why := text.Of("%d [row differs|rows differ] by [its|their] %s from the row of the purchase that was tried, such " +
				"as %s; without [it|them] the books add up: [does it|do they] stand? Give --orders-... that shows only orders " +
				"that stand")
			all = append(all, reading{other, why.With(n, s.Member, s.Row)})
		}
	}
	if whole, n := listed(in); n > 0 && f.Orders.URL != "" {
		why := text.Of("the list has %d orders; %d more [was|were] answered, and by the stock sold: does the list show only " +
			"a part, or are orders written later? Give a path that shows all, or a longer --settle")
		all = append(all, reading{whole, why.With(len(in.Ledger.Orders), n)})
	}
	return all
}

// named is a history without the answers that name an order that an earlier one has named; how many these are.
func named(in judge.Input) (_ judge.Input, n int) {
	seen := map[string]bool{}
	in.History = slices.DeleteFunc(slices.Clone(in.History), func(op judge.Op) bool {
		again := op.Outcome == judge.OK && !op.Replayed && op.OrderID != "" && seen[op.OrderID]
		if seen[op.OrderID] = true; again {
			n++
		}
		return again
	})
	return in, n
}

// listed are the books with the orders that were answered and are not in the list, n of them, if the list may be only a
// part: it has none, as many as a page, or those that come first or last, by time or by id.
func listed(in judge.Input) (_ judge.Input, n int) {
	there := map[string]bool{}
	for _, o := range in.Ledger.Orders {
		there[o.OrderID] = true
	}
	var shown, more []judge.Op
	l := *in.Ledger
	l.Orders = slices.Clone(l.Orders)
	for _, op := range in.History {
		switch {
		case op.Outcome != judge.OK || op.Replayed:
		case there[op.OrderID]:
			shown = append(shown, op)
		default:
			more = append(more, op)
			l.Orders = append(l.Orders, api.Order{OrderID: op.OrderID, ProductID: l.ProductID, Quantity: op.Quantity,
				Mode: target.ServiceName, Store: target.ForeignStore})
		}
	}
	in.Ledger = &l
	if len(more) > 0 && (len(shown) == 0 || pageSizes[len(there)] || parted(shown, more) || parted(more, shown)) {
		return in, len(more)
	}
	return in, 0
}

// parted says whether all answers of a may come before all of b, or have ids before theirs.
func parted(a, b []judge.Op) bool {
	call := func(a, b judge.Op) int { return cmp.Compare(a.Call, b.Call) }
	end := func(a, b judge.Op) int { return cmp.Compare(a.Return, b.Return) }
	id := func(a, b judge.Op) int {
		return cmp.Or(cmp.Compare(len(a.OrderID), len(b.OrderID)), cmp.Compare(a.OrderID, b.OrderID))
	}
	return slices.MaxFunc(a, call).Call <= slices.MinFunc(b, end).Return ||
		id(slices.MaxFunc(a, id), slices.MinFunc(b, id)) < 0
}

// split makes an order for each request of those orders that are about several: as many answers name one as it has
// times the units of a request, or no answer names any. It returns how many it has split.
func split(history []judge.Op, orders []api.Order, asked int64) (all []api.Order, n int) {
	named := map[string][]int{}
	for i, op := range history {
		if op.Outcome == judge.OK {
			named[op.OrderID] = append(named[op.OrderID], i)
		}
	}
	for _, o := range orders {
		answers := named[o.OrderID]
		if free := named[""]; len(named) == 1 && free != nil {
			k := min(len(free), int(o.Quantity/asked))
			answers, named[""] = free[:k], free[k:]
		}
		if len(answers) < 2 || int64(len(answers))*asked != o.Quantity {
			all = append(all, o)
			continue
		}
		n++
		for k, i := range answers {
			one := o
			one.OrderID, one.Quantity, one.Key = fmt.Sprintf("%s (%d)", o.OrderID, k+1), asked, ""
			history[i].OrderID = one.OrderID
			all = append(all, one)
		}
	}
	return all, n
}

// countsRefused sets a stock below zero to zero, for the orders to decide, if refused requests may have lowered it too.
// It returns what it was.
func countsRefused(in judge.Input) (left int64) {
	stock := in.Ledger.Stock
	below := -stock[target.ForeignStore]
	for _, op := range in.History {
		if op.Outcome != judge.OK {
			left -= op.Quantity
		}
	}
	if below <= 0 || below > -left {
		return 0
	}
	stock[target.ForeignStore] = 0
	return -below
}
