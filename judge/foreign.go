package judge

import (
	"cmp"
	"slices"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// Foreign judges a service whose order rows nobody can see, from what its clients saw of one product and its stock
// before and after. Sold is what was acknowledged, Orders how often.
//
//   - oversold: more units acknowledged than there were; lost updates: stock after + acknowledged > before;
//   - leaked: more units gone than the acknowledged and all the unanswered requests together can have taken, once for
//     each key;
//   - refusals by the closed form of [Judge], where unanswered requests may have taken the units that are gone
//     without an acknowledgement, as early as possible.
//
// Where such units exist the verdict is INCONCLUSIVE, since a sale cannot be told from a leak; where there are none,
// the unanswered requests took nothing. Two equal answers for one key are a replay, marked or not. Of in it looks at
// History, Stopped and Lang.
func Foreign(before, after int64, in Input) Report {
	history := in.History
	j := judge{
		in: in, findings: findings{r: Report{Initial: before, Final: after, Answers: map[Outcome]int{}, Lang: in.Lang}},
		records: records{rows: []api.Order{}, ops: history}, orderOf: map[string]string{},
		course: course{set: before, whole: true},
	}
	// The rules about rows have nothing to work on; those about answers, order in time and concurrency apply unchanged.
	j.returned = in.Unseen.Before
	j.lackUnseen(in.Unseen)
	j.skip(text.Of("the service's order rows: lost acknowledged orders and unrequested orders cannot be found"))
	if len(history) == 0 {
		j.lack(sayEmptyHistory)
		return j.close()
	}
	for _, op := range history {
		j.r.Answers[op.Outcome]++
	}
	acked, open := j.hearForeign()
	var unknown int64
	for _, s := range open {
		unknown = add(unknown, s.units)
	}
	if !in.Unseen.Before {
		j.balance(unknown)
	}
	j.hearRefusals(append(acked, j.spend(open, min(unknown, before-after-j.r.Sold))...))
	j.hearStuck()
	return j.close()
}

// hearForeign returns the acknowledged sales, and by call what the unanswered requests may have taken. A key is one
// sale, however often it was sent: if it was acknowledged, its unanswered requests took nothing more.
func (j *judge) hearForeign() (acked, open []change) {
	answers, again := map[[2]string]bool{}, map[[2]string]bool{}
	calls := firstCalls(j.ops)
	// keys that were acknowledged, and those by another answer than a replay
	known, first := map[string]bool{}, map[string]bool{}
	for _, op := range j.ops {
		if op.Outcome == OK && op.Key != "" {
			known[op.Key], first[op.Key] = true, first[op.Key] || !op.Replayed
		}
	}
	for _, op := range j.ops {
		call := op.Call
		switch {
		case op.Outcome == OK && op.Replayed && op.Key != "" && !first[op.Key]:
			// the first answer was lost: this one tells of its sale
			first[op.Key], call = true, calls[op.Key]
		case op.Outcome == OK:
			// A service that is not ours need not mark its replays; the same answer for the same key is one.
			same := [2]string{op.Key, op.OrderID}
			if op.Replayed || op.Key != "" && op.OrderID != "" && answers[same] {
				continue
			}
			answers[same] = true
			if op.OrderID != "" {
				j.noteKey(op, again)
			}
		case op.Outcome == Refused || op.Outcome == Declined || known[op.Key]:
			continue
		default:
			if op.Key != "" {
				known[op.Key], call = true, calls[op.Key]
			}
			open = append(open, change{call, op.Quantity})
			continue
		}
		j.r.Orders++
		j.r.Sold = add(j.r.Sold, op.Quantity)
		acked = append(acked, change{call, op.Quantity})
	}
	slices.SortFunc(open, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	return acked, open
}

// balance is conservation as far as a client can tell. An unanswered request may or may not have sold, so the sums have
// bounds: with none of them sold there must not be too much left, with all of them sold not too little.
func (j *judge) balance(unknown int64) {
	r := &j.r
	r.Oversold = max(0, r.Sold-r.Initial)
	if !r.Unseen.After {
		r.LostUpdates = max(0, add(r.Final, r.Sold)-r.Initial)
		j.gone(max(0, r.Initial-add(add(r.Final, r.Sold), unknown)))
	}
	j.blameSums()
}

// spend gives the units that are gone without an acknowledgement to the unanswered requests, the earliest first. After
// lost updates the stock does not tell how many are gone, so each may have taken all it asked for.
func (j *judge) spend(open []change, units int64) (taken []change) {
	if len(open) == 0 || units < 0 || j.in.Unseen != (Unseen{}) {
		return open
	}
	if units == 0 {
		j.skip(text.Of("%d [request|requests] went unanswered; by the stock, nothing was taken"), len(open))
		return nil
	}
	j.lack(text.Of("%d [unit is|units are] gone that only the %d unanswered [request|requests] can have taken, which "+
		"may be sales or a leak"), units, len(open))
	for _, s := range open {
		s.units = min(s.units, units)
		units -= s.units
		taken = append(taken, s)
	}
	return taken
}
