package audit

import (
	"cmp"
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

// HoldOp is one request about a reservation of the judged product, as its client saw it. Times are those of [Op].
type HoldOp struct {
	Kind         HoldKind
	Call, Return int64
	// Outcome of a reserve: OK, Refused (sold out, or with Limit the buyer's limit), Declined, Unknown. Of the others OK
	// says that the arrow was taken, or had been; Refused that it cannot be taken any more.
	Outcome   Outcome
	Limit     bool
	HoldID    string
	Buyer     string
	Quantity  int64
	PaymentID string // of a confirm
	OrderID   string // of a confirm that is OK
	Refund    bool   // of a confirm: the money goes back
	Expired   bool   // a refused confirm or an OK cancel that says so
	Replayed  bool
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
	sayOrderless     = text.Of("%d confirmed [reservation has|reservations have] no order, or an order that no confirmation explains")
	sayAckHold       = text.Of("%d [confirmation|confirmations] answered with an order that is not there")
	sayLostHold      = text.Of("%d [reservation|reservations] answered that [is|are] not there")
	sayPaidTwice     = text.Of("%d [payment|payments] answered with a refund [has|have] an order")
	sayPaymentEnds   = text.Of("%d [payment has|payments have] two ends, or none")
	sayEndedSold     = text.Of("%d cancelled or expired [reservation has|reservations have] an order")
	sayHeldTooMuch   = text.Of("at one moment at least %d units were held or sold, of %d")
	sayBadHoldRefuse = text.Of("%d sold_out [answer|answers] for a reservation while there must have been enough")
	sayOverLimit     = text.Of("a buyer had at least %d units, %d more than the limit of %d")
	sayBadLimit      = text.Of("%d limit_reached [answer|answers] while the buyer must have had room")
	sayLimitLeaked   = text.Of("the limit counts %d units of a buyer who has %d")
)

// JudgeHolds says what the requests and the book of one product prove about its reservations:
//
//   - conservation: stock + held + ordered + written off = initial; more is O, less is L;
//   - each reservation went allowed ways, by its events: expired never before the deadline that was valid then,
//     confirmed and extended never after it, at most one release per take; a hold past its deadline is L;
//   - one order per reservation; a confirmed one has it, any other has none, else O;
//   - a confirm that was answered with an order has it, paid by that payment, else A; a payment that was answered with a
//     refund has none, else D; every payment has one end;
//   - at no moment was more held and sold than there was (O), or by one buyer more than the limit (B), though all of it
//     may have been given back since;
//   - every refusal was justified at some moment between its call and its answer, else U; the same for a buyer's limit.
//
// With releases the counter may rise, so the order in which units left says nothing; the rules of [Judge] that rest on
// it do not apply.
func JudgeHolds(b HoldBook, ops []HoldOp, lang string) HoldReport {
	j := holdJudge{book: b, ops: ops, findings: findings{r: Report{ProductID: b.Product, Initial: b.Initial, Final: b.Stock,
		Orders: len(b.Orders), Lang: lang}}}
	j.index()
	j.conserve()
	j.walk()
	j.payments()
	j.answers()
	j.tooMuch()
	j.refusals()
	return HoldReport{j.draw(), j.held, j.writtenOff}
}

// holdJudge is one judgement of reservations in progress.
type holdJudge struct {
	findings
	book                      HoldBook
	ops                       []HoldOp
	holds                     map[string]ledger.Hold
	orders                    map[string][]HoldOrder // by reservation
	held, ordered, writtenOff int64
	leaked                    int64
}

func (j *holdJudge) index() {
	j.holds, j.orders = map[string]ledger.Hold{}, map[string][]HoldOrder{}
	for _, h := range j.book.Holds {
		j.holds[h.ID] = h
	}
	for _, o := range j.book.Orders {
		j.orders[o.HoldID] = append(j.orders[o.HoldID], o)
	}
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
	early, late, bad := 0, 0, 0
	var was, now ledger.HoldState
	for _, e := range j.book.Events {
		h := j.holds[e.HoldID]
		rehold := e.Was == ledger.Expired && e.Now == ledger.Confirmed
		if !ways[[2]ledger.HoldState{e.Was, e.Now}] || e.Was != last[e.HoldID] || rehold && h.Late != ledger.LateRehold ||
			e.Was == ledger.Held && e.Now == ledger.Held && extended[e.HoldID] {
			if bad++; bad == 1 {
				was, now = last[e.HoldID], e.Now
			}
		}
		switch {
		case e.Now == ledger.Expired && e.AtMicros < e.DeadlineMicros:
			early++
		case e.Was == ledger.Held && e.Now == ledger.Confirmed && e.AtMicros >= e.DeadlineMicros:
			late++
		case e.Was == ledger.Held && e.Now == ledger.Held:
			extended[e.HoldID] = true
		}
		last[e.HoldID] = e.Now
	}
	lies := 0
	for id, h := range j.holds {
		if last[id] != h.State {
			lies++
		}
	}
	j.each(bad, "", sayBadPath, was, now)
	j.each(early, "", sayEarly)
	j.each(late, "", sayLateArrow)
	j.each(lies, "", sayStateLie)
}

// payments checks orders against reservations, and the ends of payments.
func (j *holdJudge) payments() {
	two, orderless, ended, ends := 0, 0, 0, 0
	for id, h := range j.holds {
		n := len(j.orders[id])
		switch {
		case n > 1:
			two++
		case h.State == ledger.Confirmed && n == 0:
			orderless++
		case h.State != ledger.Confirmed && h.State != ledger.Held && n > 0:
			ended++
		case h.State == ledger.Held && n > 0:
			orderless++
		}
	}
	end := map[string]string{}
	for _, p := range j.book.Payments {
		id := string(p.ID)
		if _, seen := end[id]; seen {
			ends++
		}
		end[id] = p.OrderID
	}
	paid := map[string]int{}
	for _, o := range j.book.Orders {
		paid[o.PaymentID]++
		if order, known := end[o.PaymentID]; !known || order != o.ID || paid[o.PaymentID] > 1 {
			ends++
		}
	}
	if two > 0 || ended > 0 {
		j.find('O')
	}
	j.each(two, "O", sayTwoOrders)
	j.each(ended, "O", sayEndedSold)
	j.each(orderless, "", sayOrderless)
	j.each(ends, "D", sayPaymentEnds)
}

// answers checks what was acknowledged.
func (j *holdJudge) answers() {
	byPayment := map[string]string{}
	for _, o := range j.book.Orders {
		byPayment[o.PaymentID] = o.ID
	}
	lost, absent, refunded := 0, 0, 0
	for _, op := range j.ops {
		switch {
		case op.Kind == Reserve && op.Outcome == OK:
			if _, there := j.holds[op.HoldID]; !there {
				absent++
			}
		case op.Kind == Confirm && op.Outcome == OK && byPayment[op.PaymentID] != op.OrderID:
			lost++
		case op.Kind == Confirm && op.Refund && byPayment[op.PaymentID] != "":
			refunded++
		}
	}
	if lost > 0 || absent > 0 {
		j.find('A')
		j.r.AckLost = lost + absent
	}
	if refunded > 0 {
		j.find('D')
		j.r.Doubles = refunded
	}
	j.each(lost, "A", sayAckHold)
	j.each(absent, "A", sayLostHold)
	j.each(refunded, "D", sayPaidTwice)
}

// A change of what is taken: units at a time of the clients' clock.
type change struct{ at, units int64 }

// taken are the takes of the product, or of one buyer: when each was called and answered, and when its release was
// called and answered. A time of always says that it may have been at any time before, never that it is not known
// to have been.
type taken struct{ units, call, answer, freed, free int64 }

const never = int64(1<<63 - 1)

// takes pairs each reservation that was made with its release.
func (j *holdJudge) takes(buyer string) []taken {
	calls := map[string]*taken{}
	var all []*taken
	for _, op := range j.ops {
		h, there := j.holds[op.HoldID]
		if op.Kind != Reserve || op.HoldID == "" || !there || calls[op.HoldID] != nil || buyer != "" && h.Buyer != buyer {
			continue
		}
		t := &taken{units: heldUnits(h), call: op.Call, answer: never, freed: never, free: never}
		if op.Outcome == OK {
			t.answer = op.Return
		}
		calls[op.HoldID] = t
		all = append(all, t)
	}
	for id, h := range j.holds { // made by a request without an answer, or by somebody else
		if calls[id] == nil && (buyer == "" || h.Buyer == buyer) {
			calls[id] = &taken{units: heldUnits(h), call: always, answer: never, freed: never, free: never}
			all = append(all, calls[id])
		}
	}
	for id, t := range calls {
		switch h := j.holds[id]; h.State {
		case ledger.Expired, ledger.Void, ledger.Confirmed: // at an unknown time after its answer; a confirmed one may have been freed before
			if h.State != ledger.Confirmed || h.Late == ledger.LateRehold {
				t.freed = t.call
			}
		}
		for _, o := range j.orders[id] {
			if o.Restocked {
				t.freed = t.call
			}
		}
	}
	for _, op := range j.ops {
		t, h := calls[op.HoldID], j.holds[op.HoldID]
		if t == nil {
			continue
		}
		if op.Kind == Cancel && h.State == ledger.Cancelled {
			t.freed = min(t.freed, op.Call)
			if op.Outcome == OK {
				t.free = min(t.free, op.Return)
			}
		}
		if op.Expired && h.State == ledger.Expired {
			t.free = min(t.free, op.Return)
		}
	}
	out := make([]taken, len(all))
	for i, t := range all {
		out[i] = *t
	}
	return out
}

// tooMuch looks for a moment at which more was taken than there was: all takes that had been answered, less all releases
// that may have begun.
func (j *holdJudge) tooMuch() {
	if most := peak(j.takes("")); most > j.book.Initial {
		j.find('O')
		j.violate("O", sayHeldTooMuch, most, j.book.Initial)
	}
	if j.book.PerBuyer == 0 {
		return
	}
	has := map[string]int64{}
	for _, h := range j.book.Holds {
		if h.State == ledger.Held {
			has[h.Buyer] += heldUnits(h)
		}
	}
	for _, o := range j.book.Orders {
		if !o.Restocked {
			has[o.Buyer] += o.Quantity
		}
	}
	buyers := map[string]bool{}
	for _, h := range j.book.Holds {
		buyers[h.Buyer] = true
	}
	delete(buyers, "")
	for buyer := range buyers {
		most := max(peak(j.takes(buyer)), has[buyer])
		if most > j.book.PerBuyer {
			j.find('B')
			j.violate("B", sayOverLimit, most, most-j.book.PerBuyer, j.book.PerBuyer)
		}
		if counted := j.book.BuyerUnits[buyer]; counted != has[buyer] {
			j.find('L')
			j.violate("L", sayLimitLeaked, counted, has[buyer])
		}
	}
}

// peak is the most that was surely taken at once.
func peak(takes []taken) (most int64) {
	for _, at := range takes {
		if at.answer == never {
			continue
		}
		var n int64
		for _, t := range takes {
			if t.answer <= at.answer && t.freed > at.answer {
				n += t.units
			}
		}
		most = max(most, n)
	}
	return most
}

// refusals checks every sold_out and limit_reached. A refusal of q, called at c and answered at r, is justified if at
// some moment t in [c, r] there may have been less than q: initial, less every take that was called by t, plus every
// release that was certain before t. It is enough to look at c, at each call of a take in between, and at r.
func (j *holdJudge) refusals() {
	all := j.takes("")
	bad, excused, limits := 0, 0, 0
	for _, op := range j.ops {
		if op.Kind != Reserve || op.Outcome != Refused || op.Replayed {
			continue
		}
		takes, of := all, j.book.Initial
		if op.Limit {
			takes, of = j.takes(op.Buyer), j.book.PerBuyer
		}
		switch least := fewest(takes, of, op.Call, op.Return); {
		case least < op.Quantity:
		case op.Limit:
			limits++
		case least-j.leaked < op.Quantity:
			excused++
		default:
			bad++
		}
	}
	if bad+excused+limits > 0 {
		j.r.BadRefusals = bad + excused + limits
		j.find('U')
	}
	j.each(bad, "U", sayBadHoldRefuse)
	j.each(excused, "UL", sayLeakRefusals)
	j.each(limits, "U", sayBadLimit)
}

// fewest is the least that may have been free between two times.
func fewest(takes []taken, of, from, to int64) int64 {
	at := []int64{from, to}
	for _, t := range takes {
		if from < t.call && t.call <= to {
			at = append(at, t.call)
		}
	}
	slices.SortFunc(at, cmp.Compare[int64])
	least := of
	for _, now := range at {
		left := of
		for _, t := range takes {
			if t.call <= now {
				left -= t.units
			}
			if t.free < now {
				left += t.units
			}
		}
		least = min(least, left)
	}
	return least
}
