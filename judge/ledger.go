package judge

import (
	"math"
	"net/http"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// count sums the order rows.
func (j *judge) count() {
	r := &j.r
	r.Orders = len(j.rows)
	for _, o := range j.rows {
		r.Sold = add(r.Sold, o.Quantity)
	}
}

// conserve checks that no unit appeared or vanished: initial = stock now + units held + units of the order rows,
// without those that were put back; in Redis also those of tickets, whose orders are in SQL. A lost update oversells
// while the stock is 0 or more, so the sign of the stock is checked last, and proves nothing on its own.
//
// An example: of 10 units two buyers read 10, both write 9, both order. Two units are sold, 9 are left: one lost
// update, a unit that will be sold again, and oversold is 0 until it is. Run to the end, 11 are sold and the stock is
// 0: oversold 1.
func (j *judge) conserve() {
	r := &j.r
	l := j.in.Ledger
	r.Passed = l.Passed[j.in.Store]
	if l.InFlight > 0 {
		j.lack(text.Of("%d [ticket waits|tickets wait] for [its|their] order"), l.InFlight)
	}
	gone := add(add(r.Sold, r.Passed), l.Held[j.in.Store]-l.Restocked[j.in.Store])
	if r.Unseen.Before {
		return
	}
	r.Oversold = max(0, gone-r.Initial)
	accounted := add(r.Final, gone)
	if r.Unseen.After {
		accounted = r.Initial
	}
	r.LostUpdates = max(0, accounted-r.Initial)
	if accounted < r.Initial { // no max here: with an absurd sum the difference might wrap round
		j.gone(r.Initial - accounted)
	}
	j.blameSums()
	j.conserveSegments()
}

// conserveSegments checks the segments of a segmented product: one may be short where the sum is not.
func (j *judge) conserveSegments() {
	segments := j.in.Ledger.Segments
	if j.in.Store != "redis" || len(segments) == 0 {
		return
	}
	var sum int64
	for i, n := range segments {
		sum = add(sum, n)
		if n < 0 {
			j.violate("OL", text.Of("segment %d holds %d"), i, n)
		}
	}
	// The ledger contradicts itself: it was read while somebody still bought, or reads wrongly. Either way it is no basis.
	if sum != j.r.Final {
		j.lack(text.Of("the segments add up to %d, the stock says %d"), sum, j.r.Final)
	}
}

// idCounts are the contradictions among order rows.
type idCounts struct{ repeated, unnamed, empty int }

func (n idCounts) blame(f *findings) {
	f.each(n.repeated, "", text.Of("%d order [row repeats|rows repeat] the id of another"))
	f.each(n.unnamed, "", text.Of("%d order [row has|rows have] no id"))
	f.each(n.empty, "", text.Of("%d order [row has a quantity|rows have quantities] of zero or less"))
}

// inspectRows checks the order rows among themselves: ids unique and present, quantities positive, one order per key
// while it is kept. No outcome implies the first three: a mode that oversells still has to number its orders.
func (j *judge) inspectRows() {
	var ids idCounts
	var uses []use[string]
	j.orderOf = map[string]string{}
	for i, o := range j.rows {
		if o.OrderID == "" {
			ids.unnamed++
		} else if j.byID[o.OrderID] != i {
			ids.repeated++
			continue // the same order written twice is no second order for its key
		}
		if o.Quantity <= 0 {
			ids.empty++
		}
		if o.Key == "" {
			continue
		}
		if _, seen := j.orderOf[o.Key]; !seen {
			j.orderOf[o.Key] = o.OrderID
		}
		uses = append(uses, useOf(o.Key, o, i))
	}
	ids.blame(&j.findings)
	twice, later := doubles(uses, j.kept.held())
	j.blameDoubles(twice, len(later), j.kept)
	j.again = map[int]bool{}
	for _, row := range later {
		j.again[row] = true
	}
}

// inspectKeys holds the stored first answers against the orders, both ways. Which modes store answers is read off the
// data: a mode does if one of its orders has a stored answer, and then all its orders with a key must have one; the
// others only note the key on the order. A status of 0 is a row in progress. Answers that may have been removed after
// their retention are not missing. Only the stored answers of SQL are in the ledger, and they are about its orders
// only.
func (j *judge) inspectKeys() {
	if j.in.Store != api.SQL {
		return
	}
	if j.in.Ledger.Moved && len(j.in.Ledger.Keys) > 0 {
		j.skip(text.Of("the stored answers to idempotency keys were not compared with the orders: the product was sold " +
			"while its pages were read; GET /products/{id}/audit reads one moment"))
		return
	}
	if len(j.in.Ledger.Keys) == 0 {
		return
	}
	j.stored = make(keyRows, len(j.in.Ledger.Keys))
	for _, k := range j.in.Ledger.Keys {
		j.stored[k.Key] = k
	}
	// Two passes: whether a mode keeps answers is known only after its last order.
	ordered, keeps := map[string]bool{}, map[string]bool{}
	for _, o := range j.rows {
		if _, stored := j.stored.of(o.Key, o.Mode); stored {
			ordered[o.Key], keeps[o.Mode] = true, true
		}
	}
	var n keyCounts
	for key, k := range j.stored { // a promise without its order is what every replay will repeat
		if k.Status == http.StatusOK && !ordered[key] {
			n.promised++
		}
	}
	for _, o := range j.rows {
		k, stored := j.stored.of(o.Key, o.Mode)
		switch {
		case o.Key == "" || o.ReservationID != "" || !keeps[o.Mode]:
		case stored && j.kept.outlived(o.CreatedAt, k.CreatedAt):
		case !stored && j.kept.outlived(o.CreatedAt, j.in.Ledger.AsOf):
			n.expired++
		case !stored || k.Status == 0: // order and answer are not one transaction: a repetition would be charged
			n.unstored++
		case k.Status != http.StatusOK: // charged, but the stored answer refuses
			n.denied++
		}
	}
	n.blame(&j.findings, j.kept)
}

// add is a sum that stays at the end of the range instead of wrapping round, so that an absurd quantity cannot hide an
// overselling.
func add(a, b int64) int64 {
	switch c := a + b; {
	case a > 0 && b > 0 && c < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && c >= 0:
		return math.MinInt64
	default:
		return c
	}
}
