package judge

import (
	"slices"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/say/text"
)

// The states of a reservation, as the API tells them.
const (
	held      = string(ledger.Held)
	confirmed = string(ledger.Confirmed)
	cancelled = string(ledger.Cancelled)
	expired   = string(ledger.Expired)
	void      = string(ledger.Void)
)

// ReservationReport is the verdict on reservations of one product.
type ReservationReport struct {
	Report
	Held, WrittenOff int64
	// Races counts the reservations whose confirm was under way when their deadline or their sweep came.
	Races int
}

// Reservations says what the requests and the book of one product prove about its reservations:
//
//   - conservation: stock + held + ordered + written off = initial; more is O, less is L;
//   - each reservation went allowed ways, by its events, and was extended as often as the product allows, once by each
//     request: expired before the deadline that was valid then, or extended to an earlier one, is A; an
//     expiry that did not know of the extension before it is a lost update, O;
//     confirmed after it is D, or O if the sums show that its units were sold again; a second
//     release of a take is O; a hold past its deadline, or extended after it, is L;
//   - one order per reservation, else O; a confirmed one has it; one that ended otherwise has none, else D, or O if the
//     sums show that its units were sold again;
//   - a reservation or an order gave back no more units than it had, and each part once, else O; a part that was
//     cancelled ended the reservation only if nothing else was left, else A;
//   - a confirm that was answered with an order has it, paid by that payment, else A; a payment that was answered with
//     a refund has none, else D; every payment has one end, which its row tells, and a key makes one reservation, else
//     D; a cancellation, an extension or a return that was answered was executed so, else A;
//   - a reservation is what was asked for, and its order is its buyer's, else A;
//   - at no moment was more held and sold than there was (O), or by one buyer more than the limit (B), though all of it
//     may have been given back since;
//   - every refusal was justified at some moment between its call and its answer, else U; the same for a buyer's limit;
//   - the initial stock is the sum of the setting and the adjustments of the run, and each that was answered is there,
//     else A. Units that were added count as free from the answer on, units that were taken from the stock until the
//     call.
//
// With releases the counter may rise, so the order in which units left says nothing; the rules of [Judge] that rest on
// it do not apply.
//
// The book is of one snapshot, taken after the run and when no hold was overdue any more, all pages in one.
func Reservations(b *api.Reservations, ops []ReservationOp, lang string) ReservationReport {
	j := newReservationJudge(b, ops, lang)
	j.compareClocks()
	return j.judged()
}

// newReservationJudge has looked at nothing yet.
func newReservationJudge(b *api.Reservations, ops []ReservationOp, lang string) *reservationJudge {
	j := &reservationJudge{book: b, ops: slices.Clone(ops), rows: map[string]api.ReservationRow{}, findings: findings{
		r: Report{ProductID: b.ProductID, Initial: b.Initial, Final: b.Stock, Lang: lang}}}
	for _, row := range b.Rows {
		j.rows[row.ReservationID] = row
		j.r.Orders += len(row.Orders)
	}
	backwards := 0
	for _, op := range ops {
		if op.Outcome != Unknown && op.Return < op.Call {
			backwards++
		}
	}
	if backwards > 0 {
		j.lack(sayBackwards, backwards)
	}
	if len(ops) == 0 {
		j.lack(sayEmptyHistory)
	}
	j.firstCalls()
	j.course = j.adjustments(b.Initial, b.Adjustments, j.adjusts())
	return j
}

// judged applies the rules.
func (j *reservationJudge) judged() ReservationReport {
	j.conserve()
	j.walk()
	j.pairTakes()
	j.tooMuch()
	j.limit()
	j.payments()
	j.parts()
	j.answers()
	j.refusals()
	return ReservationReport{Report: j.draw(), Held: j.held, WrittenOff: j.writtenOff, Races: j.races}
}

