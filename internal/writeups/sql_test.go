package writeups_test

import (
	"fmt"
	"testing"

	"lastitem/testkit"
)

// one is a product of which one is left.
var one = []string{
	"CREATE TABLE product_stock (id INT PRIMARY KEY, sku INT NOT NULL, stock INT NOT NULL) ENGINE = InnoDB",
	"INSERT INTO product_stock (id, sku, stock) VALUES (101, 1, 1), (102, 2, 1)",
}

// @Transactional outside, lock inside: the lock is released, and the commit comes after.
func TestUnlockBeforeCommit(t *testing.T) { play(t) }

// The transaction has read something before it waits for the lock: after it has the lock, it still sees the past.
func TestSnapshotBeforeTheLock(t *testing.T) { play(t) }

// The lock excludes, and what its holder reads is older than the lock: a replica has not applied the last commit.
func TestLockIsNewerThanTheRead(t *testing.T) { play(t) }

// REPEATABLE READ does not keep two transactions from writing what each has computed from the same read.
func TestRepeatableReadLosesUpdates(t *testing.T) { play(t) }

// FOR UPDATE outside of a transaction is released with the end of its own statement.
func TestForUpdateWithoutATransaction(t *testing.T) { play(t) }

// FOR UPDATE locks what it scans: by the primary key one row, without an index every one.
func TestForUpdateWithoutAnIndex(t *testing.T) { play(t) }

// FOR UPDATE on a row that is not there: both lock the gap, neither the other, and their INSERTs deadlock.
func TestForUpdateOfAMissingRow(t *testing.T) { play(t) }

// UPDATE ... WHERE stock = what was read: an ABA happens, and harms nobody, as the number is all that the write depends
// on.
func TestCompareTheStockABA(t *testing.T) { play(t) }

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
func TestGetLockBelongsToAConnection(t *testing.T) { play(t) }

// Two carts with the same products in opposite order.
func TestCartsInOppositeOrder(t *testing.T) { play(t) }

// No condition at all, and one that asks for one where the statement takes several.
func TestConditionAboveZero(t *testing.T) { play(t) }

// INSERT IGNORE as the only mark of a request that was handled, in a table without a UNIQUE key.
func TestInsertIgnoreWithoutAUniqueKey(t *testing.T) { play(t) }

// The check-back of a half message reads whether its transaction has committed, while that transaction is at work.
func TestCheckBackOnlyReads(t *testing.T) { play(t) }

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
func TestCancelReturnsTwice(t *testing.T) { play(t) }

// while (true) { SELECT ... FOR UPDATE; if (row != null) return; } on a table without the row: the loop never ends, and
// at REPEATABLE READ its gap lock keeps everybody from inserting the row.
func TestForUpdateLoopsOnAMissingRow(t *testing.T) { play(t) }

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
func TestLeaseSeqInsideTheTransaction(t *testing.T) { play(t) }

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
func TestSmallTableLocksOneRow(t *testing.T) { play(t) }
