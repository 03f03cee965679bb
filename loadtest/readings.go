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
func readings(f *target.Remote, in judge.Input, b bookkeeping, w *witness) (all []reading) {
	named := map[string]bool{}
	if fewer, n := without(in, func(op judge.Op) (again bool) {
		again, named[op.OrderID] = !op.Replayed && op.OrderID != "" && named[op.OrderID], true
		return again
	}); n > 0 {
		all = append(all, reading{fewer, text.Of("%d [answer names|answers name] an order that an earlier answer had named, "+
			"as in %s: does the service take equal requests for one ({{key}} in --request tells them apart), or are orders "+
			"lost?").With(n, w.first[client.CodeOK])})
	}
	held := in
	held.MayHold = true
	all = append(all, reading{held, text.Of("requests were refused while others ran that neither sold nor were refused: " +
		"did these hold units, as for a payment that then failed?")})
	if len(in.Cancels) > 0 {
		first := slices.MinFunc(in.Cancels, func(a, b judge.ReservationOp) int { return cmp.Compare(a.Call, b.Call) })
		later := in
		later.History = slices.Clone(in.History)
		unproven(later.History, first.Call)
		all = append(all, reading{later, text.Of("requests were refused after orders had been cancelled: does the shop " +
			"put the units back some time after its answer, or does something say sold out too early?")})
	}
	if left := b.ledger.Stock[target.ForeignStore]; left > 0 {
		kept := in
		kept.Kept = left
		all = append(all, reading{kept, text.Of("every refusal came when as many were left as at the end, %d: does the " +
			"shop " +
			"keep these back, or does something say sold out too early? --stock-... without what is kept back tells").
			With(left)})
	}
	if in.Ledger == nil {
		return all
	}
	once := *in.Ledger
	seen := map[string]bool{}
	once.Orders = slices.DeleteFunc(slices.Clone(once.Orders), func(o api.Order) (again bool) {
		again, seen[o.OrderID] = seen[o.OrderID], true
		return again
	})
	if n := len(in.Ledger.Orders) - len(once.Orders); n > 0 {
		single := in
		single.Ledger = &once
		all = append(all, reading{single, text.Of("%d [row repeats|rows repeat] the order of another, and without " +
			"[it|them] " +
			"the books add up: does --orders-... show an order twice, as a JOIN does?").With(n)})
	}
	if whole, o := filled(in); o.OrderID != "" {
		all = append(all, reading{whole, text.Of("order %s is of the last %d, and more were asked for: does the shop sell "+
			"what there is, and say so?").With(o.OrderID, o.Quantity)})
	}
	if target.Shifted(in.History, in.Ledger.Orders) {
		counted := in
		counted.History = slices.Clone(in.History)
		for i, op := range in.History {
			if op.Outcome == judge.OK {
				counted.History[i].OrderID = ""
			}
		}
		counted.History = target.Named(counted.History, in.Ledger.Orders)
		all = append(all, reading{counted, text.Of("the answers number the orders one by one, and so do the rows, from " +
			"another number on: does the number in an answer count something else than the rows' id? --order-id gives the " +
			"place of the id in an answer")})
	}
	for _, s := range f.States(in.Ledger.ProductID) {
		if slices.ContainsFunc(in.Cancels, func(op judge.ReservationOp) bool {
			return op.Kind == judge.Ship && op.Outcome == judge.OK && s.Orders[op.OrderID]
		}) {
			continue // it says that they were shipped
		}
		l := *in.Ledger
		l.Orders = slices.DeleteFunc(slices.Clone(l.Orders), func(o api.Order) bool { return s.Orders[o.OrderID] })
		other, _ := without(in, func(op judge.Op) bool { return s.Orders[op.OrderID] })
		other.Ledger = &l
		if left := l.Stock[target.ForeignStore]; left < 0 && -left == unitsOf(in.Ledger.Orders)-unitsOf(l.Orders) {
			l.Stock = map[api.Store]int64{target.ForeignStore: 0} // they were sold below zero, and are to be sent later
		}
		other.History = slices.Clone(other.History)
		unproven(other.History, 0)
		if n := len(in.Ledger.Orders) - len(l.Orders); n > 0 && len(l.Orders) > 0 {
			why := text.Of("%d [row differs|rows differ] by [its|their] %s from the row of the purchase that was tried, such " +
				"as %s; without [it|them] the books add up: [does it|do they] stand? Give --orders-... that shows only orders " +
				"that stand")
			all = append(all, reading{other, why.With(n, s.Member, s.Row)})
		}
	}
	there, cancelled := accounted(in)
	if stood, n := without(in, func(op judge.Op) bool { return !there[op.OrderID] && !cancelled[op.OrderID] }); n > 0 &&
		n <= b.gone {
		unproven(stood.History, 0)
		why := text.Of("%d [order was|orders were] listed and [is|are] gone again: do unpaid orders expire, and their " +
			"units come back? A shorter --settle reads before that")
		all = append(all, reading{stood, why.With(b.gone)})
	}
	if whole, n := listed(in); n > 0 && f.Orders.URL != "" {
		why := text.Of("the list has %d orders; %d more [was|were] answered, and by the stock sold: does the list show " +
			"only a part, or are orders written later? Give a path that shows all, or a longer --settle")
		all = append(all, reading{whole, why.With(len(in.Ledger.Orders), n)})
	}
	return all
}