// reservationJudge is one judgement of reservations in progress.
type reservationJudge struct {
	findings
	book                      *api.Reservations
	ops                       []ReservationOp
	rows                      map[string]api.ReservationRow
	held, ordered, writtenOff int64
	leaked                    int64
	leakedOf                  map[string]int64 // by buyer: what his limit counts too much
	skew                      skew
	end                       int64 // the latest time of the clients at which the run may have ended
	takes                     []taken
	cancelled                 map[string]int64 // reservation to the first call that cancels it
	course                    course
	twice                     map[string]int64 // by buyer: units of changes that were not allowed, as of a second release
	races                     int
}

// firstCalls moves the call of each repetition to the first: of several tries under one key nobody knows which had the
// effect, and it was not before the first of them.
func (j *reservationJudge) firstCalls() {
	first := map[string]int64{}
	for _, op := range j.ops {
		if at, seen := first[op.try()]; !seen || op.Call < at {
			first[op.try()] = op.Call
		}
	}
	for i, op := range j.ops {
		if op.try() != "" {
			j.ops[i].Call = first[op.try()]
		}
	}
}

// try names what repetitions have in common; "" = it is not repeated.
func (op ReservationOp) try() string {
	switch {
	case op.Kind == Reserve && op.Key != "":
		return "key " + op.Key
	case op.Kind == Confirm && op.PaymentID != "":
		return "payment " + op.PaymentID
	case op.Kind == Adjust && op.Key != "":
		return "adjust " + op.Key
	}
	return ""
}

func (j *reservationJudge) conserve() {
	b := j.book
	overdue := int64(0)
	for _, row := range b.Rows {
		if row.State == held && b.AsOfMicros >= row.ExpiresMicros {
			overdue += row.Quantity
		}
	}
	j.held, j.ordered, j.writtenOff = b.Count()
	j.r.Sold = j.ordered
	sum := b.Stock + j.held + j.ordered + j.writtenOff
	switch more := sum - b.Initial; {
	case more > 0:
		j.find('O')
		j.r.Oversold = more
		j.violate("O", text.Of("stock %d, held %d, ordered %d and written off %d are %d more than the %d that there were"),
			b.Stock, j.held, j.ordered, j.writtenOff, more, b.Initial)
	case more < 0:
		j.find('L')
		j.leaked, j.r.Leaked = -more, -more
		j.violate("L", text.Of("stock %d, held %d, ordered %d and written off %d are %d less than the %d that there were"),
			b.Stock, j.held, j.ordered, j.writtenOff, -more, b.Initial)
	}
	if overdue > 0 {
		j.find('L')
		j.r.Leaked += overdue
		j.each(int(overdue), "L", text.Of("%d [unit is|units are] still held past the deadline"))
	}
}

// ways are the allowed changes.
var ways = map[[2]string]bool{
	{"", held}: true, {held, held}: true, {held, confirmed}: true, {held, cancelled}: true, {held, expired}: true,
	{held, void}: true, {expired, confirmed}: true,
}

