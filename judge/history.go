package judge

import (
	"net/http"
	"slices"

	"lastitem/say/text"
)

// claim says which answer accounts for an order row.
type claim struct {
	made bool
	// op is the index of the ok answer that named the order; -1 where that was a replay, or where a request of unknown
	// outcome was matched: neither return says when the sale was over.
	op int
	// call is when the sale can have happened at the earliest; always = no request of the history accounts for it. The
	// earliest possible call never blames a refusal that some course of events would justify.
	call int64
	// sure says that the sale was not before call, however the requests of unknown outcome are matched with rows.
	sure bool
}

// hear checks every answer against the ledger. The order matters: answers that name an order claim its row first, then
// replays; requests of unknown outcome get the rows that are left. That settles what was sold when, which the
// judgement of refusals needs.
func (j *judge) hear() {
	if len(j.ops) == 0 {
		return // nil is fair, empty has been noted as missing
	}
	j.r.Answers = map[Outcome]int{}
	backwards := 0
	for _, op := range j.ops {
		j.r.Answers[op.Outcome]++
		if answered(op) && op.Return < op.Call {
			backwards++
		}
	}
	if backwards > 0 {
		j.lack(sayBackwards, backwards)
	}
	j.claims = make([]claim, len(j.rows))
	lost := j.hearAcks()
	lost = slices.Concat(lost, j.hearReplays(), j.given)
	if j.r.AckLost > 0 {
		j.find('A')
	}
	j.hearStored()
	j.resolve()
	j.order()
	j.hearRefusals(j.sales(lost))
	j.hearLimit()
	j.hearOrder()
	j.hearStuck()
}

// hearAcks matches every ok that is not a replay with its row, and returns the sales that were acknowledged and are
// not there. Those still count as sold when refusals are judged: the client was told so.
func (j *judge) hearAcks() (lost []change) {
	calls := firstCalls(j.ops)
	var acked int64
	twice, again := 0, map[[2]string]bool{}
	for i, op := range j.ops {
		if op.Outcome != OK || op.Replayed {
			continue
		}
		acked = add(acked, op.Quantity)
		if op.OrderID == "" {
			continue // resolve looks for its row
		}
		j.noteKey(op, again)
		row, there := j.byID[op.OrderID]
		switch {
		case !there:
			j.r.AckLost++
			lost = append(lost, change{op.Call, op.Quantity})
		case j.claims[row].made:
			twice++
		default:
			j.claims[row] = claim{made: true, op: i, call: op.Call, sure: true}
			if op.Key != "" { // the answer may be that of an earlier request without one, although it is not marked as a replay
				j.claims[row].call = calls[op.Key]
			}
			j.compare(op, row)
		}
	}
	j.each(twice, "", text.Of("%d ok [answer names|answers name] an order that had been acknowledged to another request"))
	// No order of events acknowledges more than there was. It shows without any row; with all rows there it is O, and
	// where a failover sold the same units again it is A.
	if acked > j.r.Initial && !j.units.released {
		j.violate("OA", text.Of("%d [unit was|units were] acknowledged, and the stock was %d"), acked, j.r.Initial)
	} else if len(j.course.shifts) > 0 {
		j.tooMuch()
	}
	return lost
}

// noteKey counts a double charge that the rows do not show by themselves: another order acknowledged for the same key.
func (j *judge) noteKey(op Op, again map[[2]string]bool) {
	if op.Key == "" {
		return
	}
	if row, there := j.byID[op.OrderID]; there && j.rows[row].Key != "" {
		return // inspectRows has counted it, or another buyer's order was told: see compare
	}
	first, seen := j.orderOf[op.Key]
	if !seen {
		j.orderOf[op.Key] = op.OrderID
		return
	}
	if j.late {
		return // nobody knows how far the two orders were apart, since one of them is not there
	}
	if pair := [2]string{op.Key, op.OrderID}; first != op.OrderID && !again[pair] {
		again[pair] = true
		j.r.Doubles++
		j.find('D')
	}
}

// compare holds an ok against its row. What a client was told it bought must be what is stored.
func (j *judge) compare(op Op, row int) {
	o, id := j.rows[row], short(op.OrderID)
	if o.Quantity != op.Quantity {
		j.violate("", text.Of("order %s was acknowledged with quantity %d and is stored with %d"), id, op.Quantity,
			o.Quantity)
	}
	if op.ProductID != 0 && op.ProductID != o.ProductID {
		j.violate("", text.Of("order %s was acknowledged for product %d and is stored for product %d"), id, op.ProductID,
			o.ProductID)
	}
	if op.Remaining != nil && o.Remaining != nil && *op.Remaining != *o.Remaining {
		j.violate("", text.Of("order %s was acknowledged with %d remaining and is stored with %d"), id, *op.Remaining,
			*o.Remaining)
	}
	if o.Key != "" && op.Key != "" && o.Key != op.Key {
		j.violate("", text.Of("order %s was acknowledged to another idempotency key than the one it is stored with"), id)
	}
}

