package judge

import (
	"slices"
	"strings"
	"testing"

	"lastitem/contract/api"
)

// ticketed is the good run as one that is sold by tickets: three units are still in SQL and at the front, one ticket
// was refused and one ended with the order of its key.
func ticketed() Input {
	in := good()
	in.WantSoldOut = false
	in.History = in.History[:theDeclined]
	again := op(OK, 70, 75, 1, "t9", "k4")
	in.History = append(in.History, again)
	l := in.Ledger
	l.Keys, l.Initial[api.SQL], l.Stock[api.SQL] = nil, 13, 4
	l.Orders = l.Orders[:6]
	b := api.TicketBook{ProductID: 101, Initial: 13, Front: 4, Book: 4, Passed: 9}
	for _, o := range l.Orders {
		b.Tickets = append(b.Tickets, api.TicketEnd{ID: o.OrderID, State: ticketSold, Quantity: o.Quantity, Deliveries: 2})
	}
	b.Tickets = append(b.Tickets, api.TicketEnd{ID: "t9", State: ticketSame, OrderID: "o4", Quantity: 1, Deliveries: 2})
	in.Tickets = &Tickets{Book: b, Redelivered: 7, Told: []TicketOp{
		{"o1", api.TicketQueued, "", 10, 12}, {"o1", ticketSold, "o1", 13, 14}, {"t9", ticketSame, "o4", 80, 90},
	}}
	return in
}

