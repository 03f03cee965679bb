package main

import "lastitem/testkit/testenv"

const (
	holdEnd     = "internal/store/sqldb/end.go"
	holdChange  = "internal/store/sqldb/change.go"
	holdSweep   = "internal/store/sqldb/sweep.go"
	bothSQL     = "internal/store/sqldb/sql/both.sql"
	mysqlSQL    = "internal/store/sqldb/sql/mysql.sql"
	reserveSQL  = "internal/stock/reserve_sql.go"
	paymentRow  = "(tx.q.PaymentInsert, payment, id, outcome, null(paid), h.now)"
	storeTests  = "./internal/store/sqldb "
	adjusts     = "SET initial = initial + ?, stock = stock + ?"
	redisTests  = "./internal/store/redisdb "
	redisAdjust = "internal/store/redisdb/lua/adjust.lua"
	extendedYet = "  AND COALESCE(extended_us, 0) = ?\n"
)

// unlocked has a transaction lock no reservation.
var unlocked = [4]testenv.Edit{
	{mysqlSQL, "FROM reservation WHERE id = ? FOR UPDATE\n", "FROM reservation WHERE id = ?\n"},
	{mysqlSQL, "ORDER BY expires_us, id LIMIT ? FOR UPDATE SKIP LOCKED", "ORDER BY expires_us, id LIMIT ?"},
	{mysqlSQL, "r.state = 'held' ORDER BY r.id FOR UPDATE SKIP LOCKED", "r.state = 'held' ORDER BY r.id"},
	{holdSweep, "err != nil || n != int64(len(ids))", "err != nil || n < 0"},
}

// expiring is a mutant that the lab finds where reservations expire.
func expiring(name, letters string, edits ...testenv.Edit) mutant {
	return mutant{name: name, letters: letters, edits: edits, mode: "reserve-sql", store: "sql", fault: "expiry"}
}

// tested is a mutant that a test finds.
func tested(name, test string, edits ...testenv.Edit) mutant {
	return mutant{name: name, test: test, edits: edits}
}

// The cells in which the lab finds mutants too: mode, store and fault.
var (
	sqlRetry      = [3]string{"reserve-sql", "sql", "retry"}
	sqlExpiry     = [3]string{"reserve-sql", "sql", "expiry"}
	sqlReplicas   = [3]string{"reserve-sql", "sql", "replicas"}
	redisRetry    = [3]string{"reserve-redis", "redis", "retry"}
	redisExpiry   = [3]string{"reserve-redis", "redis", "expiry"}
	redisReplicas = [3]string{"reserve-redis", "redis", "replicas"}
)

// inLab is a mutant that the lab finds too.
func (m mutant) inLab(cell [3]string, letters string) mutant {
	m.mode, m.store, m.fault, m.letters = cell[0], cell[1], cell[2], letters
	return m
}

// loaded is a mutant that the load test finds, by the plan reserve as it is.
func loaded(name string, edits ...testenv.Edit) mutant {
	return tested(name, "./cmd/shop TestLoadtestReserves", edits...)
}

