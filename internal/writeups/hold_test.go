package writeups_test

import (
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lastitem/internal/testkit"
	"lastitem/internal/testkit/locktest"
)

// held is a product whose units are all held: hold 1 and hold 2 are A's, each of one unit, until minute 15. Time is a
// number here, so that nobody waits for it.
var held = []string{
	"CREATE TABLE product_stock (id INT PRIMARY KEY, stock INT NOT NULL) ENGINE = InnoDB",
	"CREATE TABLE hold (id INT PRIMARY KEY, buyer CHAR(1) NOT NULL, state VARCHAR(16) NOT NULL, expires INT NOT NULL) " +
		"ENGINE = InnoDB",
	"INSERT INTO product_stock VALUES (101, 0)",
	"INSERT INTO hold VALUES (1, 'A', 'held', 15), (2, 'A', 'held', 15)",
}

const (
	giveBack  = "UPDATE product_stock SET stock = stock + 1 WHERE id = 101"
	takeOne   = "UPDATE product_stock SET stock = stock - 1 WHERE id = 101 AND stock >= 1"
	stockLeft = "SELECT stock FROM product_stock WHERE id = 101"
)

// onHolds begins a story on these tables, with sessions at READ COMMITTED.
func onHolds(t *testing.T, tables []string, names ...string) (*story, []session) {
	s := tell(t)
	all := s.mysql(tables, names...)
	for _, who := range all {
		if got := who.run(t.Context(), "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"); got != "ok" {
			t.Fatalf("isolation level: %s", got)
		}
	}
	return s, all
}

// begin begins a transaction on each.
func begin(all ...session) {
	for _, who := range all {
		who.exec("ok", "BEGIN")
	}
}

// A sweep reads which holds are due, and then expires what it has read. The payment that came in between is lost, and
// its unit is sold again.
func TestSweepReadsThenWrites(t *testing.T) {
	s, c := onHolds(t, held, "A", "S", "B")
	a, sweeper, b := c[0], c[1], c[2]
	const due = "SELECT id FROM hold WHERE state = 'held' AND expires <= 15 ORDER BY id LIMIT 1"
	s.note("minute 14: A pays. Minute 15: S, the sweep, reads what is due before A's commit")
	begin(a)
	a.exec("1 affected", "UPDATE hold SET state = 'paid' WHERE id = 1 AND state = 'held' AND expires > 14")
	sweeper.value("1", due)
	a.exec("ok", "COMMIT")
	sweeper.exec("1 affected", "UPDATE hold SET state = 'expired' WHERE id = 1")
	sweeper.exec("1 affected", giveBack)
	b.exec("1 affected", takeOne)
	a.value("expired", "SELECT state FROM hold WHERE id = 1")
	s.note("A has paid for a unit that B holds now. The same with hold 2, and the sweep names the state that it leaves:")
	const expire = "UPDATE hold SET state = 'expired' WHERE id = 2 AND state = 'held' AND expires <= 15"
	begin(a)
	a.exec("1 affected", "UPDATE hold SET state = 'paid' WHERE id = 2 AND state = 'held' AND expires > 14")
	sweeper.value("2", due)
	waits := sweeper.later(expire)
	a.exec("ok", "COMMIT")
	s.is("S", expire, waits(), "0 affected")
	a.value("paid", "SELECT state FROM hold WHERE id = 2")
	s.note("0 rows: somebody was first, so S gives nothing back")
}

