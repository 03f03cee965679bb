package judge

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
)

// told is a book and a history, told step by step. Times are in milliseconds of the clients' clock; the store's is ten
// seconds ahead. Everything belongs to ann, one unit at a time.
type told struct {
	book *api.Reservations
	ops  []ReservationOp
}

func tell(stock int64, script string) *told {
	h := &told{book: &api.Reservations{Initial: stock, Stock: stock, ProductID: 101, Run: 1,
		BuyerUnits: map[string]int64{}}}
	for step := range strings.SplitSeq(script, ", ") {
		h.step(strings.Fields(step))
	}
	return h
}

// step is a verb, mostly with a reservation or a payment and a time.
func (h *told) step(w []string) {
	w = append(w, "", "", "")
	n := func(i int) int64 {
		ms, _ := strconv.ParseInt(w[i], 10, 64)
		return ms
	}
	switch w[0] {
	case "made", "hold": // made: no client was answered
		h.book.Rows = append(h.book.Rows, api.ReservationRow{ReservationID: w[1], Buyer: "ann", Quantity: 1,
			Late: ledger.LateRefund, ExpiresMicros: byStore(n(3))})
		h.to(w[1], held, n(2))
		h.move(1)
		if w[0] == "hold" {
			h.ask(Reserve, OK, w[1], n(2))
		}
	case "to": // a change of state, and nothing else
		h.to(w[1], w[2], n(3))
	case "ends": // with its release; the work of a sweep is stamped a millisecond later
		if e := h.to(w[1], w[2], n(3)); w[2] == expired {
			e.CommittedMicros = byStore(n(3) + 1)
		}
		h.move(-1)
	case "cancel":
		h.step([]string{"ends", w[1], cancelled, w[2]})
		h.ask(Cancel, OK, w[1], n(2))
	case "recancel": // is answered, and changes nothing
		h.ask(Cancel, OK, w[1], n(2)).Expired = w[3] == expired
	case "order": // of a payment, and nothing else
		row := h.row(w[1])
		row.Orders = append(row.Orders, api.ReservationOrder{OrderID: "o" + w[2], Payment: w[2],
			Buyer: row.Buyer, Quantity: 1})
		row.Payments = append(row.Payments, api.ReservationPaid{Payment: w[2], OrderID: "o" + w[2], Outcome: "order"})
	case "pay":
		h.to(w[1], confirmed, n(3))
		h.step([]string{"order", w[1], w[2]})
		h.pays(OK, w[1], w[2], n(3))
	case "late": // a payment that goes back
		h.row(w[1]).Payments = append(h.row(w[1]).Payments, api.ReservationPaid{Payment: w[2], Outcome: "refund"})
		op := h.pays(Refused, w[1], w[2], n(3))
		op.Refund, op.Expired = true, true
	case "return":
		h.row(w[1]).Orders[0].Returns = []api.ReturnedPart{{Quantity: 1, Restocked: w[2] == "restock"}}
		h.book.BuyerUnits["ann"]--
		if w[2] == "restock" {
			h.book.Stock++
		}
	case "part": // of two units that are held: one comes back
		h.row(w[1]).Quantity--
		e := h.to(w[1], held, n(2))
		e.Quantity, e.Request = 1, ledger.Digest([]byte(w[3]))
		h.move(-1)
		h.step([]string{"also", w[1], w[2], w[3]})
	case "also": // a part that changes nothing
		op := h.ask(Cancel, OK, w[1], n(2))
		op.Key, op.Part = w[3], 1
	case "all": // two units come back
		h.step([]string{"ends", w[1], cancelled, w[2]})
		h.move(-1)
	case "two": // a hold of two
		h.step([]string{"hold", w[1], w[2], w[3]})
		h.row(w[1]).Quantity, h.ops[len(h.ops)-1].Quantity = 2, 2
		h.move(1)
	case "refuse", "limit":
		h.ask(Reserve, Refused, "", n(1)).Limit = w[0] == "limit"
	case "take":
		h.move(1)
	case "lose":
		h.book.Stock--
	}
}

