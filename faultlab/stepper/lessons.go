package stepper

import (
	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/say/text"
)

// lessons lists all lessons, the easiest first.
var lessons = []Lesson{
	{
		Name: "sell-twice", Mode: "unsafe", Store: api.Redis, Stock: 1, Way: "abaabb", reached: oversold,
		Title: text.Of("Sell one item twice"),
		Story: text.Of("Two clients want the last item. Each replica reads the stock, compares, writes what is left and " +
			"appends the order: three commands to Redis. You decide whose command goes next."),
		Aim:  text.Of("Two orders, though there was one item."),
		Hint: text.Of("Let both read before either of them writes."),
		Moral: text.Of("Both read 1, and both wrote 0: a lost update. Between a read and the write that relies on it, " +
			"anybody may come. The following lessons are about closing that gap."),
	},
	{
		Name: "lock-out", Mode: "setnx", Store: api.Redis, Stock: 1, Way: "aakb", reached: shut,
		Title: text.Of("Lock everybody out"),
		Story: text.Of("A lock closes the gap: SET NX takes it, DEL releases it, and any request that arrives in between " +
			"is turned away. This lock has no expiry. But machines crash."),
		Aim:  text.Of("Stock is left, its lock belongs to a dead process, and the other client was turned away."),
		Hint: text.Of("Kill the client that holds the lock, before its DEL."),
		Moral: text.Of("Nobody will ever delete this lock, so nobody will ever buy the item. That is why locks have a TTL. " +
			"A TTL has a price, as the next lesson shows."),
	},
	{
		Name: "foreign-lock", Mode: "setnx-ttl", Store: api.Redis, Stock: 3, Way: "aaaaxba", reached: stolen,
		Title: text.Of("Delete somebody else's lock"),
		Story: text.Of("Now the lock has a TTL: SET NX EX. A slow process outlives its lock without noticing, and ends " +
			"with DEL as always. DEL does not ask whose lock it is."),
		Aim:  text.Of("A client deletes the lock of the other while the other still works."),
		Hint: text.Of("Hold one client before its DEL until its lock has expired and the other has taken it."),
		Moral: text.Of("The deleted lock was in use, so a third client could get in, and so on: one slow request can break " +
			"the lock for every request after it. The lock needs to know its owner."),
	},
	{
		Name: "asked-first", Mode: "setnx-owner", Store: api.Redis, Stock: 3, Way: "aaaaaxba", reached: stolen,
		Title: text.Of("Delete it, although it asks first"),
		Story: text.Of("The lock's value names its owner now. A client reads it, compares, and sends DEL only if the lock " +
			"is its own."),
		Aim:  text.Of("A client deletes the lock of the other while the other still works."),
		Hint: text.Of("The question and the DEL are two commands. What can happen between them?"),
		Moral: text.Of("The answer was right when it was given. Check and act must be one step where the data is: compare " +
			"and delete in one Lua script."),
	},
	{
		Name: "charge-twice", Mode: "sql-atomic", Store: api.SQL, Stock: 5, Way: "aaaalaraaaa", reached: charged,
		Title: text.Of("Charge a client twice"),
		Story: text.Of("There is no lock, and none is needed: one UPDATE takes the unit only if there is one, and the " +
			"order is written in the same transaction. Nobody can oversell here. But networks lose answers, and clients ask " +
			"again."),
		Aim:  text.Of("Two orders with the same idempotency key."),
		Hint: text.Of("Lose the answer to COMMIT, and let the client ask again."),
		Moral: text.Of("A lost answer does not say that nothing happened. The client could not know, and asking again was " +
			"reasonable. The missing piece is a row that remembers the key."),
	},
	{
		Name: "before-commit", Mode: "lock-in-tx", Store: api.SQL, Stock: 1, Way: "aaaaaabbbbabbb", reached: oversold,
		Title: text.Of("Sell twice under a lock that never fails"),
		Story: text.Of("A lock with an owner and a watchdog, in Redis; the stock in the database. The lock is acquired and " +
			"released inside the transaction, as in a method annotated with @Transactional."),
		Aim:  text.Of("Two orders, though there was one item. Nobody needs to die, and no lock needs to expire."),
		Hint: text.Of("The lock is released before COMMIT. What does the next holder read?"),
		Moral: text.Of("The next holder reads only committed data, and that is still the old stock. A lock must be held " +
			"until after COMMIT: take it outside the transaction."),
	},
	{
		Name: "watchdog", Mode: "watchdog", Store: api.Redis, Stock: 1, Way: "aaasxbbbbacaa", renews: true, reached: oversold,
		Title: text.Of("Oversell through a watchdog"),
		Story: text.Of("While its process runs, a watchdog renews the lock at a third of its TTL, so a slow holder keeps " +
			"it. The lock has an owner, and a script deletes it only for that owner."),
		Aim:  text.Of("Two orders, though there was one item."),
		Hint: text.Of("The watchdog is in the same process. What stops the process stops it too."),
		Moral: text.Of("A garbage collection, a live migration of the virtual machine, heavy swapping: the whole process " +
			"stands still, including the watchdog, and then goes on with the data that it read before. No lock with a TTL can " +
			"rule that out."),
	},
	{
		Name: "fencing", Mode: "fencing", Store: api.SQL, Stock: 1, Way: "aaxbbaaaabbbb", reached: oversold,
		Title: text.Of("Beat a fencing token"),
		Story: text.Of("Every holder gets a token, a number higher than all before it, and the row refuses a write whose " +
			"token is lower than one it has seen. A stale holder's late write is rejected. The token is checked only on " +
			"writes."),
		Aim:  text.Of("Two orders, though there was one item."),
		Hint: text.Of("The row knows only the tokens of those that have written. Let the stale holder write first."),
		Moral: text.Of("Both read 1, and each token was the highest when its write arrived. The reader must show its token " +
			"as well (fencing-strict), or the write must ask whether anybody has written since the read (lease-seq)."),
	},
	{
		Name: "perfect-lock", Mode: "watchdog", Store: api.SQL, Stock: 1, Way: "xaaaaaaabbbbbb", splits: true, event: lag,
		reached: oversold,
		Title:   text.Of("The lock was perfect"),
		Story: text.Of("A lock in Redis that nobody loses: here it never expires. The database has a replica. Reads " +
			"outside " +
			"transactions go to the replica, transactions to the primary, as a read-write splitter does it. You decide when " +
			"the replica applies what the primary has committed."),
		Aim:  text.Of("Two orders, though there was one item. Nobody dies, and no lock expires."),
		Hint: text.Of("Let the replica stop applying before A commits. What does the next holder read?"),
		Moral: text.Of("The lock did all that a lock can do: at no time did two hold it. But B's read was older than the " +
			"lock. A longer TTL does not help, nor does a lock that is kept until it expires, for a lag has no bound. The " +
			"write must ask the primary (lease-seq, sql-atomic), or the read must stand in the transaction (sql-for-update)."),
		Event: text.Of("The replica stops applying, or catches up"),
	},
	{
		Name: "lease-seq", Mode: "lease-seq", Store: api.SQL, Stock: 1, renews: true, reached: oversold,
		Title: text.Of("Sell one item twice, once more"),
		Story: text.Of("Lock, read the stock and its sequence number, then UPDATE … WHERE lease_seq = ?, with the order in " +
			"the same transaction. Stop, kill, expire and lose what you like."),
		Aim:  text.Of("Two orders, though there was one item."),
		Hint: text.Of("Look at the UPDATE: what must be true for it to change a row?"),
		Moral: text.Of("The write itself asks whether anybody has written since the read, and row and order are committed " +
			"together. The lock only saves wasted work; losing it costs a retry. That is why only one hazard of the ladder " +
			"breaks this mode: the repeated request."),
	},
	{
		Name: "idempotent", Mode: "idempotent", Store: api.SQL, Stock: 5, renews: true, reached: charged,
		Title: text.Of("Charge a client twice, once more"),
		Story: text.Of("The first answer under a key is kept in a row of its own, written in the transaction that takes " +
			"the stock. A client that asks again gets that answer."),
		Aim:  text.Of("Two orders with the same idempotency key."),
		Hint: text.Of("Which of the two is committed without the other: the order or the row of its key?"),
		Moral: text.Of("Neither can be committed without the other, and the key is unique: the second transaction finds " +
			"the row, or waits for it. Wherever an answer is lost, asking again is safe."),
	},
	{
		Name: "cancelled-twice", Mode: "reserve-naive", Store: api.SQL, Stock: 1,
		Way: "aaaabbbbba", reached: returned,
		Asks:  []rig.Kind{rig.Cancel, rig.Cancel},
		Title: text.Of("Give one unit back twice"),
		Story: text.Of("A reservation holds the last unit until its buyer pays. The buyer clicks \"cancel\" twice, and the " +
			"two requests reach two replicas. Each finds the mode of the reservation by a first read, reads the reservation, " +
			"checks that it is held, then writes \"cancelled\" and adds the unit to the stock."),
		Aim:  text.Of("Two units in stock, though there was one."),
		Hint: text.Of("Let both read \"held\" twice (the first read only finds the mode) before either of them writes."),
		Moral: text.Of("Both found the reservation held, so both gave the unit back, and the next two buyers can get it. " +
			"The write must ask for the state that it leaves: UPDATE … WHERE state = 'held'. If it changes no row, somebody " +
			"else was first, and nothing is given back (reserve-sql)."),
	},
	{
		Name: "paid-too-late", Mode: "reserve-naive", Store: api.SQL, Stock: 1,
		Way: "aaaaxbbbbba", reached: promised,
		Asks:  []rig.Kind{rig.Confirm, rig.Reserve},
		Title: text.Of("Pay when it is too late"),
		Story: text.Of("The last unit is reserved for A until a deadline, and A pays. B wants to reserve the unit too. The " +
			"confirm reads the reservation, checks that it is held and not overdue, then writes \"confirmed\" and the order. " +
			"When the deadline passes, the unit goes back to the stock."),
		Aim: text.Of("One unit, two buyers: A has an order for it, and B has reserved it."),
		Hint: text.Of("Let the deadline pass when A has read \"held\" twice (the first read only finds the mode) and has " +
			"not written. Then the unit is there for B."),
		Moral: text.Of("A's check was right when it was made. The write must ask for the state and the deadline that it " +
			"leaves. A payment that comes too late then changes no row, and is refunded (reserve-sql)."),
	},
	{
		Name: "orders-in-flight", Mode: "redis-stream", Store: api.SQL, Stock: 2, Consumers: "a", leaks: 1,
		Way: "aaaaaaxb", reached: reconciled, event: overwrite, equipment: consumers,
		Title: text.Of("Orders in flight"),
		Story: text.Of("Of two units one was won in Redis: its ticket waits in the stream, and A writes the order. The " +
			"other one has leaked: Redis has 0, so that B would be told that it is sold out. A job repairs that, as many " +
			"shops do it by hand: it sets Redis' count to the stock in SQL."),
		Aim: text.Of("B has won the unit that had leaked, and Redis has not promised more units than there are."),
		Hint: text.Of("What does the stock in SQL contain while a ticket waits for its order? Let A commit before the job " +
			"runs."),
		Moral: text.Of("While a ticket is in flight, Redis has given its unit away and SQL has not. Whoever sets the one " +
			"to the other then promises the unit a second time, and the later ticket ends refused. The job is right only " +
			"when nothing is in flight. shop reconcile waits for no such moment: it locks the row, reads both at one moment, " +
			"counts what is in flight, and adds the difference to Redis' count, once."),
		Event: text.Of("The job sets Redis' count to the stock in SQL"),
	},
	{
		Name: "bought-twice", Mode: "redis-stream", Store: api.SQL, Stock: 5, Consumers: "ab",
		Way: "aaaaaakxbbbb", reached: deliveredTwice, event: overdue, equipment: consumers,
		Title: text.Of("Bought twice?"),
		Story: text.Of("A buyer was told \"queued\", and the ticket waits in the stream. A and B are two replicas that " +
			"write orders: each reads the ticket, commits the order, and acknowledges the ticket afterwards. A stream " +
			"delivers at least once: what a dead consumer was given comes again, to the other one."),
		Aim: text.Of("The order is committed and its consumer dies; the other one is given the ticket again, ends it, and " +
			"there is one order."),
		Hint: text.Of("Kill a client after its COMMIT and before the script that ends the ticket. Then let its time pass."),
		Moral: text.Of("Nobody can commit in SQL and acknowledge in Redis at one moment, so a ticket may come again after " +
			"its order. That is why its end is a row of its own, received, in the transaction of the order: the second " +
			"consumer finds it and only acknowledges. A consumer without that row would have written a second order."),
		Event: text.Of("What a consumer was given is overdue: another one may claim it"),
	},
	{
		Name: "lost-ticket", Mode: "redis-stream", Store: api.SQL, Stock: 1, reached: saved, event: masterDies,
		equipment: mortal,
		Title:     text.Of("Keep a promise that was not replicated"),
		Story: text.Of("A and B want the last unit. A win is one script in Redis: unit, ticket and entry of the stream, " +
			"then the buyer is told \"queued\". But the replica of this Redis is behind: it has heard of nothing since the " +
			"stock was set. When the master dies, the replica is promoted, and a consumer then writes the order of every " +
			"ticket that waits."),
		Aim:  text.Of("A ticket that a buyer was told of before the master died has its order."),
		Hint: text.Of("Who knows of the ticket when the master is dead?"),
		Moral: text.Of("Nobody knows of it: the new master never heard of it, and SQL had no order yet. Its unit is for " +
			"sale again, and GET of the ticket says 404. The buyer may ask again with the same key, and wins another ticket " +
			"if a unit is left. SHOP_TICKET_REPLICAS=1 promises only what a replica has: that narrows the hole, and no " +
			"setting closes it."),
		Event: text.Of("The master dies, and the replica is promoted"),
	},
}