// A seat's hold is over, and the seat is another buyer's; then the first buyer's payment is undone, by the seat's id.
func TestReleaseFreesAnothersSeat(t *testing.T) {
	s, c := onHolds(t, []string{
		"CREATE TABLE seat (id INT PRIMARY KEY, buyer CHAR(1) NULL) ENGINE = InnoDB", "INSERT INTO seat VALUES (7, 'A')",
	}, "A", "S", "B", "C")
	a, sweeper, b, third := c[0], c[1], c[2], c[3]
	const mine, take = "UPDATE seat SET buyer = NULL WHERE id = 7 AND buyer = 'A'",
		"UPDATE seat SET buyer = '%s' WHERE id = 7 AND buyer IS NULL"
	s.note("minute 15: A's hold of seat 7 is over, so S, the sweep, frees it. Minute 16: B has it")
	sweeper.exec("1 affected", mine)
	b.exec("1 affected", fmt.Sprintf(take, "B"))
	s.note("minute 17: A's payment ends with an error, and its undo frees the seat")
	a.exec("1 affected", "UPDATE seat SET buyer = NULL WHERE id = 7")
	third.exec("1 affected", fmt.Sprintf(take, "C"))
	s.note("B and C both have seat 7. An undo that asks whose seat it is:")
	a.exec("0 affected", mine)
	b.value("C", "SELECT buyer FROM seat WHERE id = 7")
	s.note("it leaves the seat to its buyer")
}

// "Paid" arrives when the hold is over, its unit is back, and another buyer has it.
func TestLatePaymentRevivesAHold(t *testing.T) {
	s, c := onHolds(t, append([]string{
		"CREATE TABLE payment (id VARCHAR(16) PRIMARY KEY, outcome VARCHAR(16) NOT NULL) ENGINE = InnoDB",
	}, held...), "A", "B")
	a, b := c[0], c[1]
	begin(a)
	a.exec("1 affected", "UPDATE hold SET state = 'expired' WHERE id = 1 AND state = 'held' AND expires <= 15")
	a.exec("1 affected", giveBack)
	a.exec("ok", "COMMIT")
	b.exec("1 affected", takeOne)
	s.note("minute 15: A's hold 1 has expired, and B has bought its unit. Minute 16: the bank says that A has paid")
	a.exec("1 affected", "UPDATE hold SET state = 'paid' WHERE id = 1")
	a.exec("1 affected", "UPDATE product_stock SET stock = stock - 1 WHERE id = 101")
	a.value("-1", stockLeft)
	s.note("one unit, and two buyers who have paid for it. The same again, but a payment confirms only what is held:")
	a.exec("1 affected", "UPDATE hold SET state = 'expired' WHERE id = 1")
	a.exec("1 affected", "UPDATE product_stock SET stock = 0 WHERE id = 101")
	begin(a)
	a.exec("0 affected", "UPDATE hold SET state = 'paid' WHERE id = 1 AND state = 'held' AND expires > 16")
	a.exec("1 affected", "INSERT INTO payment VALUES ('pay-1', 'refund')")
	a.exec("ok", "COMMIT")
	a.exec("error 1062", "INSERT INTO payment VALUES ('pay-1', 'order')")
	a.value("refund", "SELECT outcome FROM payment WHERE id = 'pay-1'")
	a.value("0", stockLeft)
	s.note("the bank may repeat itself: the payment's row answers. To hold it again is to take it again:")
	a.exec("0 affected", takeOne)
}

// FOR UPDATE SKIP LOCKED finds no free row, so the product is sold out; then the rival rolls back.
func TestSkipLockedSaysSoldOut(t *testing.T) {
	s, c := onHolds(t, []string{
		"CREATE TABLE unit (id INT PRIMARY KEY, hold_id INT NULL, KEY free (hold_id)) ENGINE = InnoDB",
		"INSERT INTO unit VALUES (1, NULL)",
	}, "A", "B")
	a, b := c[0], c[1]
	const take = "SELECT id FROM unit WHERE hold_id IS NULL LIMIT 1 FOR UPDATE SKIP LOCKED"
	const free = "SELECT COUNT(*) FROM unit WHERE hold_id IS NULL"
	begin(a, b)
	a.value("1", take)
	b.value("no row", take)
	s.note("B is told \"sold out\"")
	a.exec("ok", "ROLLBACK")
	a.value("1", free)
	s.note("A's rollback has given the unit back: it is for sale, and B has left")
	begin(a)
	a.value("1", take)
	b.value("no row", take)
	b.value("1", free)
	s.note("a plain count sees the free row: B is told \"busy\", and comes again")
	a.exec("ok", "ROLLBACK")
	b.value("1", take)
	b.exec("1 affected", "UPDATE unit SET hold_id = 7 WHERE id = 1")
	b.exec("ok", "COMMIT")
	a.value("no row", take)
	a.value("0", free)
	s.note("no row, and the count is 0: now it is sold out")
}