// accounted are the orders that the books have, and those that may have been cancelled.
func accounted(in judge.Input) (there, cancelled map[string]bool) {
	there, cancelled = map[string]bool{}, map[string]bool{}
	for _, o := range in.Ledger.Orders {
		there[o.OrderID] = true
	}
	for _, op := range in.Cancels {
		cancelled[op.OrderID] = cancelled[op.OrderID] || op.MayCancel()
	}
	return there, cancelled
}

// filled are the answers in which the only order of fewer units than were asked for counts with its units, if it took
// the last ones; else it returns no order.
func filled(in judge.Input) (judge.Input, api.Order) {
	orders, last := map[string]api.Order{}, api.Order{}
	for _, o := range in.Ledger.Orders {
		orders[o.OrderID] = o
	}
	in.History = slices.Clone(in.History)
	for i, op := range in.History {
		o, there := orders[op.OrderID]
		if op.Outcome != judge.OK || !there || o.Quantity >= op.Quantity {
			continue
		}
		if last.OrderID != "" || in.Ledger.Stock[target.ForeignStore] != 0 {
			return in, api.Order{}
		}
		last, in.History[i].Quantity = o, o.Quantity
	}
	return in, last
}

// unproven makes the refusals that were answered after a time prove nothing: units were taken meanwhile that came back
// later.
func unproven(history []judge.Op, after int64) {
	for i := range history {
		if history[i].Outcome == judge.Refused && history[i].Return >= after {
			history[i].Outcome = judge.Declined
		}
	}
}

// without is a history without n of the answers that count as sold.
func without(in judge.Input, drop func(judge.Op) bool) (_ judge.Input, n int) {
	n = len(in.History)
	in.History = slices.DeleteFunc(slices.Clone(in.History), func(op judge.Op) bool {
		return op.Outcome == judge.OK && drop(op)
	})
	return in, n - len(in.History)
}

// listed are the books with the orders that were answered and are not there, n of them, if the list may be only a part:
// it has none, as many as a page, or those that come first or last, by time or by id.
func listed(in judge.Input) (_ judge.Input, n int) {
	var shown, more []judge.Op
	there, cancelled := accounted(in)
	l := *in.Ledger
	l.Orders = slices.Clone(l.Orders)
	for _, op := range in.History {
		switch {
		case op.Outcome != judge.OK || op.Replayed:
		case there[op.OrderID]:
			shown = append(shown, op)
		case !cancelled[op.OrderID]:
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
	all = make([]api.Order, 0, len(orders)) // nil means that none were read
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

// judgeRows judges by the orders. A stock below zero that refused requests may have lowered too counts as zero, if no
// more was ordered than there was.
func judgeRows(in judge.Input) judge.Report {
	l := *in.Ledger
	left, initial := l.Stock[target.ForeignStore], l.Initial[target.ForeignStore]
	var down int64
	for _, op := range in.History {
		if op.Outcome != judge.OK {
			down += op.Quantity
		}
	}
	if left >= 0 || -left > down || unitsOf(l.Orders) > initial {
		return judge.Judge(in)
	}
	in.Ledger, l.Stock = &l, map[api.Store]int64{target.ForeignStore: 0}
	r := judge.Judge(in)
	r.Final, r.Unchecked = left, append(r.Unchecked, text.Of("what a restock does: the stock is at %d, since refused "+
		"requests lower it too and do not put it back").With(left).In(in.Lang))
	return r
}
