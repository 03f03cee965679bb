package judge

import (
	"cmp"
	"slices"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/say/text"
)

// The rules about answers: the book must have what the service acknowledged, once.

// adjusts are the requests that adjusted the stock.
func (j *reservationJudge) adjusts() (ops []Op) {
	for _, op := range j.ops {
		if op.Kind == Adjust {
			ops = append(ops, Op{Call: op.Call, Return: op.Return, Outcome: op.Outcome, Quantity: op.Quantity, Key: op.Key})
		}
	}
	return ops
}

// answers checks what was acknowledged.
func (j *reservationJudge) answers() {
	j.answeredReservations()
	j.answeredPayments()
	var kept []string
	for _, op := range j.ops {
		if op.Outcome == OK && j.keeps(op) {
			kept = append(kept, op.ReservationID)
		}
	}
	j.prove('A', &j.r.AckLost, kept, text.Of("%d [cancellation, extension or return was|cancellations, extensions or "+
		"returns were] answered, but not executed"))
}

func (j *reservationJudge) answeredReservations() {
	var absent, other []string
	purged := 0
	for _, op := range j.ops {
		if op.Kind != Reserve || op.Outcome != OK {
			continue
		}
		switch row, there := j.rows[op.ReservationID]; {
		case there && givenBack(row) > 0 && row.Quantity+givenBack(row) > op.Quantity: // see parts
		case there && (row.Buyer != op.Buyer || row.Quantity+givenBack(row) != op.Quantity):
			other = append(other, op.ReservationID)
		case there:
		case j.purged(op):
			purged++
		default:
			absent = append(absent, op.ReservationID)
		}
	}
	if purged > 0 {
		j.skip(text.Of("%d [reservation is|reservations are] older than an hour and may have been removed"), purged)
	}
	twice, shared := j.heldTwice()
	j.prove('A', &j.r.AckLost, absent, text.Of("%d [reservation|reservations] answered that [is|are] not there"))
	j.prove('D', &j.r.Doubles, twice, text.Of("%d [key has|keys have] made two reservations"))
	j.prove('D', &j.r.Doubles, shared, text.Of("%d [reservation was|reservations were] answered to two keys"))
	j.named(other, "", text.Of("%d [reservation is|reservations are] of another buyer or quantity than was asked for"))
}

func (j *reservationJudge) answeredPayments() {
	var lost, foreign, refunded, endless []string
	type order struct{ id, hold string }
	orders, ends := map[string]order{}, map[string]bool{} // by payment
	for _, row := range j.book.Rows {
		for _, o := range row.Orders {
			orders[o.Payment] = order{o.OrderID, row.ReservationID}
		}
		for _, p := range row.Payments {
			ends[p.Payment] = true
		}
	}
	for _, op := range j.ops {
		if op.Kind != Confirm {
			continue
		}
		row, there := j.rows[op.ReservationID]
		switch o, made := orders[op.PaymentID]; {
		case op.Outcome == OK && !made && there && row.Quantity == 0: // the line was cancelled before
		case op.Outcome == OK && (!made || o.id != op.OrderID):
			lost = append(lost, cmp.Or(op.OrderID, op.PaymentID))
		case op.Outcome == OK && o.hold != op.ReservationID:
			foreign = append(foreign, op.OrderID)
		case op.Refund && made:
			refunded = append(refunded, op.PaymentID)
		case op.Refund && there && !ends[op.PaymentID] && !j.purged(op):
			endless = append(endless, op.PaymentID)
		}
	}
	j.prove('A', &j.r.AckLost, lost, text.Of("%d [confirmation|confirmations] answered with an order that is not there"))
	j.prove('A', &j.r.AckLost, foreign, text.Of("%d [confirmation|confirmations] answered with the order of another "+
		"reservation"))
	j.prove('D', &j.r.Doubles, refunded, text.Of("%d [payment|payments] answered with a refund [has|have] an order"))
	j.prove('A', &j.r.AckLost, endless, text.Of("%d [payment|payments] answered with a refund that is not there"))
}

// heldTwice lists the keys that have made two reservations, and the reservations that two keys have made, by the rows
// or by the answers.
func (j *reservationJudge) heldTwice() (keys, ids []string) {
	made, by := map[string]string{}, map[string]string{}
	note := func(one map[string]string, from, to string, twice *[]string) {
		if first, seen := one[from]; !seen {
			one[from] = to
		} else if first != to && !slices.Contains(*twice, from) {
			*twice = append(*twice, from)
		}
	}
	both := func(key, id string) {
		if key != "" {
			note(made, key, id, &keys)
			note(by, id, key, &ids)
		}
	}
	for _, row := range j.book.Rows {
		both(row.Key, row.ReservationID)
	}
	for _, op := range j.ops {
		if op.Kind == Reserve && op.Outcome == OK {
			both(op.Key, op.ReservationID)
		}
	}
	return keys, ids
}

// keeps reports whether a cancellation, an extension or a return that was answered never happened, or not as answered.
// If a later change has overwritten a cancellation, that change is to blame. No late payment buys what a cancel has
// found expired.
func (j *reservationJudge) keeps(op ReservationOp) bool {
	row, there := j.rows[op.ReservationID]
	changed := func(as func(e api.ReservationEvent) bool) bool { return slices.ContainsFunc(row.Events, as) }
	request := ledger.Digest([]byte(op.Key))
	made := func(e api.ReservationEvent) bool { // an extension and a part may have the same key
		return request != "" && e.Request == request && (op.Kind == Extend) == (e.Quantity == 0)
	}
	switch {
	case op.Kind == Cancel && op.Part > 0 && changed(made):
		return !changed(func(e api.ReservationEvent) bool { return made(e) && e.Quantity == op.Part })
	case op.Kind == Cancel && op.Line && op.Part == 0:
		return (row.State == held || row.State == confirmed) && row.Quantity > 0
	}
	switch op.Kind {
	case Cancel:
		return (row.State == held || row.State == confirmed || row.State == expired) &&
			!changed(func(e api.ReservationEvent) bool {
				return e.Now == cancelled || e.Now == void || e.Now == expired && op.Expired && row.State != confirmed
			})
	case Extend:
		mine := changed(made) // else it was answered what another one has made
		return there && !changed(func(e api.ReservationEvent) bool {
			return e.Was == held && e.Now == held && e.Quantity == 0 && (made(e) || !mine) &&
				(op.Expires == 0 || e.DeadlineMicros == op.Expires)
		})
	case Return:
		return there && !slices.ContainsFunc(row.Orders, func(o api.ReservationOrder) bool {
			return o.OrderID == op.OrderID && returned(o, op)
		})
	}
	return false
}

// returned reports whether an order came back as a return was answered: all that was left, or a part. After parts that
// may be nothing.
func returned(o api.ReservationOrder, op ReservationOp) bool {
	request := ""
	if op.Part > 0 {
		request = ledger.Digest([]byte(op.Key))
	}
	i := slices.IndexFunc(o.Returns, func(r api.ReturnedPart) bool { return r.Request == request })
	if i < 0 {
		back, gone := o.Back()
		return op.Part == 0 && back+gone >= o.Quantity
	}
	return o.Returns[i].Restocked == op.Restock && (op.Part == 0 || o.Returns[i].Quantity == op.Part)
}