// DECR first, and then the check whether this buyer has bought: the buyer is refused, and the click has taken a unit.
func TestDeductBeforeTheBuyerCheck(t *testing.T) {
	s, a, b := withAB(t)
	a.do("OK", "SET @stock 2")
	a.do("1", "DECR @stock")
	a.do("1", "SADD @buyers A")
	s.note("A has bought, and clicks again: first DECR, then the check, as the listing does")
	a.do("0", "DECR @stock")
	a.do("1", "SISMEMBER @buyers A")
	s.note("\"you have bought already\"")
	b.do("-1", "DECR @stock")
	s.note("\"sold out\": of two units one is sold, and nobody can buy the other one")
	a.do("OK", "SET @stock 2")
	a.do("1", "DEL @buyers")
	s.note("the check first, then DECR: a double click passes the check twice")
	a.do("0", "SISMEMBER @buyers A")
	a.do("0", "SISMEMBER @buyers A")
	a.do("1", "DECR @stock")
	a.do("0", "DECR @stock")
	s.note("A has both units. One script that checks both, and then writes both:")
	a.do("OK", "SET @stock 2")
	const script = `if redis.call('sismember', KEYS[2], ARGV[1]) == 1 then return 'bought already' end
if tonumber(redis.call('get', KEYS[1])) < 1 then return 'sold out' end
redis.call('sadd', KEYS[2], ARGV[1])
return redis.call('decr', KEYS[1])`
	buy := func(who client, want string) {
		t.Helper()
		got := locktest.Answer(who.c.Eval(t.Context(), script, []string{s.prefix + "stock", s.prefix + "buyers"},
			who.name).Result())
		s.is(who.name, "EVAL 'SISMEMBER? GET < 1? SADD, DECR'", got, want)
	}
	buy(a, "1")
	buy(a, "bought already")
	buy(b, "0")
}

// The payment fails, the buyer tries again, and the check counts the buyer's own hold.
func TestOwnHoldBlocksTheBuyer(t *testing.T) {
	s, c := onHolds(t, []string{
		"CREATE TABLE product_stock (id INT PRIMARY KEY, stock INT NOT NULL) ENGINE = InnoDB",
		"CREATE TABLE hold (order_id INT PRIMARY KEY, buyer CHAR(1) NOT NULL, units INT NOT NULL, expires INT NOT NULL) " +
			"ENGINE = InnoDB",
		"INSERT INTO product_stock VALUES (101, 1)",
		"INSERT INTO hold VALUES (1, 'A', 1, 15)",
	}, "A", "B")
	a, b := c[0], c[1]
	const available = "SELECT stock - (SELECT COALESCE(SUM(units), 0) FROM hold WHERE order_id <> %d AND expires > 14) " +
		"FROM product_stock WHERE id = 101"
	s.note("A's order 1 holds the last unit until minute 15. Minute 14: the bank refuses A's card")
	a.value("1", fmt.Sprintf(available, 1))
	s.note("the check leaves order 1 out. But A's browser has begun a new order, 2:")
	a.value("0", fmt.Sprintf(available, 2))
	s.note("\"out of stock\", until A's own hold is over. A buyer who holds needs no check, but goes on with that hold:")
	const goOn = "UPDATE hold SET order_id = %d, expires = 29 WHERE buyer = '%s' AND expires > 14"
	a.exec("1 affected", fmt.Sprintf(goOn, 2, "A"))
	b.exec("0 affected", fmt.Sprintf(goOn, 3, "B"))
	b.value("0", fmt.Sprintf(available, 3))
	s.note("A goes on to pay. B holds nothing, so the count decides: out of stock")
}