// reservationMutants break a rule each of how reservations begin and end. The lab plays no new run during a schedule,
// and no two extensions, parts or payments of one reservation: the load test, or a test of the store finds those.
var reservationMutants = []mutant{
	expiring("a reservation that is not locked, and an end that changes no row", "O",
		unlocked[0], unlocked[1], unlocked[2], unlocked[3], testenv.Edit{mysqlSQL,
			"IF(ROW_COUNT() = 1, ?, NULL), ?, ?, ?, ?)", "?, ?, ?, ?, ?)"}),
	expiring("a reservation that is neither locked nor named by its state", "O",
		unlocked[0], unlocked[1], unlocked[2], unlocked[3],
		testenv.Edit{bothSQL, "WHERE id IN (?) AND state = 'held' AND expires_us <= ?", "WHERE id IN (?) AND ? > 0"},
		testenv.Edit{bothSQL, "WHERE id = ? AND state = ? AND expires_us = ?", "WHERE id = ? AND ? <> '' AND ? > 0"}),
	expiring("a sweep and a payment that trust what they have read", "O",
		testenv.Edit{reserveSQL, "Give: giveToRun}", "Give: giveToRun, Trusting: true}"}),
	expiring("expired before the deadline", "A",
		testenv.Edit{holdChange, "h.now >= h.ExpiresMicros", "h.now+450_000 >= h.ExpiresMicros"}),
	expiring("confirmed after the deadline", "D",
		testenv.Edit{holdEnd, "to := h.due()\n\tif h.ended", "to := h.State\n\tif h.ended"}),
	expiring("a late payment that finds an overdue reservation gives nothing back", "L",
		testenv.Edit{holdEnd, "!h.ended {\n\t\treturn err\n\t}\n\treturn t.release(h)",
			"!h.ended {\n\t\treturn err\n\t}\n\treturn nil"}),
	expiring("a sweeper gives back what another has given back", "O", unlocked[1], unlocked[2], unlocked[3]),
	expiring("a late payment takes no units again", "O",
		testenv.Edit{holdEnd, "t.takeAgain(h); err != nil || !ok", "t.takeAgain(h); err != nil && !ok"}),
	expiring("a payment that is refunded and an order", "!D",
		testenv.Edit{holdEnd, "return false, t.exec(t.q.PaymentOrder, order, payment)", "return false, nil"}),
	expiring("a repeated payment gets a second answer", "D",
		testenv.Edit{bothSQL, "INSERT INTO payment", "INSERT IGNORE INTO payment"}),
	expiring("the payment's row outside the transaction", "AD",
		testenv.Edit{holdEnd, "tx.later" + paymentRow, "err = r.s.Tx(ctx, ReadCommitted, func(tx *Tx) error {\n" +
			"\t\t\treturn tx.exec" + paymentRow +
			"\n\t\t})\n\t\tif duplicate(err) {\n\t\t\treturn tx.replay(&e, id, payment)\n\t\t}"}),
	{
		name:  "a cancel that trusts what it has read",
		edits: []testenv.Edit{{reserveSQL, "Give: giveToRun}", "Give: giveToRun, Trusting: true}"}},
		mode:  "reserve-sql", store: "sql", fault: "retry", letters: "O",
	},
	{
		name: "a cancel in Redis that ends what has ended",
		edits: []testenv.Edit{{"internal/store/redisdb/lua/hold_cancel.lua", "if h.state == 'held' then",
			"if was ~= 'confirmed' then"}},
		mode: "reserve-redis", store: "redis", fault: "retry", letters: "O",
	},
	{
		name: "a late payment in Redis takes no units again",
		edits: []testenv.Edit{{"internal/store/redisdb/lua/hold_confirm.lua", "late and (fresh or not take(h))",
			"late"}},
		mode: "reserve-redis", store: "redis", fault: "expiry", letters: "O",
	},
	mutant{name: "a cancel that does not give the buyer's units back", edits: []testenv.Edit{
		{bothSQL, "units = units - CASE buyer", "units = units - 0 * CASE buyer"}}}.inLab(sqlRetry, "L"),
	tested("two orders of one reservation", storeTests+"TestLifeInSQL",
		testenv.Edit{holdEnd, "e.Refund = h.State != ledger.Held", "e.Refund = h.State == ledger.Expired"}),
	tested("extended twice", storeTests+"TestLifeInSQL",
		testenv.Edit{holdEnd, "may = h.ExtendedMicros == 0", "may = true"},
		testenv.Edit{bothSQL, extendedYet, "  AND ? >= 0\n"}).inLab(sqlRetry, "!O"),
	tested("an extension counts twice under one key", storeTests+"TestLifeInSQL",
		testenv.Edit{holdEnd, "if n++; c.Request == request {", "if n++; c.Request == request && n < 0 {"}).
		inLab(sqlRetry, "!O"),
	tested("an extension under one key gets the deadline of another", redisTests+"TestLifeInRedis",
		testenv.Edit{"internal/store/redisdb/lua/hold_extend.lua", "h.events:sub(1, made)", "h.events"}),
	tested("units of an ended run given to the next", storeTests+"TestLifeInSQL",
		testenv.Edit{bothSQL, "stock = stock + ?, lease_seq = lease_seq + 1, version = version + 1 WHERE id = ? AND run = ?",
			"stock = stock + ?, version = version + 1 WHERE id = ? AND ? > 0"}),
	tested("an adjustment that is counted twice", storeTests+"TestLifeInSQL",
		testenv.Edit{bothSQL, adjusts, adjusts[:len(adjusts)-1] + "2 * ?"}).inLab(sqlReplicas, "O"),
	tested("an adjustment that is not counted", storeTests+"TestLifeInSQL",
		testenv.Edit{bothSQL, adjusts, adjusts[:len(adjusts)-1] + "0 * ?"}).inLab(sqlReplicas, "L"),
	tested("an adjustment that is lost from the journal", storeTests+"TestLifeInSQL",
		testenv.Edit{"internal/store/sqldb/adjust.go", "t.later(t.q.AdjustmentInsert", "_ = append([]any(nil)"}).
		inLab(sqlReplicas, "A!"),
	tested("an adjustment that leaves the product to absolute counts", storeTests+"TestSQLActsOnProducts",
		testenv.Edit{"internal/store/sqldb/adjust.go", "if next != f.Sold {", "if next == \"\" {"}),
	tested("an adjustment that is answered and not done", redisTests+"TestLifeInRedis",
		testenv.Edit{redisAdjust, "if ARGV[4] == '1' then return", "if ARGV[4] then return"}).inLab(redisReplicas, "A"),
	tested("an adjustment that is made for each repetition", redisTests+"TestLifeInRedis",
		testenv.Edit{redisAdjust, "if kept then return", "if kept == 0 then return"}).inLab(redisRetry, "!"),
	tested("a count of etcd that is written over an adjustment", "./internal/store/etcddb TestEtcdAdjusts",
		testenv.Edit{"internal/store/etcddb/store.go", `clientv3.ModRevision(count), "=", revision`,
			`clientv3.ModRevision(count), ">", revision-1`}).
		inLab([3]string{"etcd-txn", "etcd", "replicas"}, "OL"),
	loaded("returned twice",
		testenv.Edit{holdEnd, "switch item.Quantity -= b.Quantity; {\n\t\t\tcase b.Request != request:",
			"switch item.Quantity -= 0; {\n\t\t\tcase b.Quantity > 0:"},
		testenv.Edit{"migrations/mysql/0004_long_holds_and_parts.sql", "PRIMARY KEY (order_id", "KEY (order_id"}).
		inLab(sqlRetry, "O"),
	// The lab cannot find the next: the primary key of order_return stops the second row, so the repetition gets a 503 and
	// the books stay right.
	tested("a part of an order returned twice", storeTests+"TestLifeInSQL",
		testenv.Edit{holdEnd, "case b.Request != request:", "case b.Request != request || request != \"\":"}),
	tested("a part cancelled twice", storeTests+"TestLifeInSQL",
		testenv.Edit{holdEnd, "c.Request != request, c.Quantity == 0:", "c.Request != request, c.Quantity > 0:"}).
		inLab(sqlRetry, "O"),
	tested("a part that ends the whole reservation", storeTests+"TestLifeInSQL",
		testenv.Edit{holdEnd, "case item.Quantity == held:", "case item.Quantity <= held:"}).
		inLab(sqlRetry, "A"),
	tested("a part that the limit does not get back", redisTests+"TestLifeInRedis",
		testenv.Edit{"internal/store/redisdb/lua/hold_cancel.lua", "{quantity = units, buyer = h.buyer}",
			"{quantity = units}"}),
	tested("a part in Redis is returned twice", redisTests+"TestLifeInRedis",
		testenv.Edit{"internal/store/redisdb/lua/hold_return.lua", "if kept then return {kept} end", ""}).
		inLab(redisRetry, "O"),
	tested("a late payment beyond the buyer's limit", storeTests+"TestLifeInSQL",
		testenv.Edit{holdEnd, "err = t.takeOfBuyer(h.Buyer, item, p)\n\t\t}\n\t\tif errors.Is",
			"err = nil\n\t\t}\n\t\tif errors.Is"}).inLab(sqlExpiry, "B"),
	loaded("a cart gives back its first item only",
		testenv.Edit{holdChange, "for _, item := range h.Items {\n\t\t\tif item.Quantity == 0 { // a line",
			"for _, item := range h.Items[:1] {\n\t\t\tif item.Quantity == 0 { // a line"}).inLab(sqlRetry, "L"),
	loaded("an extension that no sweep sees",
		testenv.Edit{"internal/store/redisdb/lua/hold_extend.lua", "  call('ZADD', KEYS[5], h.expires_us, ARGV[1])\n", ""}).
		inLab(redisExpiry, "L"),
	loaded("a release that does not give the buyer's units back",
		testenv.Edit{bothSQL, "SET units = units - ? WHERE", "SET units = units - 0 * ? WHERE"}).inLab(sqlRetry, "L"),
	loaded("every payment's row says order",
		testenv.Edit{holdEnd, `{true: "refund", false: "order"}`, `{true: "order", false: "order"}`}).inLab(sqlExpiry, "D"),
	loaded("an order without its buyer", testenv.Edit{holdEnd, "null(h.Buyer), h.ID)", "nil, h.ID)"}).
		inLab(sqlRetry, "A"),
}