// walk follows the events of each reservation.
func (j *reservationJudge) walk() {
	var early, overwritten, late, extended, bad, twice, lies []string
	var was, now string // of the first bad change
	gone := map[string]bool{cancelled: true, expired: true, void: true}
	j.twice = map[string]int64{}
	for _, row := range j.book.Rows {
		last, extensions, deadline, requests := "", 0, int64(0), map[bool]map[string]bool{true: {}, false: {}}
		for _, e := range row.Events {
			rehold := e.Was == expired && e.Now == confirmed
			stays := e.Was == held && e.Now == held
			extends := stays && e.Quantity == 0 // a part may have the same key
			if extends {
				extensions++
			} else if stays && requests[extends][e.Request] {
				twice = append(twice, row.ReservationID)
			}
			if !ways[[2]string{e.Was, e.Now}] || e.Was != last || rehold && row.Late != ledger.LateRehold ||
				extensions > max(j.book.Extends, 1) || extends && requests[extends][e.Request] {
				if bad = append(bad, row.ReservationID); len(bad) == 1 {
					was, now = last, e.Now
				}
				j.twice[row.Buyer] += row.Quantity
			}
			if gone[last] && gone[e.Now] { // the units came back twice, or a change was lost
				j.find('O')
			}
			switch {
			case e.Now == expired && e.AtMicros < deadline && e.DeadlineMicros < deadline:
				overwritten = append(overwritten, row.ReservationID)
			case e.Now == expired && e.AtMicros < deadline, stays && e.DeadlineMicros < deadline:
				early = append(early, row.ReservationID)
			case e.Was == held && e.Now == confirmed && e.AtMicros >= deadline:
				late = append(late, row.ReservationID)
			case stays && e.AtMicros >= deadline:
				extended = append(extended, row.ReservationID)
			}
			last, requests[extends][e.Request] = e.Now, e.Request != ""
			if e.Now == held { // a later change may not know that it was extended
				deadline = e.DeadlineMicros
			}
		}
		if last != row.State {
			lies = append(lies, row.ReservationID)
		}
	}
	j.named(bad, "O", text.Of("%d [change of a reservation is|changes of reservations are] not allowed, as from %s to %s"),
		was, now)
	j.prove('A', &j.r.AckLost, early, text.Of("%d [reservation|reservations] expired before the deadline, or got an "+
		"earlier one"))
	if len(overwritten) > 0 { // a lost update
		j.find('O')
	}
	j.named(overwritten, "O", text.Of("%d [extension was|extensions were] overwritten by an expiry that knew the "+
		"deadline before it"))
	j.charged(late, text.Of("%d [reservation was|reservations were] confirmed after the deadline"))
	if len(extended) > 0 {
		j.find('L')
	}
	j.named(extended, "L", text.Of("%d [reservation was|reservations were] extended, or cancelled in part, after the "+
		"deadline"))
	if len(twice) > 0 {
		j.find('O')
	}
	j.named(twice, "O", text.Of("a part of %d [reservation|reservations] was cancelled twice"))
	j.named(lies, "O", text.Of("%d [reservation is|reservations are] in another state than the last change says"))
}

// givenBack is how many units the parts of a reservation had that were cancelled, while the rest stayed.
func givenBack(row api.ReservationRow) (units int64) {
	for _, e := range row.Events {
		if e.Was == held && e.Now == held {
			units += e.Quantity
		}
	}
	return units
}

// parts checks that a reservation and an order have given back no more than they had, and each part once, and that the
// rest stayed.
func (j *reservationJudge) parts() {
	var more, twice, whole []string
	had, cancels := map[string]int64{}, map[string][]ReservationOp{}
	for _, op := range j.ops {
		switch {
		case op.Kind == Reserve && op.Outcome == OK:
			had[op.ReservationID] = op.Quantity
		case op.Kind == Cancel:
			cancels[op.ReservationID] = append(cancels[op.ReservationID], op)
		}
	}
	for _, row := range j.book.Rows {
		if slices.ContainsFunc(row.Events, func(e api.ReservationEvent) bool {
			return e.Was == held && e.Now == cancelled && j.endsMore(row, e, cancels[row.ReservationID])
		}) {
			whole = append(whole, row.ReservationID)
		}
		if back := givenBack(row); back > 0 && had[row.ReservationID] > 0 && back+row.Quantity > had[row.ReservationID] {
			more = append(more, row.ReservationID)
		}
		for _, o := range row.Orders {
			requests := map[string]bool{}
			for _, r := range o.Returns {
				if requests[r.Request] {
					twice = append(twice, o.OrderID)
				}
				requests[r.Request] = true
			}
			if back, gone := o.Back(); back+gone > o.Quantity {
				more = append(more, o.OrderID)
			}
		}
	}
	if len(more)+len(twice) > 0 { // those units count twice
		j.find('O')
	}
	j.named(more, "O", text.Of("%d [reservation or order|reservations or orders] gave back more units than [it|they] had"))
	j.named(twice, "O", text.Of("a part of %d [order|orders] was returned twice"))
	j.prove('A', &j.r.AckLost, whole, text.Of("%d [reservation|reservations] lost all units though only a part was "+
		"cancelled"))
}