// An order has taken so many units, and they may come back once.
var taking = []string{
	"CREATE TABLE product_stock (id INT PRIMARY KEY, stock INT NOT NULL) ENGINE = InnoDB",
	"CREATE TABLE orders (id INT PRIMARY KEY, state VARCHAR(16) NOT NULL, taken INT NOT NULL) ENGINE = InnoDB",
}

// An order that has taken nothing yet is cancelled, and its units are put back.
func TestRestockOfWhatWasNeverTaken(t *testing.T) {
	s, c := onHolds(t, slices.Concat(taking, []string{
		"INSERT INTO product_stock VALUES (101, 5)",
		"INSERT INTO orders VALUES (1, 'paying', 0), (2, 'paying', 0), (3, 'paying', 0)",
	}), "A")
	a := c[0]
	const cancel = "UPDATE orders SET state = 'cancelled' WHERE id = %d AND state <> 'cancelled'"
	s.note("this shop takes units when an order is paid; three orders of two units each are not paid yet")
	begin(a)
	a.exec("1 affected", fmt.Sprintf(cancel, 1))
	a.exec("1 affected", "UPDATE product_stock SET stock = stock + 2 WHERE id = 101")
	a.exec("ok", "COMMIT")
	a.value("7", stockLeft)
	s.note("there are five. An order that says what it took gives back just that:")
	a.exec("1 affected", "UPDATE product_stock SET stock = 5 WHERE id = 101")
	cancels := func(id int, back string) {
		t.Helper()
		begin(a)
		a.exec("1 affected", fmt.Sprintf(cancel, id))
		a.exec(back, fmt.Sprintf("UPDATE product_stock SET stock = stock + (SELECT taken FROM orders WHERE id = %d) "+
			"WHERE id = 101", id))
		a.exec("ok", "COMMIT")
		a.value("5", stockLeft)
	}
	cancels(2, "0 affected")
	s.note("order 3 is paid before it is cancelled:")
	begin(a)
	a.exec("1 affected", "UPDATE orders SET state = 'paid', taken = 2 WHERE id = 3 AND state = 'paying'")
	a.exec("1 affected", "UPDATE product_stock SET stock = stock - 2 WHERE id = 101 AND stock >= 2")
	a.exec("ok", "COMMIT")
	cancels(3, "1 affected")
}

// A refund puts the unit back, and so does the cancellation after it: each looks only at the state that it leaves.
func TestRefundThenCancelRestocks(t *testing.T) {
	s, c := onHolds(t, slices.Concat(taking, []string{
		"INSERT INTO product_stock VALUES (101, 98)",
		"INSERT INTO orders VALUES (1, 'paid', 1), (2, 'paid', 1)",
	}), "A")
	a := c[0]
	s.note("of 100 units two are sold. Order 1 is refunded, with \"restock\", and later somebody cancels it:")
	a.exec("1 affected", "UPDATE orders SET state = 'refunded' WHERE id = 1 AND state = 'paid'")
	a.exec("1 affected", giveBack)
	a.exec("1 affected", "UPDATE orders SET state = 'cancelled' WHERE id = 1 AND state <> 'cancelled'")
	a.exec("1 affected", giveBack)
	a.value("100", stockLeft)
	s.note("one order is still sold, so there are 99. taken says what an order has, and each way back clears it:")
	a.exec("1 affected", "UPDATE product_stock SET stock = 99 WHERE id = 101")
	begin(a)
	a.exec("1 affected", "UPDATE orders SET state = 'refunded', taken = 0 WHERE id = 2 AND taken = 1")
	a.exec("1 affected", giveBack)
	a.exec("ok", "COMMIT")
	begin(a)
	a.exec("0 affected", "UPDATE orders SET state = 'cancelled', taken = 0 WHERE id = 2 AND taken = 1")
	a.exec("1 affected", "UPDATE orders SET state = 'cancelled' WHERE id = 2")
	a.exec("ok", "COMMIT")
	a.value("100", stockLeft)
	s.note("both orders are cancelled, and both units are back, once")
}

