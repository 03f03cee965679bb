package audit

import (
	"slices"

	"lastitem/internal/ledger"
	"lastitem/internal/text"
)

// HoldKind is what a request about a reservation asks for.
type HoldKind string

// The kinds.
const (
	Reserve HoldKind = "reserve"
	Confirm HoldKind = "confirm"
	Cancel  HoldKind = "cancel"
	Extend  HoldKind = "extend"
)

// HoldOp is one request about a reservation of the judged product, as its client saw it. Times are those of [Op]. A
// repetition with the same key is a HoldOp of its own.
type HoldOp struct {
	Kind   HoldKind `json:"kind"`
	Call   int64    `json:"call"`
	Return int64    `json:"return"`
	Key    string   `json:"key,omitempty"` // of a reserve; "" = none
	// Outcome of a reserve: OK, Refused (sold out, or with Limit the buyer's limit), Declined, Unknown. Of the others OK
	// says that the arrow was taken, or had been; Refused that it cannot be taken any more.
	Outcome   Outcome `json:"outcome"`
	Limit     bool    `json:"limit,omitempty"`
	HoldID    string  `json:"reservation_id,omitempty"`
	Buyer     string  `json:"buyer,omitempty"`
	Quantity  int64   `json:"quantity"`
	PaymentID string  `json:"payment,omitempty"`  // of a confirm
	OrderID   string  `json:"order_id,omitempty"` // of a confirm that is OK
	Refund    bool    `json:"refund,omitempty"`   // of a confirm: the money goes back
	Expired   bool    `json:"expired,omitempty"`  // a refused confirm or an OK cancel that says so
	Replayed  bool    `json:"replayed,omitempty"`
}

// HoldBook is all that a store holds on one product that takes reservations, from one snapshot, taken after the run and
// when no hold was overdue any more.
type HoldBook struct {
	Initial, Stock int64
	PerBuyer       int64 // 0 = no limit
	Product, Run   int64
	AsOf           int64              // the store's clock, microseconds
	Holds          []ledger.Hold      // with their items of this product and run only
	Events         []ledger.HoldEvent // in their order
	Payments       []ledger.Payment
	Orders         []HoldOrder
	BuyerUnits     map[string]int64
}

// HoldOrder is an order of a reservation.
type HoldOrder struct {
	ID, HoldID, PaymentID, Buyer string
	Quantity                     int64
	Returned, Restocked          bool
}

// HoldReport is the verdict on reservations of one product.
type HoldReport struct {
	Report
	Held, WrittenOff int64
	// Races counts the reservations whose confirm was under way when their deadline or their sweep came.
	Races int
}

// The sentences about reservations.
var (
	sayTooMuchKept   = text.Of("stock %d, held %d, ordered %d and written off %d are %d more than the %d that there were")
	sayTooLittleKept = text.Of("stock %d, held %d, ordered %d and written off %d are %d less than the %d that there were")
	sayBadPath       = text.Of("%d [change of a reservation is|changes of reservations are] not allowed, as from %s to %s")
	sayEarly         = text.Of("%d [reservation|reservations] expired before the deadline")
	sayLateArrow     = text.Of("%d [reservation was|reservations were] confirmed or extended after the deadline")
	sayStateLie      = text.Of("%d [reservation is|reservations are] in another state than the last change says")
	sayOverdue       = text.Of("%d [unit is|units are] still held past the deadline")
	sayTwoOrders     = text.Of("%d [reservation has|reservations have] two orders")
	sayOrderless     = text.Of("%d confirmed [reservation has|reservations have] no order, or an order that " +
		"no confirmation explains")
	sayAckHold       = text.Of("%d [confirmation|confirmations] answered with an order that is not there")
	sayLostHold      = text.Of("%d [reservation|reservations] answered that [is|are] not there")
	sayLostCancel    = text.Of("%d [cancellation was|cancellations were] answered, but not executed")
	sayHeldTwice     = text.Of("%d [key has|keys have] made two reservations")
	sayPaidTwice     = text.Of("%d [payment|payments] answered with a refund [has|have] an order")
	sayPaymentEnds   = text.Of("%d [payment has|payments have] two ends, or none")
	sayEndedSold     = text.Of("%d cancelled or expired [reservation has|reservations have] an order")
	sayHeldTooMuch   = text.Of("at one moment at least %d units were held or sold, of %d")
	sayBadHoldRefuse = text.Of("%d sold_out [answer|answers] for a reservation while there must have been enough")
	sayOverLimit     = text.Of("a buyer had at least %d units, %d more than the limit of %d")
	sayBadLimit      = text.Of("%d limit_reached [answer|answers] while the buyer must have had room")
	sayLimitLeaked   = text.Of("the limit counts %d units of a buyer who has %d")
	sayFirstOf       = text.Of(", the first: %s")
)

