package writeups_test

import (
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"lastitem/testkit"
	"lastitem/testkit/locktest"
)

// Where a story has minutes, they are numbers in its tables, so that nobody waits for them.

// A sweep reads which holds are due, and then expires what it has read. The payment that came in between is lost, and
// its unit is sold again.
func TestSweepReadsThenWrites(t *testing.T) { play(t) }

// A seat's hold is over, and the seat is another buyer's; then the first buyer's payment is undone, by the seat's id.
func TestReleaseFreesAnothersSeat(t *testing.T) { play(t) }

// "Paid" arrives when the hold is over, its unit is back, and another buyer has it.
func TestLatePaymentRevivesAHold(t *testing.T) { play(t) }

// FOR UPDATE SKIP LOCKED finds no free row, so the product is sold out; then the rival rolls back.
func TestSkipLockedSaysSoldOut(t *testing.T) { play(t) }

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
func TestOwnHoldBlocksTheBuyer(t *testing.T) { play(t) }

// An order that has taken nothing yet is cancelled, and its units are put back.
func TestRestockOfWhatWasNeverTaken(t *testing.T) { play(t) }

// A refund puts the unit back, and so does the cancellation after it: each looks only at the state that it leaves.
func TestRefundThenCancelRestocks(t *testing.T) { play(t) }

// The seller reads the stock and writes what is left, all under a lock. The release adds one, and takes no lock.
func TestReleaseIsOverwritten(t *testing.T) { play(t) }

// The row of a buyer's limit is there; both clicks of a double click share its lock, and then both want to write it.
func TestInsertIgnoreThenUpdateDeadlocks(t *testing.T) { play(t) }

// "One for each buyer", counted under a lock for each buyer; the lock is released before COMMIT.
func TestBuyerLimitUnlockedBeforeCommit(t *testing.T) { play(t) }

// One hold cannot be released. The loop over all that are due ends there, at each run.
func TestOneBadHoldStopsTheSweep(t *testing.T) {
	s := tell(t)
	sweeper := s.mysql([]string{
		"CREATE TABLE product_stock (id INT PRIMARY KEY, stock INT NOT NULL, on_hold INT UNSIGNED NOT NULL) ENGINE = InnoDB",
		"CREATE TABLE hold (id INT PRIMARY KEY, product_id INT NOT NULL, state VARCHAR(16) NOT NULL) ENGINE = InnoDB",
		"INSERT INTO product_stock VALUES (101, 0, 0), (102, 0, 2)",
		"INSERT INTO hold VALUES (1, 101, 'held'), (2, 102, 'held'), (3, 102, 'held')",
	}, "S")[0]
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