// The seller reads the stock and writes what is left, all under a lock. The release adds one, and takes no lock.
func TestReleaseIsOverwritten(t *testing.T) {
	s, c := onHolds(t, slices.Concat(held, []string{"UPDATE product_stock SET stock = 5 WHERE id = 101"}), "A", "S")
	a, sweeper := c[0], c[1]
	const lock, unlock = "SELECT GET_LOCK(CONCAT(DATABASE(), ':101'), 0)",
		"SELECT RELEASE_LOCK(CONCAT(DATABASE(), ':101'))"
	const expire = "UPDATE hold SET state = 'expired' WHERE id = %d AND state = 'held' AND expires <= 15"
	a.value("1", lock)
	a.value("5", stockLeft)
	begin(sweeper)
	sweeper.exec("1 affected", fmt.Sprintf(expire, 1))
	sweeper.exec("1 affected", giveBack)
	sweeper.exec("ok", "COMMIT")
	a.exec("1 affected", "UPDATE product_stock SET stock = 4 WHERE id = 101")
	a.value("1", unlock)
	s.note("5 + 1 - 1 = 4: nobody has the unit of hold 1, and nobody can buy it. Now with a write that subtracts:")
	a.value("1", lock)
	a.value("4", stockLeft)
	begin(sweeper)
	sweeper.exec("1 affected", fmt.Sprintf(expire, 2))
	sweeper.exec("1 affected", giveBack)
	sweeper.exec("ok", "COMMIT")
	a.exec("1 affected", takeOne)
	a.value("4", stockLeft)
	a.value("1", unlock)
	s.note("4 + 1 - 1 = 4: right. A product that is sold by writing counts under a lock must refuse holds")
}

// The row of a buyer's limit is there; both clicks of a double click share its lock, and then both want to write it.
func TestInsertIgnoreThenUpdateDeadlocks(t *testing.T) {
	s, c := onHolds(t, []string{
		"CREATE TABLE buyer_units (product_id INT NOT NULL, buyer CHAR(1) NOT NULL, units INT NOT NULL, " +
			"PRIMARY KEY (product_id, buyer)) ENGINE = InnoDB",
		"INSERT INTO buyer_units VALUES (101, 'A', 0)",
	}, "A1", "A2")
	first, second := c[0], c[1]
	const ignore = "INSERT IGNORE INTO buyer_units VALUES (101, 'A', 0)"
	const upsert = "INSERT INTO buyer_units VALUES (101, 'A', 0) ON DUPLICATE KEY UPDATE units = units"
	const count = "UPDATE buyer_units SET units = units + 1 WHERE product_id = 101 AND buyer = 'A' AND units + 1 <= 1"
	s.note("A1 and A2 are two clicks of the same buyer, who may have one unit")
	begin(first, second)
	first.exec("0 affected", ignore)
	second.exec("0 affected", ignore)
	s.note("the row is there: each has a shared lock on it, and now both want to write")
	waits := first.later(count)
	got := map[string]int{second.run(t.Context(), count): 1}
	got[waits()]++
	s.is("", count, fmt.Sprintf("%d of 2: error 1213", got["error 1213"]), "1 of 2: error 1213")
	first.exec("ok", "ROLLBACK")
	second.exec("ok", "ROLLBACK")
	s.note("ON DUPLICATE KEY UPDATE takes the exclusive lock at once, so the second click waits at its first statement:")
	begin(first, second)
	first.exec("0 affected", upsert)
	waits = second.later(upsert)
	first.exec("1 affected", count)
	first.exec("ok", "COMMIT")
	s.is("A2", upsert, waits(), "0 affected")
	second.exec("0 affected", count)
	second.exec("ok", "ROLLBACK")
	first.value("1", "SELECT units FROM buyer_units WHERE product_id = 101 AND buyer = 'A'")
}

