package audit

import (
	"math"
	"net/http"

	"lastitem/internal/api"
)

// count sums the order rows.
func (j *judge) count() {
	r := &j.r
	r.Orders = len(j.rows)
	for _, o := range j.rows {
		r.Sold = add(r.Sold, o.Quantity)
	}
}

// conserve checks that no unit appeared or vanished: initial = stock now + units of the order rows. A lost update
// oversells while the stock is 0 or more, so the sign of the stock is checked last, and proves nothing on its own.
//
// An example: of 10 units two buyers read 10, both write 9, both order. Two units are sold, 9 are left: one lost update,
// a unit that will be sold again, and oversold is 0 until it is. Run to the end, 11 are sold and the stock is 0: oversold 1.
func (j *judge) conserve() {
	r := &j.r
	r.Oversold = max(0, r.Sold-r.Initial)
	accounted := add(r.Final, r.Sold)
	r.LostUpdates = max(0, accounted-r.Initial)
	if accounted < r.Initial { // no max here: with an absurd sum the difference might wrap round
		j.gone(r.Initial - accounted)
	}
	j.blameSums()
	j.conserveSegments()
}

// gone tells apart the units that are gone without an order. Refused requests that take units and put none back leave
// the counter below zero: those units were never there, so none of them is missing.
func (j *judge) gone(units int64) {
	j.r.Overdrawn = min(max(0, -j.r.Final), units)
	j.r.Leaked = units - j.r.Overdrawn
}

// blameSums reports what the sums show. Below zero, more was taken than there was: by orders, which is O, or by nobody.
func (j *judge) blameSums() {
	r := &j.r
	if r.Oversold > 0 || r.LostUpdates > 0 {
		j.find('O')
	}
	if r.Leaked > 0 {
		j.find('L')
	}
	switch {
	case r.Overdrawn > 0:
		j.violate("", sayOverdrawn, r.Final, r.Overdrawn)
	case r.Final < 0:
		j.violate("O", sayNegative, r.Final)
	}
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
			j.violate("OL", saySegmentNegative, i, n)
		}
	}
	// The ledger contradicts itself: it was read while somebody still bought, or reads wrongly. Either way it is no basis.
	if sum != j.r.Final {
		j.lack(saySegmentSum, sum, j.r.Final)
	}
}

// inspectRows checks the order rows among themselves: ids unique and present, quantities positive, one order per key while it is kept. No
// outcome implies the first three: a mode that oversells still has to number its orders.
func (j *judge) inspectRows() {
	repeated, unnamed, empty := 0, 0, 0
	var uses []use[string]
	j.orderOf = map[string]string{}
	for i, o := range j.rows {
		if o.OrderID == "" {
			unnamed++
		} else if j.byID[o.OrderID] != i {
			repeated++
			continue // the same order written twice is no second order for its key
		}
		if o.Quantity <= 0 {
			empty++
		}
		if o.Key == "" {
			continue
		}
		if _, seen := j.orderOf[o.Key]; !seen {
			j.orderOf[o.Key] = o.OrderID
		}
		uses = append(uses, useOf(o.Key, o, i))
	}
	j.blameIDs(repeated, unnamed, empty)
	twice, later := doubles(uses, j.kept())
	j.blameDoubles(twice, len(later))
	j.again = map[int]bool{}
	for _, row := range later {
		j.again[row] = true
	}
}

// blameIDs reports contradictions among the order rows.
func (j *judge) blameIDs(repeated, unnamed, empty int) {
	if repeated > 0 {
		j.violate("", sayRepeatedID, repeated)
	}
	if unnamed > 0 {
		j.violate("", sayUnnamed, unnamed)
	}
	if empty > 0 {
		j.violate("", sayEmptyOrder, empty)
	}
}

// inspectKeys holds the stored first answers against the orders, both ways. Which modes store answers is read off the
// data: a mode does if one of its orders has a stored answer, and then all its orders with a key must have one; the others
// only note the key on the order. A status of 0 is a row in progress. Answers that may have been removed after their
// retention are not missing. Only the stored answers of SQL are in the ledger, and they are about its orders only.
func (j *judge) inspectKeys() {
	if j.in.Store != api.SQL {
		return
	}
	if j.in.Ledger.Moved && len(j.in.Ledger.Keys) > 0 {
		j.r.Unchecked = append(j.r.Unchecked, j.say(sayMoved))
		return
	}
	if len(j.in.Ledger.Keys) == 0 {
		return
	}
	j.stored = make(map[string]api.KeyRow, len(j.in.Ledger.Keys))
	for _, k := range j.in.Ledger.Keys {
		j.stored[k.Key] = k
	}
	// Two passes: whether a mode keeps answers is known only after its last order.
	ordered, keeps := map[string]bool{}, map[string]bool{}
	for _, o := range j.rows {
		if _, stored := j.answer(o.Key, o.Mode); stored {
			ordered[o.Key], keeps[o.Mode] = true, true
		}
	}
	promised, unstored, denied, expired := 0, 0, 0, 0
	for key, k := range j.stored { // a promise without its order is what every replay will repeat
		if k.Status == http.StatusOK && !ordered[key] {
			promised++
		}
	}
	for _, o := range j.rows {
		k, stored := j.answer(o.Key, o.Mode)
		switch {
		case o.Key == "" || !keeps[o.Mode]:
		case stored && j.outlived(o.CreatedAt, k.CreatedAt):
		case !stored && j.outlived(o.CreatedAt, j.in.Ledger.AsOf):
			expired++
		case !stored || k.Status == 0: // order and answer are not one transaction: a repetition would be charged
			unstored++
		case k.Status != http.StatusOK: // charged, but the stored answer refuses
			denied++
		}
	}
	j.blameKeys(promised, unstored, denied, expired)
}

// answer returns the stored answer of a mode to a key. A mode that is not known may be any.
func (j *judge) answer(key, mode string) (k api.KeyRow, stored bool) {
	k, stored = j.stored[key]
	return k, stored && key != "" && (k.Mode == "" || mode == "" || k.Mode == mode)
}

// blameKeys reports stored answers and orders that disagree, and how many orders are older than the retention of their
// answers.
func (j *judge) blameKeys(promised, unstored, denied, expired int) {
	if promised > 0 {
		j.violate("A", sayPromised, promised)
	}
	if unstored > 0 {
		j.violate("", sayUnstored, unstored)
	}
	if denied > 0 {
		j.violate("", sayDenied, denied)
	}
	if expired > 0 {
		j.r.Unchecked = append(j.r.Unchecked, j.say(sayExpired, expired, j.keyRetention()))
	}
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
