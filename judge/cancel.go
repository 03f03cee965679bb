package judge

import (
	"lastitem/contract/api"
	"lastitem/say/text"
)

// Ship is the kind of a request after which an order of somebody else's service cannot be cancelled any more.
const Ship ReservationKind = "ship"

// ended is what the requests that cancel or ship one order were told.
type ended struct {
	call, answer             int64 // of the first cancel that may have happened, and the first answer that says so; never = none
	cancelled, open, shipped bool  // one was answered as cancelled; one got no answer; one was answered as shipped
}

// hearCancels holds the requests that cancel or ship orders of somebody else's service against its books, which have
// only orders that stand; conserve has seen whether the units are there. An order that was answered as cancelled and
// stands is A, and so is one that was answered as shipped and is gone. From here on an order that was cancelled, or may
// have been, and is gone counts as sold, and its units as added by its cancel.
func (j *judge) hearCancels() {
	asked, stand, gone := endings(j.in.Cancels), 0, 0
	for _, op := range j.ops {
		e, known := asked[op.OrderID]
		if op.Outcome != OK || op.OrderID == "" || !known {
			continue
		}
		delete(asked, op.OrderID) // an answer may be repeated
		switch _, there := j.byID[op.OrderID]; {
		case there && e.cancelled:
			stand++
		case there || !e.cancelled && !e.open: // if it is gone, hear finds it missing
		default:
			if e.shipped {
				gone++
			}
			j.byID[op.OrderID] = len(j.rows)
			j.rows = append(j.rows, api.Order{OrderID: op.OrderID, ProductID: j.r.ProductID, Quantity: op.Quantity,
				Mode: j.in.Mode, Store: j.in.Store})
			j.course.shifts = append(j.course.shifts, shift{op.Quantity, e.call, e.answer})
			j.units.released = true
		}
	}
	if stand+gone > 0 {
		j.find('A')
	}
	j.each(stand, "A", text.Of("%d [order was|orders were] answered as cancelled and [stands|stand]"))
	j.each(gone, "A", text.Of("%d [order was|orders were] answered as shipped and [was|were] cancelled"))
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