// hearReplays checks that each replay repeats the first answer for its key. A replay is no second sale; where the first
// answer never arrived, the replay tells whose the row is, and the sale may have happened since the first call.
func (j *judge) hearReplays() (lost []change) {
	var calls map[string]int64
	keyOf := acknowledgedKeys(j.ops)
	wrong := 0
	for _, op := range j.ops {
		if op.Outcome != OK || !op.Replayed {
			continue
		}
		if calls == nil {
			calls = firstCalls(j.ops)
		}
		first, seen := j.orderOf[op.Key]
		row, there := j.byID[op.OrderID]
		owner, owned := keyOf[op.OrderID]
		reused := j.late && (!there || j.rows[row].Key == op.Key) // it may repeat a later order for its key
		if op.Key == "" || seen && first != op.OrderID && !reused || owned && owner != op.Key {
			wrong++
		}
		if !owned {
			keyOf[op.OrderID] = op.Key
		}
		switch {
		case !there:
			if op.OrderID != "" {
				j.r.AckLost++
			}
			if !seen { // else the first answer for the key has been counted as sold
				j.orderOf[op.Key] = op.OrderID
				lost = append(lost, change{calls[op.Key], op.Quantity})
			}
		case !j.claims[row].made:
			c := claim{made: true, op: -1, call: calls[op.Key], sure: true}
			if j.in.Partial { // the first request may have been another client's
				c = claim{made: true, op: -1, call: always}
			}
			j.claims[row] = c
		}
		if there {
			j.compare(op, row)
		}
	}
	j.each(wrong, "D", text.Of("%d replayed [answer differs|answers differ] from the first answer for [its|their] key"))
	return lost
}

// hearStored looks for refusals to keys whose stored answer is a sale: it should have been repeated.
func (j *judge) hearStored() {
	refused := 0
	for _, op := range j.ops {
		k, stored := j.stored.of(op.Key, j.in.Mode)
		if op.Outcome == Refused && stored && k.Status == http.StatusOK && !j.late {
			refused++
		}
	}
	j.each(refused, "", text.Of("%d [request was|requests were] refused although the stored answer of [its|their] key "+
		"is a sale"))
}

// acknowledgedKeys returns the key under which each order was first acknowledged; "" where that was without one.
func acknowledgedKeys(ops []Op) map[string]string {
	keys := map[string]string{}
	for _, op := range ops {
		if _, seen := keys[op.OrderID]; op.Outcome == OK && !op.Replayed && op.OrderID != "" && !seen {
			keys[op.OrderID] = op.Key
		}
	}
	return keys
}

// firstCalls returns for each key the first call that may have sold something. A refused or declined call sold nothing:
// the sale that a later replay repeats came after it.
func firstCalls(ops []Op) map[string]int64 {
	calls := map[string]int64{}
	for _, op := range ops {
		if op.Outcome == Refused || op.Outcome == Declined {
			continue
		}
		if t, seen := calls[op.Key]; !seen || op.Call < t {
			calls[op.Key] = op.Call
		}
	}
	return calls
}

// blameRows reports the rows that no answer accounts for. A second order for a key is a double charge and nothing more,
// and a repeated id has been reported; a row whose request was told that nothing happened is the worst kind, because
// that client will buy again. No outcome implies it: a mode may oversell, but not to somebody whom it refused.
func (j *judge) blameRows() {
	denied := map[string]bool{}
	for _, op := range j.ops {
		if op.Key != "" && (op.Outcome == Refused || op.Outcome == Declined) {
			denied[op.Key] = true
		}
	}
	unanswered, despite := 0, 0
	for i, c := range j.claims {
		o := j.rows[i]
		switch {
		case c.made || o.OrderID != "" && j.byID[o.OrderID] != i:
		case o.Key != "" && j.orderOf[o.Key] != o.OrderID && !j.again[i]:
		case denied[o.Key]:
			despite++
		default:
			unanswered++
		}
	}
	j.each(despite, "", text.Of("%d [order exists although its request was|orders exist although their requests were] "+
		"told that nothing happened"))
	switch {
	case unanswered == 0:
	case j.in.Partial:
		j.skip(text.Of("%d [order has|orders have] no answer in the history, which is not complete"), unanswered)
	default:
		j.violate("", text.Of("%d [order exists|orders exist] that no answer accounts for"), unanswered)
	}
}

// answered tells whether the request got an answer about the stock, so that its return means something.
func answered(op Op) bool { return op.Outcome == OK || op.Outcome == Refused }
