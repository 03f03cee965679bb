package judge

import (
	"cmp"
	"slices"

	"lastitem/say/text"
)

// sales returns all units sold according to the rows or to acknowledgements.
func (x records) sales(lost []change) []change {
	all := slices.Clip(lost)
	for i, c := range x.claims { // twice the same id is two rows, and both have been taken from somewhere
		call := c.call
		if !c.made {
			call = always
		}
		all = append(all, change{call, x.rows[i].Quantity})
	}
	return all
}

// hearRefusals checks every sold_out. It also catches a shop that sells nothing, without a special rule.
// Overselling excuses no refusal: a lost update leaves more stock than there should be, not less. A leak does.
func (j *judge) hearRefusals(sales []change) {
	if j.returned || !j.course.whole { // a counter that may rise: see Reservations
		return
	}
	ops := append(j.cuts(), j.ops...)
	bad, excused := unjustified(j.course.set-j.in.Kept, j.r.Leaked, sales, ops, j.in.MayHold, j.course.shifts...)
	j.r.BadRefusals = bad + excused
	j.each(bad, "", text.Of("%d [request was|requests were] refused though in stock: no order of events justifies it"))
	j.each(excused, "L", sayLeakRefusals)
}

// unjustified counts the refusals that no order of events justifies, and apart from them those that only the leaked
// units explain, if these were gone from the start.
//
// A counter that only falls is linearizable exactly if it never goes below zero and every refusal finds too little left
// at its latest moment, its return, when every deduction is taken at its earliest, its call: a refusal of q that
// returned at r is justified if initial - (units sold with call <= r) < q. Intervals are closed: equal times count as
// concurrent. (Place the deductions at their calls and the refusals at their returns; no other order leaves less for a
// refusal.)
//
// An exhaustive search agrees on small histories, see the tests; a general checker takes exponential time on just the
// histories that matter here, the wrong ones and those with unknown outcomes.
//
// Shifts of the stock may let the counter rise: then a refusal may be justified at an earlier moment of its interval.
//
// If requests may hold, those that neither sold nor were refused may have held their units while they ran.
func unjustified(initial, leaked int64, sales []change, ops []Op, mayHold bool, shifts ...shift) (bad, excused int) {
	s := newShelf(initial, sales, nil, shifts...)
	for _, op := range ops {
		if op.Outcome != Refused {
			continue
		}
		left := s.left(op.Return)
		if len(shifts) > 0 {
			left = s.fewest(op.Call, op.Return)
		}
		if mayHold {
			left -= heldBeside(op, ops)
		}
		switch {
		case left < op.Quantity:
		case left-leaked < op.Quantity:
			excused++
		default:
			bad++
		}
	}
	return bad, excused
}

// heldBeside is how many units the requests asked for that ran beside a refusal and neither sold nor were refused.
func heldBeside(refusal Op, ops []Op) (units int64) {
	for _, op := range ops {
		if op.Outcome != OK && op.Outcome != Refused && op.Call <= refusal.Return && refusal.Call <= op.Return {
			units = add(units, op.Quantity)
		}
	}
	return units
}

// hearOrder checks the order of the sales in time, where it can be read off the remaining stock: every row reports one
// and no two rows share a unit. A sale that had returned before another was called must then have left more. Neither
// the sums nor the refusals see this: every unit is sold once, only not in the order that the answers tell of.
func (j *judge) hearOrder() {
	if !j.units.ordered() {
		return
	}
	inverted, latest := 0, int64(always)
	for _, i := range j.inOrder() {
		c := j.claims[i]
		// somebody who left more was called after this one had returned
		if c.made && c.op >= 0 && j.ops[c.op].Return < latest {
			inverted++
		}
		if c.sure {
			latest = max(latest, c.call)
		}
	}
	j.each(inverted, "OA", text.Of("%d [sale|sales] left more than a sale that began after [it|they] had ended"))
}

// inOrder returns the rows by what they left, the most first: the order of the sales in time, if every row says it and
// none shares a unit.
func (x records) inOrder() []int {
	rows := make([]int, len(x.rows))
	for i := range rows {
		rows[i] = i
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(*x.rows[b].Remaining, *x.rows[a].Remaining) })
	return rows
}

// order moves each sale after those that left more: it cannot precede their calls.
func (j *judge) order() {
	if !j.units.ordered() {
		return
	}
	latest := int64(always)
	for _, i := range j.inOrder() {
		c := &j.claims[i]
		if c.sure {
			latest = max(latest, c.call)
		}
		if c.made {
			c.call = max(c.call, latest)
		}
	}
}

// overlapping tells whether some request that may have sold something ran at the same time as another that competed. If
// apart is set, the other must be on another replica: a mutex may separate requests of one process, but not of
// two. A client may use one time for a return and its next call; that is no overlap, so here the intervals are
// open.
func overlapping(ops []Op, apart bool) bool {
	type interval struct {
		call, end int64
		sold      bool
		replica   string
	}
	var all []interval
	for _, op := range ops {
		v := interval{op.Call, op.Return, op.Outcome == OK, ""}
		switch {
		case op.Outcome == Declined && !busy(op):
			continue // it never came near the stock
		case !answered(op) && op.Outcome != Declined: // no return: it may go on forever
			v.end, v.sold = -always-1, true
		}
		if apart {
			if op.Replica == "" {
				continue // nobody knows where it was
			}
			v.replica = op.Replica
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.call, b.call) })
	// In order of call, an earlier interval overlaps this one if it ends after this call: look at the latest end, of
	// anyone and of a seller, on each replica.
	anyone, seller := map[string]int64{}, map[string]int64{}
	for _, v := range all {
		for replica, end := range anyone {
			if apart == (replica != v.replica) && (seller[replica] > v.call || v.sold && end > v.call) {
				return true
			}
		}
		anyone[v.replica] = max(anyone[v.replica], v.end)
		if v.sold {
			seller[v.replica] = max(seller[v.replica], v.end)
		}
	}
	return false
}

// tooMuch looks for a moment at which more had been acknowledged than there may have been, as the judge of reservations
// does.
func (j *judge) tooMuch() {
	if j.returned || !j.course.whole {
		return
	}
	var takes []taken
	for _, op := range j.ops {
		if op.Outcome == OK && !op.Replayed {
			takes = append(takes, taken{units: op.Quantity, answer: op.Return, freed: never})
		}
	}
	if most := peak(takes, j.course.shifts); most > j.course.set {
		j.violate("OA", sayTooMuch, most, j.course.set)
	}
}

// cuts are the requests that adjusted the stock, as requests for so many units.
func (j *judge) cuts() (ops []Op) {
	for _, op := range j.in.Adjusts {
		op.Quantity = -op.Quantity
		ops = append(ops, op)
	}
	return ops
}