// JudgeHolds says what the requests and the book of one product prove about its reservations:
//
//   - conservation: stock + held + ordered + written off = initial; more is O, less is L;
//   - each reservation went allowed ways, by its events: expired never before the deadline that was valid then,
//     confirmed and extended never after it, at most one release per take; a hold past its deadline is L;
//   - one order per reservation; a confirmed one has it, any other has none, else O;
//   - a confirm that was answered with an order has it, paid by that payment, else A; a payment that was answered with
//     a refund has none, else D; every payment has one end, and a key makes one reservation, else D;
//   - at no moment was more held and sold than there was (O), or by one buyer more than the limit (B), though all of it
//     may have been given back since;
//   - every refusal was justified at some moment between its call and its answer, else U; the same for a buyer's limit.
//
// With releases the counter may rise, so the order in which units left says nothing; the rules of [Judge] that rest on
// it do not apply.
func JudgeHolds(b HoldBook, ops []HoldOp, lang string) HoldReport {
	j := newHoldJudge(b, ops, lang)
	j.compareClocks()
	return j.judged()
}

// newHoldJudge has looked at nothing yet.
func newHoldJudge(b HoldBook, ops []HoldOp, lang string) *holdJudge {
	j := &holdJudge{book: b, ops: slices.Clone(ops), findings: findings{r: Report{ProductID: b.Product, Initial: b.Initial,
		Final: b.Stock, Orders: len(b.Orders), Lang: lang}}}
	j.index()
	return j
}

// judged applies the rules.
func (j *holdJudge) judged() HoldReport {
	j.conserve()
	j.walk()
	j.payments()
	j.answers()
	j.pairTakes()
	j.tooMuch()
	j.refusals()
	return HoldReport{Report: j.draw(), Held: j.held, WrittenOff: j.writtenOff, Races: j.races}
}

// holdJudge is one judgement of reservations in progress.
type holdJudge struct {
	findings
	book                      HoldBook
	ops                       []HoldOp
	holds                     map[string]ledger.Hold
	orders                    map[string][]HoldOrder // by reservation
	events                    map[string][]ledger.HoldEvent
	held, ordered, writtenOff int64
	leaked                    int64
	skew                      skew
	takes                     []taken
	cancelled                 map[string]int64 // reservation to the first call that cancels it
	races                     int
}

