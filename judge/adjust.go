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