// endsMore reports whether a part ended a reservation of which more was left: by the units that the event tells or, if
// it tells none, by the parts that were on their way and have no event. Else somebody else may have cancelled it.
func (j *reservationJudge) endsMore(row api.ReservationRow, e api.ReservationEvent, cancels []ReservationOp) bool {
	if e.Quantity > 0 {
		return e.Quantity < row.Quantity
	}
	rest, onItsWay, seen := row.Quantity, false, map[string]bool{}
	for _, e := range row.Events {
		seen[e.Request] = seen[e.Request] || e.Quantity > 0 // an extension may have the same key
	}
	for _, op := range cancels {
		request := ledger.Digest([]byte(op.Key))
		switch {
		case op.Call > j.skew.latest(e.AtMicros):
		case op.Part == 0: // answered or not; and a line may have been the last
			return false
		case !seen[request]:
			seen[request] = true
			rest -= op.Part
			onItsWay = onItsWay || op.Outcome == Unknown || op.Return >= j.skew.earliest(e.AtMicros)
		}
	}
	return onItsWay && rest > 0
}

// payments checks orders against reservations, and the ends of payments.
func (j *reservationJudge) payments() {
	var two, orderless, ended, ends, endless, others []string
	end, paid := map[string]string{}, map[string]int{}
	for _, row := range j.book.Rows {
		n := len(row.Orders)
		switch {
		case n > 1:
			two = append(two, row.ReservationID)
		case row.State == confirmed && n == 0 && row.Quantity == 0: // the line was cancelled before
		case row.State == confirmed && n == 0, row.State == held && n > 0:
			orderless = append(orderless, row.ReservationID)
		case row.State != confirmed && n > 0:
			ended = append(ended, row.ReservationID)
		}
		for _, p := range row.Payments {
			if _, seen := end[p.Payment]; seen || p.Outcome != "" && (p.Outcome == "order") != (p.OrderID != "") {
				ends = append(ends, p.Payment)
			}
			end[p.Payment] = p.OrderID
		}
	}
	for _, row := range j.book.Rows {
		for _, o := range row.Orders {
			if o.Buyer != row.Buyer {
				others = append(others, o.OrderID)
			}
			paid[o.Payment]++
			switch order, known := end[o.Payment]; {
			case !known:
				endless = append(endless, o.Payment)
			case order != o.OrderID || paid[o.Payment] > 1:
				ends = append(ends, o.Payment)
			}
		}
	}
	if len(two) > 0 {
		j.find('O')
	}
	j.named(two, "O", text.Of("%d [reservation has|reservations have] two orders"))
	j.charged(ended, text.Of("%d cancelled or expired [reservation has|reservations have] an order"))
	j.named(orderless, "O", text.Of("%d confirmed [reservation has|reservations have] no order, or an order that no "+
		"confirmation explains"))
	j.prove('D', &j.r.Doubles, ends, text.Of("%d [payment has|payments have] two ends"))
	j.named(endless, "D", text.Of("%d [order was|orders were] made by a payment that is not there"))
	j.prove('A', &j.r.AckLost, others, text.Of("%d [order is|orders are] of another buyer than [its|their] reservation"))
}

// charged notes sales of reservations that had ended: D, or O if the sums show that the units were sold again.
func (j *reservationJudge) charged(ids []string, t text.Text) {
	if j.r.Oversold > 0 {
		j.named(ids, "O", t)
	} else {
		j.prove('D', &j.r.Doubles, ids, t)
	}
}

// prove notes an outcome that was seen as often as there are ids, and adds it to the sum.
func (j *reservationJudge) prove(letter byte, sum *int, ids []string, t text.Text) {
	if len(ids) > 0 {
		j.find(letter)
		*sum += len(ids)
	}
	j.named(ids, string(letter), t)
}

// named notes a rule that the reservations, payments or orders with these ids broke, if there are any.
func (j *reservationJudge) named(ids []string, implied string, t text.Text, args ...any) {
	if len(ids) > 0 {
		said := j.say(t, append([]any{len(ids)}, args...)...) + j.say(text.Of(", the first: %s"), slices.Min(ids))
		j.broken = append(j.broken, violation{implied, said})
	}
}