func (j *holdJudge) index() {
	j.holds, j.orders = map[string]ledger.Hold{}, map[string][]HoldOrder{}
	j.events = map[string][]ledger.HoldEvent{}
	for _, h := range j.book.Holds {
		j.holds[h.ID] = h
	}
	for _, o := range j.book.Orders {
		j.orders[o.HoldID] = append(j.orders[o.HoldID], o)
	}
	for _, e := range j.book.Events {
		j.events[e.HoldID] = append(j.events[e.HoldID], e)
	}
	// Of several tries under one key nobody knows which had the effect: it was not before the first of them.
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
func (op HoldOp) try() string {
	switch {
	case op.Kind == Reserve && op.Key != "":
		return "key " + op.Key
	case op.Kind == Confirm && op.PaymentID != "":
		return "payment " + op.PaymentID
	}
	return ""
}

// heldUnits is what a reservation holds or held of the product.
func heldUnits(h ledger.Hold) (n int64) {
	for _, item := range h.Items {
		n += item.Quantity
	}
	return n
}

func (j *holdJudge) conserve() {
	b := j.book
	overdue := int64(0)
	for _, h := range b.Holds {
		if h.State != ledger.Held {
			continue
		}
		j.held += heldUnits(h)
		if b.AsOf >= h.ExpiresMicros {
			overdue += heldUnits(h)
		}
	}
	for _, o := range b.Orders {
		switch {
		case !o.Returned:
			j.ordered += o.Quantity
		case !o.Restocked:
			j.writtenOff += o.Quantity
		}
	}
	j.r.Sold = j.ordered
	sum := b.Stock + j.held + j.ordered + j.writtenOff
	switch more := sum - b.Initial; {
	case more > 0:
		j.find('O')
		j.r.Oversold = more
		j.violate("O", sayTooMuchKept, b.Stock, j.held, j.ordered, j.writtenOff, more, b.Initial)
	case more < 0:
		j.find('L')
		j.leaked, j.r.Leaked = -more, -more
		j.violate("L", sayTooLittleKept, b.Stock, j.held, j.ordered, j.writtenOff, -more, b.Initial)
	}
	if overdue > 0 {
		j.find('L')
		j.r.Leaked += overdue
		j.each(int(overdue), "L", sayOverdue)
	}
}

// ways are the allowed changes.
var ways = map[[2]ledger.HoldState]bool{
	{"", ledger.Held}: true, {ledger.Held, ledger.Held}: true, {ledger.Held, ledger.Confirmed}: true,
	{ledger.Held, ledger.Cancelled}: true, {ledger.Held, ledger.Expired}: true, {ledger.Held, ledger.Void}: true,
	{ledger.Expired, ledger.Confirmed}: true,
}

// walk follows the events of each reservation.
func (j *holdJudge) walk() {
	last := map[string]ledger.HoldState{}
	extended := map[string]bool{}
	var early, late, bad, lies []string
	var was, now ledger.HoldState
	for _, e := range j.book.Events {
		h := j.holds[e.HoldID]
		rehold := e.Was == ledger.Expired && e.Now == ledger.Confirmed
		if !ways[[2]ledger.HoldState{e.Was, e.Now}] || e.Was != last[e.HoldID] || rehold && h.Late != ledger.LateRehold ||
			e.Was == ledger.Held && e.Now == ledger.Held && extended[e.HoldID] {
			if bad = append(bad, e.HoldID); len(bad) == 1 {
				was, now = last[e.HoldID], e.Now
			}
		}
		switch {
		case e.Now == ledger.Expired && e.AtMicros < e.DeadlineMicros:
			early = append(early, e.HoldID)
		case e.Was == ledger.Held && e.Now == ledger.Confirmed && e.AtMicros >= e.DeadlineMicros:
			late = append(late, e.HoldID)
		case e.Was == ledger.Held && e.Now == ledger.Held:
			extended[e.HoldID] = true
		}
		last[e.HoldID] = e.Now
	}
	for id, h := range j.holds {
		if last[id] != h.State {
			lies = append(lies, id)
		}
	}
	j.named(bad, "O", sayBadPath, was, now)
	j.named(early, "", sayEarly)
	j.named(late, "O", sayLateArrow)
	j.named(lies, "O", sayStateLie)
}

// payments checks orders against reservations, and the ends of payments.
func (j *holdJudge) payments() {
	var two, orderless, ended, ends []string
	for id, h := range j.holds {
		n := len(j.orders[id])
		switch {
		case n > 1:
			two = append(two, id)
		case h.State == ledger.Confirmed && n == 0:
			orderless = append(orderless, id)
		case h.State != ledger.Confirmed && h.State != ledger.Held && n > 0:
			ended = append(ended, id)
		case h.State == ledger.Held && n > 0:
			orderless = append(orderless, id)
		}
	}
	end := map[string]string{}
	for _, p := range j.book.Payments {
		id := string(p.ID)
		if _, seen := end[id]; seen {
			ends = append(ends, id)
		}
		end[id] = p.OrderID
	}
	paid := map[string]int{}
	for _, o := range j.book.Orders {
		paid[o.PaymentID]++
		if order, known := end[o.PaymentID]; !known || order != o.ID || paid[o.PaymentID] > 1 {
			ends = append(ends, o.PaymentID)
		}
	}
	if len(two)+len(ended) > 0 {
		j.find('O')
	}
	j.named(two, "O", sayTwoOrders)
	j.named(ended, "O", sayEndedSold)
	j.named(orderless, "O", sayOrderless)
	j.named(ends, "D", sayPaymentEnds)
}

// answers checks what was acknowledged.
func (j *holdJudge) answers() {
	byPayment := map[string]string{}
	for _, o := range j.book.Orders {
		byPayment[o.PaymentID] = o.ID
	}
	var lost, absent, refunded, kept []string
	purged := 0
	for _, op := range j.ops {
		switch {
		case op.Kind == Reserve && op.Outcome == OK:
			switch _, there := j.holds[op.HoldID]; {
			case there:
			case j.purged(op):
				purged++
			default:
				absent = append(absent, op.HoldID)
			}
		case op.Kind == Confirm && op.Outcome == OK && byPayment[op.PaymentID] != op.OrderID:
			lost = append(lost, op.OrderID)
		case op.Kind == Confirm && op.Refund && byPayment[op.PaymentID] != "":
			refunded = append(refunded, op.PaymentID)
		case op.Kind == Cancel && op.Outcome == OK && j.keeps(op):
			kept = append(kept, op.HoldID)
		}
	}
	if n := len(lost) + len(absent) + len(kept); n > 0 {
		j.find('A')
		j.r.AckLost = n
	}
	twice := j.heldTwice()
	if n := len(refunded) + len(twice); n > 0 {
		j.find('D')
		j.r.Doubles = n
	}
	if purged > 0 {
		j.skip(sayPurged, purged)
	}
	j.named(lost, "A", sayAckHold)
	j.named(absent, "A", sayLostHold)
	j.named(refunded, "D", sayPaidTwice)
	j.named(twice, "D", sayHeldTwice)
	j.named(kept, "A", sayLostCancel)
}

// heldTwice lists the keys that have made two reservations, by the rows or by the answers.
func (j *holdJudge) heldTwice() (keys []string) {
	made := map[string]string{}
	note := func(key, id string) {
		if first, seen := made[key]; !seen {
			made[key] = id
		} else if first != id && key != "" && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, h := range j.book.Holds {
		note(string(h.Key), h.ID)
	}
	for _, op := range j.ops {
		if op.Kind == Reserve && op.Outcome == OK {
			note(op.Key, op.HoldID)
		}
	}
	return keys
}

// keeps reports whether a reservation whose cancellation was answered was not cancelled. If the answer said expired, a
// late payment may have bought it.
func (j *holdJudge) keeps(op HoldOp) bool {
	h := j.holds[op.HoldID]
	return h.State == ledger.Held || h.State == ledger.Expired && !op.Expired ||
		h.State == ledger.Confirmed && (!op.Expired || h.Late != ledger.LateRehold)
}

// named notes a rule that the reservations, payments or orders with these ids broke, if there are any.
func (j *holdJudge) named(ids []string, implied string, t text.Text, args ...any) {
	if len(ids) > 0 {
		said := j.say(t, append([]any{len(ids)}, args...)...) + j.say(sayFirstOf, slices.Min(ids))
		j.broken = append(j.broken, violation{implied, said})
	}
}