func TestTickets(t *testing.T) {
	t.Parallel()
	end := func(b *api.TicketBook, id string) *api.TicketEnd {
		return &b.Tickets[slices.IndexFunc(b.Tickets, func(e api.TicketEnd) bool { return e.ID == id })]
	}
	without := func(b *api.TicketBook, id string) {
		b.Tickets = slices.DeleteFunc(b.Tickets, func(e api.TicketEnd) bool { return e.ID == id })
	}
	tell := func(in *Input, id, state, order string) {
		in.Tickets.Told = append(in.Tickets.Told, TicketOp{id, state, order, 100, 110})
	}
	// failed makes of the second order a ticket that failed and was given back.
	failed := func(in *Input, b *api.TicketBook, state string) {
		drop(&Input{}, in.Ledger, "o2")
		end(b, "o2").State = state
		in.Ledger.Stock[api.SQL]++
		b.Book, b.Front, b.Passed = b.Book+1, b.Front+1, b.Passed-1
	}
	for _, m := range []struct {
		name    string
		change  func(in *Input, b *api.TicketBook)
		verdict Verdict
		found   string
		phrase  string
	}{
		{"nothing", func(*Input, *api.TicketBook) {}, Exact, "", ""},
		{"in flight and settled", func(_ *Input, b *api.TicketBook) { b.InFlight, b.Settled, b.Passed = 2, 2, 7 }, Exact,
			"", ""},
		{"front one more", func(_ *Input, b *api.TicketBook) { b.Front++ }, Broken, "A", "more unit is promised"},
		{"front one less", func(_ *Input, b *api.TicketBook) { b.Front-- }, Broken, "L", ""},
		{"front one less, nothing in SQL", func(in *Input, b *api.TicketBook) {
			in.Ledger.Initial[api.SQL], in.Ledger.Stock[api.SQL] = 9, 0
			b.Initial, b.Front, b.Book = 9, -1, 0
		}, Broken, "", "SQL has none left"},
		{"passed is wrong", func(_ *Input, b *api.TicketBook) { b.Passed++ }, Broken, "", "contradicts itself"},
		{"a correction that was not applied", func(_ *Input, b *api.TicketBook) { b.Journal = 1 }, Broken, "",
			"journal in SQL"},
		{"an acknowledged ticket is nowhere", func(in *Input, b *api.TicketBook) {
			failed(in, b, ticketSold)
			without(b, "o2")
		}, Broken, "A", ""},
		{"an acknowledged ticket is refused", func(in *Input, b *api.TicketBook) {
			failed(in, b, "refused")
		}, Broken, "A", ""},
		{"an acknowledged ticket failed", func(in *Input, b *api.TicketBook) { failed(in, b, ticketFailed) }, Broken, "A",
			""},
		{"the same, poisoned", func(in *Input, b *api.TicketBook) {
			failed(in, b, ticketFailed)
			in.Tickets.Poisoned = map[string]bool{"o2": true}
		}, Exact, "", ""},
		{"poisoned, and refused while it held its unit", func(in *Input, b *api.TicketBook) {
			failed(in, b, ticketFailed)
			in.Tickets.Poisoned = map[string]bool{"o2": true}
			in.History = append(in.History, op(Refused, 70, 76, 5, "", ""))
		}, Exact, "", ""},
		{"queued for ever", func(in *Input, b *api.TicketBook) {
			drop(&Input{}, in.Ledger, "o2")
			end(b, "o2").State = api.TicketQueued
			in.Ledger.Stock[api.SQL]++
			b.Book, b.InFlight, b.Passed = b.Book+1, 1, b.Passed-1
		}, Broken, "X", ""},
		{"one ticket, two orders", func(in *Input, b *api.TicketBook) {
			in.Ledger.Orders = append(in.Ledger.Orders, row("other", 1, 3, "", 7))
			in.Ledger.Stock[api.SQL]--
			b.Book, b.Front, b.Passed = b.Book-1, b.Front-1, b.Passed+1
		}, Broken, "D", "no ticket of its own"},
		{"one key, two orders", func(in *Input, b *api.TicketBook) {
			in.Ledger.Orders = append(in.Ledger.Orders, row("t9", 1, 3, "k4", 7))
			in.Tickets.Told = nil
			*end(b, "t9") = api.TicketEnd{ID: "t9", State: ticketSold, Quantity: 1, Deliveries: 2}
			in.Ledger.Stock[api.SQL]--
			b.Book, b.Front, b.Passed = b.Book-1, b.Front-1, b.Passed+1
		}, Broken, "D", ""},
		{"an order without an end", func(_ *Input, b *api.TicketBook) { without(b, "o1") }, Broken, "D", ""},
		{"an end without an order", func(_ *Input, b *api.TicketBook) {
			b.Tickets = append(b.Tickets, api.TicketEnd{ID: "o0", State: ticketSold, Quantity: 1})
		}, Broken, "A", "ended as sold without"},
		{"the same, whose order is gone", func(_ *Input, b *api.TicketBook) { end(b, "t9").OrderID = "gone" }, Broken, "A",
			""},
		{"GET names another's order", func(in *Input, _ *api.TicketBook) { tell(in, "o3", ticketSold, "o2") }, Broken, "A",
			"not its"},
		{"sold, then queued", func(in *Input, _ *api.TicketBook) { tell(in, "o1", api.TicketQueued, "") }, Broken, "A",
			"to wait"},
		{"sold, then unknown", func(in *Input, _ *api.TicketBook) { tell(in, "o1", "", "") }, Broken, "A", "to wait"},
		{"queued at the same time as sold", func(in *Input, _ *api.TicketBook) {
			in.Tickets.Told = append(in.Tickets.Told, TicketOp{"o1", api.TicketQueued, "", 12, 20})
		}, Exact, "", ""},
		{"two ends", func(in *Input, _ *api.TicketBook) { tell(in, "o1", "refused", "") }, Broken, "A", "two ends"},
		{"two orders", func(in *Input, _ *api.TicketBook) { tell(in, "t9", ticketSold, "t9") }, Broken, "D", "two orders"},
		{"sold out while in stock", func(in *Input, _ *api.TicketBook) {
			in.History = append(in.History, op(Refused, 70, 76, 1, "", ""))
		}, Broken, "", "refused though in stock"},
		{"runs differ", func(in *Input, _ *api.TicketBook) {
			in.Tickets.Unread = "runs differ"
		}, Inconclusive, "", "runs differ"},
		{"nothing was read twice", func(_ *Input, b *api.TicketBook) { end(b, "o1").Deliveries = 1 }, Vacuous, "",
			"6 tickets were read twice"},
		{"a replayed 202", func(in *Input, _ *api.TicketBook) {
			again := op(OK, 91, 92, 1, "t9", "k4")
			again.Replayed = true
			in.History = append(in.History, again)
		}, Exact, "", ""},
	} {
		in := ticketed()
		m.change(&in, &in.Tickets.Book)
		r := Judge(in)
		said := strings.Join(slices.Concat(r.Violations, r.Consequences, r.Missing), "; ")
		if r.Verdict != m.verdict || r.Found != m.found || !strings.Contains(said, m.phrase) {
			t.Errorf("%s: %s %q, want %s %q; %s", m.name, r.Verdict, r.Found, m.verdict, m.found, said)
		}
	}
}