// byStore is a time by the store's clock.
func byStore(ms int64) int64 { return 10_000_001 + ms*1000 }

func (h *told) row(id string) *api.ReservationRow {
	i := slices.IndexFunc(h.book.Rows, func(row api.ReservationRow) bool { return row.ReservationID == id })
	return &h.book.Rows[i]
}

// ask is a request with its answer, around the moment of its effect.
func (h *told) ask(kind ReservationKind, out Outcome, id string, ms int64) *ReservationOp {
	h.ops = append(h.ops, ReservationOp{Kind: kind, Outcome: out, ReservationID: id, Buyer: "ann", Quantity: 1,
		Call:   (ms - 2) * 1e6,
		Return: (ms + 2) * 1e6})
	return &h.ops[len(h.ops)-1]
}

func (h *told) pays(out Outcome, id, payment string, ms int64) *ReservationOp {
	op := h.ask(Confirm, out, id, ms)
	if op.PaymentID = payment; out == OK {
		op.OrderID = "o" + payment
	}
	return op
}

func (h *told) move(units int64) {
	h.book.Stock -= units
	h.book.BuyerUnits["ann"] += units
}

func (h *told) to(id, state string, ms int64) *api.ReservationEvent {
	row := h.row(id)
	h.book.AsOfMicros = max(h.book.AsOfMicros, byStore(ms))
	row.Events = append(row.Events, api.ReservationEvent{Was: row.State, Now: state, DeadlineMicros: row.ExpiresMicros,
		AtMicros: byStore(ms)})
	row.State = state
	return &row.Events[len(row.Events)-1]
}

// partEndsAll is a cancel of one of two units that gives both back.
const partEndsAll = "two a 10 900, also a 20 k, all a 20"

