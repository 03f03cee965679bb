package main

import "lastitem/internal/testkit/testenv"

const (
	holdEnd     = "internal/store/hold_end.go"
	bothSQL     = "internal/store/sql/both.sql"
	reserveSQL  = "internal/stock/reserve_sql.go"
	confirmLua  = "internal/store/lua/hold_confirm.lua"
	cancelLua   = "internal/store/lua/hold_cancel.lua"
	paymentRow  = "(tx.q.paymentInsert, payment, id, outcome, orderOf(!e.Refund, order), h.now)"
	storeTests  = "./internal/store "
	orderLater  = "WHERE id = ? AND product_id = ? AND returned_us IS NULL"
	extendedYet = "AND state = 'held' AND extended_us IS NULL\n"
)

// holdMutants break a rule each of how reservations begin and end. The lab plays no extension, no return and no new run
// during a schedule: a test of the store or of the contract finds those.
var holdMutants = []mutant{
	{
		name: "a reservation that is neither locked nor named by its state",
		edits: []testenv.Edit{
			{"internal/store/sql/mysql.sql", "FROM reservation WHERE id = ? FOR UPDATE\n", "FROM reservation WHERE id = ?\n"},
			{"internal/store/sql/mysql.sql", "FROM reservation WHERE id = ? FOR UPDATE SKIP LOCKED",
				"FROM reservation WHERE id = ?"},
			{bothSQL, "WHERE id = ? AND state = ? AND expires_us = ?", "WHERE id = ? AND ? <> '' AND ? > 0"},
		},
		mode: "reserve-sql", store: "sql", fault: "expiry", letters: "O",
	},
	{
		name:  "a cancel that trusts what it has read",
		edits: []testenv.Edit{{reserveSQL, "Give: giveToRun}", "Give: giveToRun, Trusting: true}"}},
		mode:  "reserve-sql", store: "sql", fault: "retry", letters: "O",
	},
	{
		name:  "a sweep and a payment that trust what they have read",
		edits: []testenv.Edit{{reserveSQL, "Give: giveToRun}", "Give: giveToRun, Trusting: true}"}},
		mode:  "reserve-sql", store: "sql", fault: "expiry", letters: "O",
	},
	{
		name:  "expired before the deadline",
		edits: []testenv.Edit{{holdEnd, "h.now >= h.ExpiresMicros", "h.now+450_000 >= h.ExpiresMicros"}},
		mode:  "reserve-sql", store: "sql", fault: "expiry", letters: "!",
	},
	{
		name:  "confirmed after the deadline",
		edits: []testenv.Edit{{holdEnd, "to := h.due()\n\tif h.ended", "to := h.State\n\tif h.ended"}},
		mode:  "reserve-sql", store: "sql", fault: "expiry", letters: "!",
	},
	{
		name: "a late payment that finds an overdue reservation gives nothing back",
		edits: []testenv.Edit{{holdEnd, "!h.ended {\n\t\treturn err\n\t}\n\treturn t.release(h)",
			"!h.ended {\n\t\treturn err\n\t}\n\treturn nil"}},
		mode: "reserve-sql", store: "sql", fault: "expiry", letters: "L",
	},
	{
		name:  "a sweeper gives back what another has given back",
		edits: []testenv.Edit{{holdEnd, "if to == h.State {", "if to == ledger.Confirmed {"}},
		mode:  "reserve-sql", store: "sql", fault: "expiry", letters: "O",
	},
	{
		name: "a late payment takes no units again",
		edits: []testenv.Edit{{holdEnd, "ok, err := t.takeAgain(h); err != nil || !ok",
			"ok, err := t.takeAgain(h); err != nil && !ok"}},
		mode: "reserve-sql", store: "sql", fault: "expiry", letters: "O",
	},
	{
		name:  "a payment that is refunded and an order",
		edits: []testenv.Edit{{holdEnd, "return false, t.exec(t.q.paymentOrder, order, payment)", "return false, nil"}},
		mode:  "reserve-sql", store: "sql", fault: "expiry", letters: "!D",
	},
	{
		name:  "a repeated payment is looked at anew",
		edits: []testenv.Edit{{bothSQL, "INSERT INTO payment", "INSERT IGNORE INTO payment"}},
		mode:  "reserve-sql", store: "sql", fault: "expiry", letters: "D",
	},
	{
		name: "the payment's row outside the transaction",
		edits: []testenv.Edit{{holdEnd, "tx.later" + paymentRow, "err = s.Tx(ctx, ReadCommitted, func(tx *Tx) error { return " +
			"tx.exec" + paymentRow + " })\n\t\tif duplicate(err) {\n\t\t\treturn tx.replay(&e, id, payment)\n\t\t}"}},
		mode: "reserve-sql", store: "sql", fault: "expiry", letters: "AD",
	},
	{
		name:  "a cancel in Redis that ends what has ended",
		edits: []testenv.Edit{{cancelLua, "if was == 'held' then", "if was ~= 'confirmed' then"}},
		mode:  "reserve-redis", store: "redis", fault: "retry", letters: "O",
	},
	{
		name:  "a late payment in Redis takes no units again",
		edits: []testenv.Edit{{confirmLua, "late and (fresh or not take(id, h))", "late"}},
		mode:  "reserve-redis", store: "redis", fault: "expiry", letters: "O",
	},
	{
		name:  "two orders of one reservation",
		edits: []testenv.Edit{{holdEnd, "e.Refund = h.State != ledger.Held", "e.Refund = h.State == ledger.Expired"}},
		test:  storeTests + "TestHoldArrows",
	},
	{
		name: "extended twice",
		edits: []testenv.Edit{{holdEnd, "h.State != ledger.Held || h.ExtendedMicros > 0", "h.State != ledger.Held"},
			{bothSQL, extendedYet, "AND state = 'held'\n"}},
		test: storeTests + "TestHoldsExtendAndVoid",
	},
	{
		name: "units of an ended run given to the next",
		edits: []testenv.Edit{{bothSQL, "SET stock = stock + ?, lease_seq = lease_seq + 1, version = version + 1 WHERE id " +
			"= ? AND run = ?", "SET stock = stock + ?, version = version + 1 WHERE id = ? AND ? > 0"}},
		test: storeTests + "TestHoldsExtendAndVoid",
	},
	{
		name: "returned twice",
		edits: []testenv.Edit{{holdEnd, "err != nil || returned > 0", "err != nil"},
			{bothSQL, orderLater, "WHERE id = ? AND product_id = ?"}},
		test: "./internal/replica TestReservations",
	},
	{
		name: "a late payment beyond the buyer's limit",
		edits: []testenv.Edit{{holdEnd, "err = t.takeOfBuyer(h.ID, h.Buyer, item, p)\n\t\t}\n\t\tif errors.Is",
			"err = nil\n\t\t}\n\t\tif errors.Is"}},
		test: storeTests + "TestHoldsRefuse",
	},
}
