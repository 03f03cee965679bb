package writeups_test

import (
	"fmt"
	"slices"
	"testing"

	"lastitem/internal/testkit"
)

// one is a product of which one is left.
var one = []string{
	"CREATE TABLE product_stock (id INT PRIMARY KEY, sku INT NOT NULL, stock INT NOT NULL) ENGINE = InnoDB",
	"INSERT INTO product_stock (id, sku, stock) VALUES (101, 1, 1), (102, 2, 1)",
}

// @Transactional outside, lock inside: the lock is released, and the commit comes after.
func TestUnlockBeforeCommit(t *testing.T) {
	s, a, b := onMySQL(t, one...)
	for _, who := range []session{a, b} {
		who.exec("ok", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
	}
	a.exec("1 affected", "UPDATE product_stock SET stock = 10 WHERE id = 101")
	a.exec("ok", "BEGIN")
	s.note("A locks")
	a.value("10", "SELECT stock FROM product_stock WHERE id = 101")
	a.exec("1 affected", "UPDATE product_stock SET stock = 9 WHERE id = 101")
	s.note("A unlocks; B, which waited, locks")
	b.exec("ok", "BEGIN")
	b.value("10", "SELECT stock FROM product_stock WHERE id = 101")
	a.exec("ok", "COMMIT")
	b.exec("1 affected", "UPDATE product_stock SET stock = 8 WHERE id = 101")
	b.exec("ok", "COMMIT")
	s.note("there were never two in the section, and still three units were sold and two taken")
}

// The transaction has read something before it waits for the lock: after it has the lock, it still sees the past.
func TestSnapshotBeforeTheLock(t *testing.T) {
	s, a, b := onMySQL(t, one...)
	a.exec("ok", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	a.exec("ok", "BEGIN")
	a.value("2", "SELECT COUNT(*) FROM product_stock")
	s.note("A waits for the lock; B has it, sells, commits and releases")
	b.exec("1 affected", "UPDATE product_stock SET stock = 0 WHERE id = 101")
	s.note("A has the lock")
	a.value("1", "SELECT stock FROM product_stock WHERE id = 101")
	a.value("0", "SELECT stock FROM product_stock WHERE id = 101 FOR UPDATE")
	s.note("the snapshot was taken at the first read. Lock first, then begin; or read the current row with FOR UPDATE")
	a.exec("ok", "ROLLBACK")
}

// REPEATABLE READ does not keep two transactions from writing what each has computed from the same read.
func TestRepeatableReadLosesUpdates(t *testing.T) {
	s, a, b := onMySQL(t, one...)
	a.exec("1 affected", "UPDATE product_stock SET stock = 10 WHERE id = 101")
	for _, who := range []session{a, b} {
		who.exec("ok", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
		who.exec("ok", "BEGIN")
		who.value("10", "SELECT stock FROM product_stock WHERE id = 101")
	}
	a.exec("1 affected", "UPDATE product_stock SET stock = 9 WHERE id = 101")
	a.exec("ok", "COMMIT")
	b.exec("1 affected", "UPDATE product_stock SET stock = 8 WHERE id = 101")
	b.exec("ok", "COMMIT")
	s.note("A sold one unit and B two, but only two were taken: A's update is lost")
	a.exec("1 affected", "UPDATE product_stock SET stock = 2 WHERE id = 101")
	s.note("with the condition in the statement, two units are left:")
	a.exec("1 affected", "UPDATE product_stock SET stock = stock - 1 WHERE id = 101 AND stock >= 1")
	b.exec("0 affected", "UPDATE product_stock SET stock = stock - 2 WHERE id = 101 AND stock >= 2")
}

// FOR UPDATE outside of a transaction is released with the end of its own statement.
func TestForUpdateWithoutATransaction(t *testing.T) {
	s, a, b := onMySQL(t, one...)
	a.value("1", "SELECT stock FROM product_stock WHERE id = 101 FOR UPDATE")
	b.value("1", "SELECT stock FROM product_stock WHERE id = 101 FOR UPDATE NOWAIT")
	s.note("autocommit: A's lock ended with its SELECT")
	a.exec("ok", "BEGIN")
	a.value("1", "SELECT stock FROM product_stock WHERE id = 101 FOR UPDATE")
	b.value("locked by another", "SELECT stock FROM product_stock WHERE id = 101 FOR UPDATE NOWAIT")
	a.exec("ok", "ROLLBACK")
}

// FOR UPDATE locks what it scans: by the primary key one row, without an index every one.
func TestForUpdateWithoutAnIndex(t *testing.T) {
	_, a, b := onMySQL(t, one...)
	for _, who := range []session{a, b} {
		who.exec("ok", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	}
	a.exec("ok", "BEGIN")
	a.value("1", "SELECT stock FROM product_stock WHERE sku = 1 FOR UPDATE")
	b.value("locked by another", "SELECT stock FROM product_stock WHERE id = 102 FOR UPDATE NOWAIT")
	a.exec("ok", "ROLLBACK")
	a.exec("ok", "BEGIN")
	a.value("1", "SELECT stock FROM product_stock WHERE id = 101 FOR UPDATE")
	b.value("1", "SELECT stock FROM product_stock WHERE id = 102 FOR UPDATE NOWAIT")
	a.exec("ok", "ROLLBACK")
}

// FOR UPDATE on a row that is not there: both lock the gap, neither the other, and their INSERTs deadlock.
func TestForUpdateOfAMissingRow(t *testing.T) {
	s, a, b := onMySQL(t, one...)
	for _, who := range []session{a, b} {
		who.exec("ok", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
		who.exec("ok", "BEGIN")
		who.value("no row", "SELECT stock FROM product_stock WHERE id = 500 FOR UPDATE")
	}
	s.note("A and B lock the gap at the same time; now both insert")
	const insert = "INSERT INTO product_stock (id, sku, stock) VALUES (500, 5, 1)"
	first := a.later(insert)
	second := b.run(t.Context(), insert)
	got := map[string]int{second: 1}
	got[first()]++
	s.is("AB", insert, fmt.Sprintf("%d of 2: error 1213", got["error 1213"]), "1 of 2: error 1213")
	s.note("1213 is a deadlock: one transaction is rolled back, and must begin again")
	a.exec("ok", "ROLLBACK")
	b.exec("ok", "ROLLBACK")
}

// UPDATE ... WHERE stock = what was read: an ABA happens, and harms nobody, as the number is all that the write depends
// on.
func TestCompareTheStockABA(t *testing.T) {
	s, a, b := onMySQL(t, one...)
	a.exec("1 affected", "UPDATE product_stock SET stock = 5 WHERE id = 101")
	a.value("5", "SELECT stock FROM product_stock WHERE id = 101")
	b.exec("1 affected", "UPDATE product_stock SET stock = stock - 1 WHERE id = 101")
	b.exec("1 affected", "UPDATE product_stock SET stock = stock + 1 WHERE id = 101")
	a.exec("1 affected", "UPDATE product_stock SET stock = 4 WHERE id = 101 AND stock = 5")
	s.note("5 - 1 + 1 - 1 = 4: right. You need a version if the write depends on more than this number")
}

// A time as the version: two writes within one tick of it look alike.
func TestUpdateTimeAsVersion(t *testing.T) {
	s, a, b := onMySQL(t, "CREATE TABLE product_stock (id INT PRIMARY KEY, stock INT NOT NULL, update_time DATETIME NOT "+
		"NULL) ENGINE = InnoDB",
		"INSERT INTO product_stock VALUES (101, 10, '2026-11-11 00:00:00')")
	for _, who := range []session{a, b} {
		who.value("10", "SELECT stock FROM product_stock WHERE id = 101")
	}
	s.note("A and B have read 10 and 00:00:00, and both write within that second; somebody else restocks in between")
	const set = "UPDATE product_stock SET stock = %s, update_time = '2026-11-11 00:00:00' " +
		"WHERE id = 101 AND update_time = '2026-11-11 00:00:00'"
	for i, write := range []string{"9", "stock + 5", "9"} {
		who := []string{"A", "C", "B"}[i]
		s.is(who, "SET stock = "+write+", update_time = NOW() WHERE id = 101 AND update_time = 00:00:00",
			a.run(t.Context(), fmt.Sprintf(set, write)), "1 affected")
	}
	a.value("9", "SELECT stock FROM product_stock WHERE id = 101")
	s.note("two units sold and five restocked, but only one taken")
}

// A lock is a row, without an end. Its holder dies and it stays; so a job deletes what is old, and deletes a living
// holder's.
func TestReaperOfTheLockTable(t *testing.T) {
	s := tell(t)
	c := s.mysql([]string{
		"CREATE TABLE method_lock (name VARCHAR(64) PRIMARY KEY, " +
			"created DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)) ENGINE = InnoDB",
	}, "A", "B", "C", "job")
	a, b, third, job := c[0], c[1], c[2], c[3]
	const insert, remove = "INSERT INTO method_lock (name) VALUES ('stock:101')",
		"DELETE FROM method_lock WHERE name = 'stock:101'"
	const reap = "DELETE FROM method_lock WHERE created < NOW(6) - INTERVAL 100000 MICROSECOND"
	a.exec("1 affected", insert)
	b.exec("error 1062", insert)
	s.note("if A had been killed, nobody could enter again, so a job deletes rows older than 0.1 s. But A is only slow")
	var reaped string
	testkit.Until(s, "the job deletes the row", func() bool {
		reaped = job.run(t.Context(), reap)
		return reaped != "0 affected"
	})
	s.is("", "job: DELETE FROM method_lock WHERE created < NOW(6) - INTERVAL 0.1 s", reaped, "1 affected")
	b.exec("1 affected", insert)
	s.note("A and B both hold the lock; A ends its work:")
	a.exec("1 affected", remove)
	third.exec("1 affected", insert)
	s.note("A's release deleted B's row: B and C both hold the lock")
}

// GET_LOCK belongs to a connection, and a pool gives you any.
func TestGetLockBelongsToAConnection(t *testing.T) {
	s := tell(t)
	c := s.mysql(nil, "c1", "c2")
	c[0].value("1", "SELECT GET_LOCK(CONCAT(DATABASE(), ':101'), 0)")
	c[1].value("0", "SELECT RELEASE_LOCK(CONCAT(DATABASE(), ':101'))")
	c[1].value("0", "SELECT GET_LOCK(CONCAT(DATABASE(), ':101'), 0)")
	s.note("the pool used another connection for the release: the lock stays until c1 is closed")
	c[0].value("1", "SELECT GET_LOCK(CONCAT(DATABASE(), ':101'), 0)")
	c[0].value("1", "SELECT RELEASE_LOCK(CONCAT(DATABASE(), ':101'))")
	c[0].value("1", "SELECT RELEASE_LOCK(CONCAT(DATABASE(), ':101'))")
	s.note("for c1 the lock was reentrant: it was acquired twice, and must be released twice")
}

// Two carts with the same products in opposite order.
func TestCartsInOppositeOrder(t *testing.T) {
	s, a, b := onMySQL(t, one...)
	const first, second = "UPDATE product_stock SET stock = stock - 1 WHERE id = 101 AND stock >= 1",
		"UPDATE product_stock SET stock = stock - 1 WHERE id = 102 AND stock >= 1"
	a.exec("ok", "BEGIN")
	b.exec("ok", "BEGIN")
	a.exec("1 affected", first)
	b.exec("1 affected", second)
	s.note("now A wants 102 and B wants 101")
	waits := a.later(second)
	got := map[string]int{b.run(t.Context(), first): 1}
	got[waits()]++
	s.is("AB", "the other product", fmt.Sprintf("%d of 2: error 1213", got["error 1213"]), "1 of 2: error 1213")
	a.exec("ok", "ROLLBACK")
	b.exec("ok", "ROLLBACK")
	s.note("both lock in the order of the ids: the second waits at the first row, and no circle arises")
	a.exec("ok", "BEGIN")
	b.exec("ok", "BEGIN")
	a.exec("1 affected", first)
	waits = b.later(first)
	a.exec("1 affected", second)
	a.exec("ok", "COMMIT")
	s.is("B", first, waits(), "0 affected")
	b.exec("ok", "ROLLBACK")
}

// The condition asks for one, the statement takes several.
func TestConditionAboveZero(t *testing.T) {
	_, a, _ := onMySQL(t, one...)
	a.exec("1 affected", "UPDATE product_stock SET stock = stock - 4 WHERE id = 101 AND stock > 0")
	a.value("-3", "SELECT stock FROM product_stock WHERE id = 101")
	a.exec("1 affected", "UPDATE product_stock SET stock = 1 WHERE id = 101")
	a.exec("0 affected", "UPDATE product_stock SET stock = stock - 4 WHERE id = 101 AND stock >= 4")
}

// "Once it is sold out, set a flag in every process and refuse at once": the flag answers, and nobody clears it.
func TestSoldOutFlagOutlivesARestock(t *testing.T) {
	s, a, b := onMySQL(t, one...)
	const take = "UPDATE product_stock SET stock = stock - 1 WHERE id = 101 AND stock >= 1"
	soldOut := false // the flag of A's process
	asks := func() string {
		if soldOut {
			return "sold out"
		}
		return "asks the database"
	}
	a.exec("1 affected", take)
	a.exec("0 affected", take)
	soldOut = true
	s.is("A", "the flag says", asks(), "sold out")
	b.exec("1 affected", "UPDATE product_stock SET stock = stock + 5 WHERE id = 101")
	s.is("A", "the flag says", asks(), "sold out")
	a.value("5", "SELECT stock FROM product_stock WHERE id = 101")
	s.note("five units lie there, and this process refuses every buyer until it is restarted")
	s.note("a flag may choose to read first; only what is read may refuse")
}

// An unpaid order is cancelled by the clock and by its buyer at once, and both put its units back.
func TestCancelReturnsTwice(t *testing.T) {
	s, a, b := onMySQL(t, append(slices.Clone(one), "CREATE TABLE orders (id INT PRIMARY KEY, state VARCHAR(16) NOT "+
		"NULL) ENGINE = InnoDB",
		"INSERT INTO orders VALUES (1, 'unpaid'), (2, 'unpaid')")...)
	for _, who := range []session{a, b} {
		who.value("unpaid", "SELECT state FROM orders WHERE id = 1")
	}
	for _, who := range []session{a, b} {
		who.exec("1 affected", giveBack)
	}
	a.exec("1 affected", "UPDATE orders SET state = 'cancelled' WHERE id = 1")
	a.value("3", stockLeft)
	s.note("one was left and one came back, and there are three: the last unit will be sold twice. The same with order 2:")
	a.exec("1 affected", "UPDATE product_stock SET stock = 1 WHERE id = 101")
	a.exec("1 affected", "UPDATE orders SET state = 'cancelled' WHERE id = 2 AND state = 'unpaid'")
	b.exec("0 affected", "UPDATE orders SET state = 'cancelled' WHERE id = 2 AND state = 'unpaid'")
	a.exec("1 affected", giveBack)
	a.value("2", stockLeft)
	s.note("put the units back in the transaction that changes the state, and only if it changed a row")
}

// while (true) { SELECT ... FOR UPDATE; if (row != null) return; } on a table without the row: the loop never ends, and
// at REPEATABLE READ its gap lock keeps everybody from inserting the row.
func TestForUpdateLoopsOnAMissingRow(t *testing.T) {
	s, a, b := onMySQL(t, "CREATE TABLE distribute_lock (lock_name VARCHAR(64) PRIMARY KEY) ENGINE = InnoDB")
	const find = "SELECT lock_name FROM distribute_lock WHERE lock_name = 'stock' FOR UPDATE"
	const insert = "INSERT INTO distribute_lock VALUES ('stock')"
	a.exec("ok", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	b.exec("ok", "SET SESSION innodb_lock_wait_timeout = 1")
	a.exec("ok", "BEGIN")
	for range 3 {
		a.value("no row", find)
	}
	s.note("A repeats this; B inserts the row that A looks for")
	b.exec("locked by another", insert)
	s.note("A's locking reads lock the gap, so nobody can insert the row that would end A's loop. Insert the rows " +
		"first, and bound the loop")
	a.exec("ok", "ROLLBACK")
	b.exec("1 affected", insert)
	a.exec("ok", "BEGIN")
	a.value("stock", find)
	a.exec("ok", "ROLLBACK")
}

// The isolation level of a connection that has set none.
func TestReadCommittedIsNotTheDefault(t *testing.T) {
	s, a, b := onMySQL(t, one...)
	var name, level string
	// MariaDB calls it tx_isolation until 11.1
	show := "SHOW VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation')"
	testkit.Must(t, a.QueryRowContext(t.Context(), show).Scan(&name, &level))
	s.is("A", "the isolation level of a new connection", level, "REPEATABLE-READ")
	a.exec("ok", "BEGIN")
	a.value("1", "SELECT stock FROM product_stock WHERE id = 101")
	b.exec("1 affected", "UPDATE product_stock SET stock = 0 WHERE id = 101")
	a.value("1", "SELECT stock FROM product_stock WHERE id = 101")
	a.exec("ok", "ROLLBACK")
	s.note("A still reads 1; at READ COMMITTED it would read 0. Both levels oversell if the lock is released before the " +
		"commit")
}

// The lock around the section, the transaction around both: @Transactional on the method that locks and guards with
// lease_seq.
func TestLeaseSeqInsideTheTransaction(t *testing.T) {
	s, a, b := onMySQL(t, "CREATE TABLE product_stock (id INT PRIMARY KEY, stock INT NOT NULL, lease_seq INT NOT NULL) "+
		"ENGINE = InnoDB",
		"INSERT INTO product_stock VALUES (1, 100, 0)")
	const read = "SELECT lease_seq FROM product_stock WHERE id = 1"
	const deduct = "UPDATE product_stock SET stock = stock - 1, lease_seq = lease_seq + 1 WHERE id = 1 AND lease_seq = " +
		"0 AND stock >= 1"
	a.exec("ok", "BEGIN")
	s.note("A locks")
	a.value("0", read)
	a.exec("1 affected", deduct)
	s.note("A unlocks, and has not committed yet; B locks")
	b.exec("ok", "BEGIN")
	b.value("0", read)
	waits := b.later(deduct)
	a.exec("ok", "COMMIT")
	s.is("B", deduct, waits(), "0 affected")
	b.exec("ok", "COMMIT")
	b.value("99", "SELECT stock FROM product_stock WHERE id = 1")
	s.note("nothing is oversold, but B gets \"false\" with 99 units left, as if they were sold out. Put the lock " +
		"outside and the transaction inside")
}

// tryLock(5, 10, SECONDS) in a @Transactional method: after ten seconds unlock() throws in the finally, and Spring
// rolls back what was done well.
func TestLeaseTimeRollsTheTransactionBack(t *testing.T) {
	s, a, _ := onMySQL(t, one...)
	_, c := s.redis("A", "B")
	lock, rival := c[0], c[1]
	// Redisson's, without re-entry; nil is what it answers with IllegalMonitorStateException, a RuntimeException
	const unlock = "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end return redis.call('del', KEYS[1])"
	const stock = "SELECT stock FROM product_stock WHERE id = 101"
	a.exec("ok", "BEGIN")
	lock.do("1", "HSET @lock a 1")
	lock.do("1", "PEXPIRE @lock 10000")
	a.exec("1 affected", "UPDATE product_stock SET stock = stock - 1 WHERE id = 101 AND stock >= 1")
	s.note("A pays, which takes longer than ten seconds")
	lock.expires("lock")
	rival.do("1", "HSET @lock b 1")
	lock.eval("(nil)", "finally: unlock()", unlock, "lock", "a")
	s.note("attempt to unlock lock, not locked by current thread: the exception leaves the method, so Spring rolls back")
	a.exec("ok", "ROLLBACK")
	a.value("1", stock)
	s.note("paid, and the unit is still for sale. Without a lease time the watchdog renews; and unlock after the commit")
}

// A small table: it is the index that decides which rows are locked, not the size.
func TestSmallTableLocksOneRow(t *testing.T) {
	s, a, b := onMySQL(t, "CREATE TABLE product_stock (id INT PRIMARY KEY, sku INT NOT NULL, stock INT NOT NULL) ENGINE "+
		"= InnoDB",
		"INSERT INTO product_stock (id, sku, stock) VALUES (101, 1, 1), (102, 2, 1), (103, 3, 1)")
	for _, who := range []session{a, b} {
		who.exec("ok", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	}
	const other = "SELECT stock FROM product_stock WHERE id = 103 FOR UPDATE NOWAIT"
	try := func(locks, want string) {
		t.Helper()
		a.exec("ok", "BEGIN")
		a.value("1", locks)
		b.value(want, other)
		a.exec("ok", "ROLLBACK")
	}
	try("SELECT stock FROM product_stock WHERE id = 101 FOR UPDATE", "1")
	try("SELECT stock FROM product_stock WHERE sku = 1 FOR UPDATE", "locked by another")
	a.exec("ok", "CREATE INDEX by_sku ON product_stock (sku)")
	try("SELECT stock FROM product_stock WHERE sku = 1 FOR UPDATE", "1")
	s.note("with an index one of the three rows is locked; if the optimizer scans the table, all are:")
	try("SELECT stock FROM product_stock IGNORE INDEX (by_sku) WHERE sku = 1 FOR UPDATE", "locked by another")
}