// "One for each buyer", counted under a lock for each buyer; the lock is released before COMMIT.
func TestBuyerLimitUnlockedBeforeCommit(t *testing.T) {
	s, c := onHolds(t, []string{
		"CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, buyer INT NOT NULL) ENGINE = InnoDB",
	}, "A1", "A2")
	first, second := c[0], c[1]
	const lock, unlock = "SELECT GET_LOCK(CONCAT(DATABASE(), ':buyer'), 0)",
		"SELECT RELEASE_LOCK(CONCAT(DATABASE(), ':buyer'))"
	const bought, buy = "SELECT COUNT(*) FROM orders WHERE buyer = %d", "INSERT INTO orders (buyer) VALUES (%d)"
	s.note("buyer 7 clicks twice: A1 and A2. The lock is inside the transaction, as under @Transactional")
	for _, click := range c {
		begin(click)
		click.value("1", lock)
		click.value("0", fmt.Sprintf(bought, 7))
		click.exec("1 affected", fmt.Sprintf(buy, 7))
		click.value("1", unlock)
	}
	first.exec("ok", "COMMIT")
	second.exec("ok", "COMMIT")
	first.value("2", fmt.Sprintf(bought, 7))
	s.note("there were never two under the lock, and buyer 7 has two. With the lock around the transaction, buyer 8:")
	first.value("1", lock)
	begin(first)
	first.value("0", fmt.Sprintf(bought, 8))
	first.exec("1 affected", fmt.Sprintf(buy, 8))
	first.exec("ok", "COMMIT")
	first.value("1", unlock)
	second.value("1", lock)
	second.value("1", fmt.Sprintf(bought, 8))
	second.value("1", unlock)
	s.note("or without a lock: a unique index holds even where the lock is lost")
	first.exec("2 affected", "DELETE FROM orders WHERE buyer = 7")
	first.exec("ok", "CREATE UNIQUE INDEX one_each ON orders (buyer)")
	first.exec("1 affected", fmt.Sprintf(buy, 7))
	second.exec("error 1062", fmt.Sprintf(buy, 7))
}

// One hold cannot be released. The loop over all that are due ends there, at each run.
func TestOneBadHoldStopsTheSweep(t *testing.T) {
	s, c := onHolds(t, []string{
		"CREATE TABLE product_stock (id INT PRIMARY KEY, stock INT NOT NULL, on_hold INT UNSIGNED NOT NULL) ENGINE = InnoDB",
		"CREATE TABLE hold (id INT PRIMARY KEY, product_id INT NOT NULL, state VARCHAR(16) NOT NULL) ENGINE = InnoDB",
		"INSERT INTO product_stock VALUES (101, 0, 0), (102, 0, 2)",
		"INSERT INTO hold VALUES (1, 101, 'held'), (2, 102, 'held'), (3, 102, 'held')",
	}, "S")
	sweeper := c[0]
	const release = "UPDATE product_stock p JOIN hold h ON h.product_id = p.id SET p.stock = p.stock + 1, " +
		"p.on_hold = p.on_hold - 1, h.state = 'expired' WHERE h.id = %d AND h.state = 'held'"
	sweep := func(goesOn bool) string {
		t.Helper()
		var ids sql.NullString
		err := sweeper.QueryRowContext(t.Context(), "SELECT GROUP_CONCAT(id ORDER BY id) FROM hold WHERE state = 'held'").
			Scan(&ids)
		testkit.Must(t, err)
		released, failed := 0, 0
		for id := range strings.SplitSeq(ids.String, ",") {
			n, _ := strconv.Atoi(id)
			if got := sweeper.run(t.Context(), fmt.Sprintf(release, n)); got == "2 affected" {
				released++
				continue
			}
			failed++
			if !goesOn {
				break
			}
		}
		return fmt.Sprintf("%d released, %d failed", released, failed)
	}
	s.note("three holds are due; product 101 counts fewer units on hold than hold 1 has")
	sweeper.exec("error 1690", fmt.Sprintf(release, 1))
	for range 2 {
		s.is("S", "for each hold that is due: release; an exception ends the loop", sweep(false), "0 released, 1 failed")
	}
	s.note("however often the sweep runs, holds 2 and 3 stay held. Each hold in a transaction of its own, and a bad one " +
		"is logged and skipped:")
	s.is("S", "for each hold that is due: release, or log and go on", sweep(true), "2 released, 1 failed")
	sweeper.value("2", "SELECT stock FROM product_stock WHERE id = 102")
}
