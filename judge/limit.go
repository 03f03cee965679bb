package judge

import (
	"maps"
	"slices"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// hearLimit looks for buyers who were sold more than the limit, and for limit_reached where the buyer must have had
// room: the rule of [unjustified], for the units that a buyer may have. An order that comes back gives room, so after a
// return nothing is checked.
func (j *judge) hearLimit() {
	most := j.in.PerBuyer
	if most == 0 || j.returned {
		return
	}
	takes, refusals := map[string][]change{}, map[string][]Op{}
	has, seen := map[string]int64{}, map[string]bool{}
	for _, op := range j.ops {
		switch b := op.Buyer; {
		case b == "":
		case op.Outcome == Unknown:
			takes[b] = append(takes[b], change{op.Call, op.Quantity})
		case op.Outcome == OK && !seen[op.OrderID]: // else it is a replay
			seen[op.OrderID] = op.OrderID != ""
			has[b] = add(has[b], op.Quantity)
			takes[b] = append(takes[b], change{op.Call, op.Quantity})
		case op.Outcome == Declined && op.Code == api.LimitReached:
			op.Outcome = Refused
			refusals[b] = append(refusals[b], op)
		}
	}
	over, worst := 0, ""
	for _, b := range slices.Sorted(maps.Keys(has)) {
		if has[b] > most {
			over++
		}
		if has[b] > max(most, has[worst]) {
			worst = b
		}
	}
	if over > 0 {
		j.find('B')
		j.violate("B", text.Of("%d [buyer has|buyers have] more than the limit of %d; %s has %d units"), over, most, worst,
			has[worst])
	}
	bad := 0
	for b, ops := range refusals {
		n, _ := unjustified(most, 0, takes[b], ops, false)
		bad += n
	}
	if !j.in.Partial { // else somebody else may have bought for the buyer
		j.each(bad, "", sayBadLimit)
	}
}