// What one service did, right or wrong, and what is found: letters, and the one violation that they do not explain.
func TestHoldsTold(t *testing.T) {
	t.Parallel()
	limited, limited2 := func(h *told) { h.book.PerBuyer = 1 }, func(h *told) { h.book.PerBuyer = 2 }
	rehold := func(h *told) { h.row("a").Late = ledger.LateRehold }
	for name, tt := range map[string]struct {
		stock                  int64
		found, violate, script string
		then                   func(h *told)
	}{
		"a double release": {1, "O", "", "hold a 10 900, cancel a 20, ends a cancelled 21", func(h *told) {
			h.row("a").Events[2].Was = held
		}},
		"a cancellation, then an expiry": {1, "O", "", "hold a 10 900, cancel a 20, to a expired 901", nil},
		"void, then an expiry":           {1, "O", "", "hold a 10 900, ends a void 20, recancel a 30, to a expired 901", nil},
		"a cancellation, then a confirm": {1, "", "from cancelled to confirmed",
			"hold a 10 900, cancel a 20, take, pay a p 30", nil},
		"a double release, which gives the buyer too much": {3, "O", "",
			"hold a 10 900, cancel a 20, ends a cancelled 21, hold b 30 900, hold c 40 900", func(h *told) {
				h.book.PerBuyer, h.row("a").Events[2].Was = 1, held
			}},
		"a double release, and twice as much too much": {3, "OB", "",
			"hold a 10 900, cancel a 20, ends a cancelled 21, hold b 30 900, hold c 40 900, hold d 50 900", func(h *told) {
				h.book.PerBuyer, h.row("a").Events[2].Was = 1, held
			}},
		"a cancellation that changed nothing": {1, "A", "", "hold a 10 900, recancel a 20", nil},
		"an expiry that was answered only":    {1, "A", "", "hold a 10 900, pay a p 20, recancel a 30 expired", nil},
		"an expiry, then a late payment": {1, "", "",
			"hold a 10 100, ends a expired 150, take, pay a p 200, refuse 300", rehold},
		"a late payment after a cancel": {1, "A", "",
			"hold a 10 100, ends a expired 150, recancel a 160 expired, take, pay a p 200, refuse 300", rehold},
		"a late payment for a unit that was held by then": {1, "O", "",
			"hold a 10 100, ends a expired 150, hold b 160 900, take, pay a p 200", rehold},
		"an expiry without a change": {1, "", "in another state", "hold a 10 100, ends a expired 150, hold b 200 900",
			func(h *told) { h.row("a").Events = h.row("a").Events[:1] }},
		"a shorter deadline": {1, "A", "", "hold a 10 900, to a held 20, ends a expired 150", func(h *told) {
			h.row("a").Events[1].DeadlineMicros = byStore(100)
		}},
		"a cancelled hold has an order": {2, "D", "", "hold a 10 900, cancel a 20, order a p, lose", nil},
		"a cancelled hold has an order, and was sold": {1, "O", "",
			"hold a 10 900, cancel a 20, order a p, hold b 30 900", nil},
		"an expired hold has an order, its unit is gone": {1, "D", "",
			"hold a 10 100, ends a expired 150, late a q 160, order a p, lose, refuse 300", nil},
		"a refunded payment has an order": {1, "D", "", "hold a 10 900, to a confirmed 20, order a p", func(h *told) {
			h.row("a").Payments[0].OrderID = ""
		}},

		"a refund without a payment": {1, "A", "", "hold a 10 900, cancel a 20", func(h *told) {
			h.pays(Refused, "a", "p", 30).Refund = true
		}},
		"a refund for what is not there": {1, "", "", "hold a 10 900", func(h *told) {
			h.pays(Refused, "gone", "p", 20).Refund = true
		}},
		"held at its deadline":       {1, "L", "", "hold a 10 100", func(h *told) { h.book.AsOfMicros = byStore(100) }},
		"a confirm without an order": {1, "A", "", "hold a 10 900", func(h *told) { h.pays(OK, "a", "p", 20).OrderID = "" }},
		"the order of another hold": {2, "A", "", "hold a 10 900, hold b 10 900, pay a p 20", func(h *told) {
			h.pays(OK, "b", "p", 30)
		}},
		"a hold for two keys": {2, "D", "", "hold a 10 900", func(h *told) {
			h.ops[0].Key = "k"
			h.ask(Reserve, OK, "a", 11).Key = "l"
		}},
		"another quantity": {2, "", "than was asked for", "hold a 10 900", func(h *told) { h.ops[0].Quantity = 2 }},
		"a buyer who was forgotten": {2, "B", "than was asked for", "hold a 10 900, hold b 10 900", func(h *told) {
			h.book.PerBuyer, h.book.Rows[0].Buyer, h.book.Rows[1].Buyer = 1, "", ""
			clear(h.book.BuyerUnits)
		}},
		"both of the last unit, cancelled since": {1, "O", "",
			"hold a 10 900, hold b 20 900, cancel a 30, cancel b 40", nil},
		"both of a buyer's last unit, cancelled since": {5, "B", "",
			"hold a 10 900, hold b 20 900, cancel a 30, cancel b 40", limited},
		"free from the deadline on": {1, "", "", "hold a 10 100, ends a expired 150, hold b 120 900", nil},
		"freed too early": {1, "A", "",
			"hold a 10 900, ends a expired 60, hold b 80 900", nil},
		"free since somebody's cancel": {1, "", "", "hold a 10 900, ends a cancelled 20, hold b 30 900, recancel a 40", nil},
		"free since it is void":        {1, "", "", "hold a 10 900, ends a void 20, hold b 30 900", nil},
		"restocked":                    {1, "", "", "hold a 10 900, pay a p 20, return a restock, hold b 30 900", limited},
		"written off":                  {1, "", "", "hold a 10 900, pay a p 20, return a lost, refuse 30", limited},
		"a part":                       {2, "", "", "two a 10 900, part a 20 k, hold b 30 900, pay b p 40", limited2},
		"a part, refused since":        {2, "U", "", "two a 10 900, part a 20 k, refuse 30", nil},
		"a part, limited since":        {5, "U", "", "two a 10 900, part a 20 k, limit 30", limited2},
		"a part of what expired": {2, "", "", "two a 10 100, part a 20 k, ends a expired 150, refuse 21, limit 15",
			limited2},
		"a part twice": {2, "O", "", "two a 10 900, part a 20 k, part a 30 k", nil},
		"a part that ends all": {2, "A", "", "two a 10 900, part a 20 k, ends a cancelled 30", func(h *told) {
			h.row("a").Events = slices.Delete(h.row("a").Events, 1, 2)
			h.row("a").Events[1].Request, h.row("a").Events[1].Quantity, h.row("a").Quantity = ledger.Digest([]byte("k")), 2, 2
		}},
		"a part that ends all, and tells so": {2, "A", "", "two a 10 900, all a 20", func(h *told) {
			h.row("a").Events[1].Quantity = 1
		}},
		"a part that ends all, as if it was told to": {2, "A", "", partEndsAll, nil},
		"a part that ends all, without an answer": {2, "A", "", partEndsAll, func(h *told) {
			h.ops[1].Outcome, h.ops[1].Return = Unknown, 0
		}},
		"a part, and a lost cancel of all": {2, "", "", partEndsAll + ", recancel a 20", func(h *told) {
			h.ops[2].Outcome = Unknown
		}},
		"a part, and a cancel of all that comes later": {2, "A", "", partEndsAll + ", recancel a 30", nil},
		"a part, and somebody cancels the rest":        {2, "", "", "two a 10 900, part a 20 k, ends a cancelled 30", nil},
		"two parts that are all":                       {2, "", "", partEndsAll + ", also a 20 l", nil},
		"a part and its repetition":                    {2, "A", "", partEndsAll + ", also a 20 k", nil},
		"a line that was cancelled, and the others bought": {2, "", "", "hold a 10 900, part a 20 k", func(h *told) {
			h.to("a", confirmed, 30)
			h.pays(OK, "a", "p", 30)
		}},
		"a part that was answered only": {2, "A", "", "two a 10 900", func(h *told) {
			op := h.ask(Cancel, OK, "a", 20)
			op.Key, op.Part = "k", 1
		}},
		"a part that the limit does not get back": {2, "L", "", "two a 10 900, part a 20 k", func(h *told) {
			limited2(h)
			h.book.BuyerUnits["ann"]++
		}},
		"more back than was held": {3, "O", "", "two a 10 900, part a 20 k, part a 30 l, part a 40 m", func(h *told) {
			h.row("a").Quantity = 0
		}},
		"an order returned twice": {2, "O", "", "hold a 10 900, pay a p 20, return a restock", func(h *told) {
			o := &h.row("a").Orders[0]
			o.Returns = append(o.Returns, api.ReturnedPart{Request: "k", Quantity: 1})
		}},
		"the same return twice": {2, "O", "", "two a 10 900, pay a p 20, return a restock", func(h *told) {
			o := &h.row("a").Orders[0]
			o.Quantity, o.Returns = 2, append(o.Returns, o.Returns[0])
			h.move(-1)
		}},
		"an extension beyond the rule": {1, "", "not allowed", "hold a 10 900, to a held 20, to a held 30", nil},
		"several extensions": {1, "", "", "hold a 10 900, to a held 20, to a held 30", func(h *told) {
			h.book.Extends = 2
		}},
		"an extension twice under a key": {1, "", "not allowed", "hold a 10 900, to a held 20, to a held 30", func(h *told) {
			h.book.Extends, h.row("a").Events[1].Request, h.row("a").Events[2].Request = 2, "k", "k"
		}},
		"an extension answered another deadline": {1, "A", "", "hold a 10 900, to a held 20, to a held 30", func(h *told) {
			h.book.Extends, h.row("a").Events[1].Request = 2, ledger.Digest([]byte("k"))
			h.row("a").Events[2].DeadlineMicros++
			op := h.ask(Extend, OK, "a", 20)
			op.Key, op.Expires = "k", h.row("a").Events[2].DeadlineMicros
		}},
		"a hold without an answer":     {1, "", "", "made a 10 900, refuse 20", nil},
		"refused after a cancellation": {1, "U", "", "hold a 10 900, cancel a 20, refuse 30", nil},
		"refused after an expiry that was answered": {1, "U", "",
			"hold a 10 100, ends a expired 150, late a p 160, refuse 200", func(h *told) {
				h.row("a").Events[1].CommittedMicros = 0
			}},
		"a confirm tells the time": {2, "U", "",
			"made a 10 900, made b 10 100, pay a p 20, ends b expired 150, refuse 200", nil},
		"a try before the refusal": {1, "", "", "hold a 10 900, refuse 20, cancel a 40, refuse 100", func(h *told) {
			h.ops[1].Key, h.ops[1].Outcome, h.ops[1].Return = "k", Unknown, 0
			h.ops[3].Key = "k"
		}},
		"a replay of a refusal": {1, "", "", "hold a 10 900, cancel a 40, refuse 100", func(h *told) {
			h.ops[2].Replayed = true
		}},
		"refused because of a leak": {2, "L", "", "hold a 10 900, lose, refuse 20", nil},
		"a leak explains one unit":  {3, "LU", "", "hold a 10 900, lose, refuse 20", nil},
		"limited because of a leak": {2, "L", "", "hold a 10 900, cancel a 20, limit 30", func(h *told) {
			h.book.PerBuyer, h.book.BuyerUnits["ann"] = 1, 1
		}},
		"the limit counts a stranger": {2, "L", "", "hold a 10 900, limit 30", func(h *told) {
			h.book.PerBuyer, h.book.BuyerUnits["bob"], h.ops[1].Buyer = 1, 1, "bob"
		}},
		"the limit counts too little": {2, "L", "", "hold a 10 900", func(h *told) {
			h.book.PerBuyer, h.book.BuyerUnits["ann"] = 1, 0
		}},
		"a loss explains refusals": {2, "A", "", "refuse 20, limit 20", func(h *told) {
			h.book.PerBuyer = 1
			h.ask(Reserve, OK, "gone", 10)
		}},
	} {
		h := tell(tt.stock, tt.script)
		if tt.then != nil {
			tt.then(h)
		}
		got := Reservations(h.book, h.ops, "en")
		all := strings.Join(got.Violations, "; ")
		if got.Found != tt.found || (all == "") != (tt.violate == "") || len(got.Violations) > 1 ||
			!strings.Contains(all, tt.violate) || len(got.Unchecked)+len(got.Missing) > 0 ||
			strings.Contains(tt.found, "D") != (got.Doubles > 0) || strings.Contains(tt.found, "A") != (got.AckLost > 0) {
			t.Errorf("%s: %+v, want %q and %q", name, got, tt.found, tt.violate)
		}
	}
}

