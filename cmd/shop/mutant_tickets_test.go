package main

import "lastitem/testkit/testenv"

const (
	ticketEnd  = "internal/store/redisdb/lua/ticket_end.lua"
	ticketRead = "internal/store/redisdb/lua/ticket_read.lua"
	consumer   = "internal/shop/tickets/tickets.go"
)

// ticketMutants break a rule each of how the orders of tickets are written.
var ticketMutants = []mutant{
	redelivered("a ticket that is ended before COMMIT", testenv.Edit{consumer,
		"\t\terr := l.o.Book.Receive(product, batch)\n",
		"\t\tfor _, a := range batch {\n\t\t\ta.End.State = ledger.TicketSold\n\t\t}\n\t\tl.end(product, batch)\n" +
			"\t\terr := l.o.Book.Receive(product, batch)\n"}),
	redelivered("a ticket that is given back twice", testenv.Edit{ticketEnd, "if call('HDEL', KEYS[4], id) == 1 then",
		"call('HDEL', KEYS[4], id)\n  if true then"}),
	redelivered("a ticket that is given up though its order is there", testenv.Edit{"internal/shop/receive.go",
		"if a.End = end; n > 0 {", "if a.End = end; n >= 0 {"}),
	{
		name: "a reconciliation that counts a committed ticket twice", mode: "redis-stream", store: "sql",
		fault: "redelivery", letters: "L",
		edits: []testenv.Edit{{"internal/shop/tickets/reconcile.go", "if s.Settled, err = tx.SoldOf(front.Tickets)",
			"if _, err = tx.SoldOf(front.Tickets)"}},
	},
	{
		name: "a group from the newest entry", mode: "redis-stream", store: "sql", fault: "crash", letters: "X",
		edits: []testenv.Edit{{ticketRead, "'CREATE', KEYS[1], ARGV[1], '0')", "'CREATE', KEYS[1], ARGV[1], '$')"}},
	},
}

// redelivered is a mutant that the lab finds where tickets are delivered twice.
func redelivered(name string, edits ...testenv.Edit) mutant {
	return mutant{name: name, letters: "A", edits: edits, mode: "redis-stream", store: "sql", fault: "redelivery"}
}
