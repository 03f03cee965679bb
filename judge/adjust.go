package judge

import (
	"math"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// Two times: before everything, and not at all.
const (
	always = math.MinInt64
	never  = int64(math.MaxInt64)
)

// shift is an adjustment of the stock in a run: units that were added or, below zero, taken. They may count from call
// on, always = nobody knows, and certainly do from answer on, never = nobody was told.
type shift struct{ units, call, answer int64 }

// course is how the initial stock of a run came about.
type course struct {
	set    int64 // the stock that the run began with
	shifts []shift
	whole  bool // all of it is known
}

// adjusted is what the requests with one key were told.
type adjusted struct {
	units, call, answer int64
	done, open          bool // one of them was told that it is done; one got no answer
}

// adjustments holds the adjustments that a ledger lists against its initial stock and against the answers.
func (f *findings) adjustments(initial int64, rows []api.Adjustment, ops []Op) course {
	asked := askedToAdjust(ops)
	c := course{set: initial, whole: len(rows) > 0 || len(asked) == 0}
	sum, twice, listed := int64(0), 0, map[string]api.Adjustment{}
	for i, a := range rows {
		sum = add(sum, a.Delta)
		if i == 0 {
			c.set, c.whole = a.Delta, a.Older == 0
			continue
		}
		if _, seen := listed[a.Key]; seen {
			twice++
		}
		listed[a.Key] = a
		s := shift{units: a.Delta, call: always, answer: never}
		if by, there := asked[a.Key]; there {
			s.call, s.answer = by.call, by.answer
		}
		c.shifts = append(c.shifts, s)
	}
	if len(rows) > 0 && sum != initial {
		f.violate("", text.Of("the initial stock is %d, and its setting and adjustments add up to %d"), initial, sum)
	}
	f.each(twice, "", text.Of("%d [adjustment was|adjustments were] made a second time for the same key"))
	lost, other, denied := 0, 0, 0
	for key, by := range asked {
		switch row, there := listed[key]; {
		case !there && by.done && (c.whole || len(rows) == 0):
			lost++
			if by.units < 0 { // a client was told so: it may explain refusals
				c.shifts = append(c.shifts, shift{units: by.units, call: by.call, answer: never})
			}
		case there && by.done && row.Delta != by.units:
			other++
		case there && !by.done && !by.open:
			denied++
		}
	}
	if lost > 0 {
		f.find('A')
		f.r.AckLost += lost
	}
	f.each(lost, "A", text.Of("%d [adjustment|adjustments] answered that [is|are] not there"))
	f.each(other, "", text.Of("%d [adjustment is|adjustments are] of another number of units than was answered"))
	f.each(denied, "", text.Of("%d [adjustment was|adjustments were] made although [its request was|their requests "+
		"were] told that nothing happened"))
	if !c.whole {
		f.skip(text.Of("whether there was enough at each moment, and refusals: not all adjustments of the stock are listed"))
	}
	return c
}

// askedToAdjust sums up the requests by key.
func askedToAdjust(ops []Op) map[string]adjusted {
	asked := map[string]adjusted{}
	for _, op := range ops {
		by, seen := asked[op.Key]
		if !seen {
			by = adjusted{call: op.Call, answer: never}
		}
		by.call = min(by.call, op.Call)
		switch op.Outcome {
		case OK:
			by.done, by.answer, by.units = true, min(by.answer, op.Return), op.Quantity
		case Unknown:
			by.open = true
		}
		asked[op.Key] = by
	}
	return asked
}

// ended is what the requests that cancel or ship one order were told.
type ended struct {
	call, answer             int64 // of the first cancel that may have happened, of the first that has; never = none
	cancelled, open, shipped bool  // one was answered as cancelled; one got no answer; one was answered as shipped
}

// cancels holds the requests that cancel or ship orders of somebody else's service against its books, which have only
// orders that stand. An order that was answered as cancelled and stands is A, and so is one that was answered as
// shipped and is gone. It returns the sales whose orders were cancelled, or may have been, and are gone, and what their
// units did to the stock. Whether the units are there is another question.
func (f *findings) cancels(ops []Op, cancels []ReservationOp, stands map[string]int) (gone []Op, back []shift) {
	asked, kept, taken := endings(cancels), 0, 0
	for _, op := range ops {
		e, known := asked[op.OrderID]
		if op.Outcome != OK || op.OrderID == "" || !known {
			continue
		}
		delete(asked, op.OrderID) // an answer may be repeated
		switch _, there := stands[op.OrderID]; {
		case there && e.cancelled:
			kept++
		case there || !e.cancelled && !e.open: // an order that is gone without a cancel is missed elsewhere
		default:
			if e.shipped {
				taken++
			}
			gone, back = append(gone, op), append(back, shift{op.Quantity, e.call, e.answer})
		}
	}
	if kept+taken > 0 {
		f.find('A')
	}
	f.each(kept, "A", text.Of("%d [order was|orders were] answered as cancelled and [stands|stand]"))
	f.each(taken, "A", text.Of("%d [order was|orders were] answered as shipped and [was|were] cancelled"))
	return gone, back
}

// endings sums up the requests by order.
func endings(ops []ReservationOp) map[string]ended {
	all := map[string]ended{}
	for _, op := range ops {
		e, known := all[op.OrderID]
		if !known {
			e = ended{call: never, answer: never}
		}
		switch done := op.Outcome == OK; {
		case op.Kind == Ship:
			e.shipped = e.shipped || done
		case done:
			e.cancelled, e.call, e.answer = true, min(e.call, op.Call), min(e.answer, op.Return)
		case op.Outcome == Unknown:
			e.open, e.call = true, min(e.call, op.Call)
		}
		all[op.OrderID] = e
	}
	return all
}