// A reservation goes the ways of the contract and no other: from each state to each, told as the store knew it, or with
// a state that a change had read before another.
func TestHoldsWays(t *testing.T) {
	t.Parallel()
	states := []string{held, confirmed, cancelled, expired, void}
	forbids := func(h *told) bool {
		r := Reservations(h.book, nil, "en")
		return strings.Contains(strings.Join(append(r.Violations, r.Consequences...), "; "), "not allowed")
	}
	for _, was := range append([]string{""}, states...) {
		for _, now := range states {
			for _, stale := range []bool{false, true} {
				h := tell(9, "made a 10 900")
				row := h.row("a")
				switch was {
				case "":
					row.State, row.Events = "", nil
				case held:
				default:
					h.to("a", was, 20)
				}
				if e := h.to("a", now, 30); stale {
					e.Was = held
				}
				allowed := was == "" && now == held && !stale || was == held
				if bad := forbids(h); bad == allowed {
					t.Errorf("from %q to %s (stale: %v): not allowed: %v", was, now, stale, bad)
				}
			}
		}
	}
	if !forbids(tell(9, "made a 10 900, to a held 20, to a held 30")) {
		t.Error("a second extension is allowed")
	}
	h := tell(9, "made a 10 100, to a expired 150, to a confirmed 160")
	if late := forbids(h); !late {
		t.Error("a late payment is allowed though the product refunds it")
	}
	if h.row("a").Late = ledger.LateRehold; forbids(h) {
		t.Error("a late payment is not allowed though the product holds again")
	}
}
