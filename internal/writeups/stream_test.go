package writeups_test

import "testing"

// aSale begins a story of an order in MySQL whose message goes to a stream in Redis.
func aSale(t *testing.T) (s *story, sql session, stream, consumer client) {
	s = tell(t)
	_, all := s.redis("A", "C")
	db := s.mysql([]string{"CREATE TABLE orders (id INT PRIMARY KEY) ENGINE = InnoDB",
		"CREATE TABLE outbox (id BIGINT AUTO_INCREMENT PRIMARY KEY, message CHAR(2) NOT NULL, " +
			"published INT NOT NULL DEFAULT 0) ENGINE = InnoDB"}, "A")
	return s, db[0], all[0], all[1]
}

// A message that is sent before its transaction commits is told of an order that may never be.
func TestPublishThenCommit(t *testing.T) {
	s, db, stream, consumer := aSale(t)
	db.exec("ok", "BEGIN")
	db.exec("1 affected", "INSERT INTO orders VALUES (1)")
	stream.do("1-1", "XADD @shipping 1-1 order 1")
	consumer.do("[[1-1 [order 1]]]", "XRANGE @shipping - +")
	db.exec("ok", "ROLLBACK")
	db.value("0", "SELECT COUNT(*) FROM orders WHERE id = 1")
	s.note("order 1 is shipped, and there is no order 1")
}

// A message that is sent after the commit is lost if its sender dies in between. A row of the transaction is not.
func TestCommitThenPublish(t *testing.T) {
	s, db, stream, consumer := aSale(t)
	db.exec("ok", "BEGIN")
	db.exec("1 affected", "INSERT INTO orders VALUES (1)")
	db.exec("ok", "COMMIT")
	s.note("A dies here")
	consumer.do("0", "XLEN @shipping")
	s.note("order 1 stands, and nobody ships it. As a row of its transaction, the message is there for any relay:")
	db.exec("ok", "BEGIN")
	db.exec("1 affected", "INSERT INTO orders VALUES (2)")
	db.exec("1 affected", "INSERT INTO outbox (message) VALUES ('m2')")
	db.exec("ok", "COMMIT")
	db.value("m2", "SELECT message FROM outbox WHERE published = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
	stream.do("1-1", "XADD @shipping 1-1 order 2 message m2")
	s.note("if A dies before it marks the row, m2 is sent again: its consumer keeps m2 in a row of its own transaction")
	db.exec("1 affected", "UPDATE outbox SET published = 1 WHERE message = 'm2'")
}

// A group that begins at $ never delivers what was won before its first consumer started.
func TestGroupFromTheEnd(t *testing.T) { play(t) }

// A consumer's name belongs to one process: whoever has it too is given the same pending entries.
func TestOneConsumerNameTwice(t *testing.T) { play(t) }

// DELCONSUMER throws away what the consumer has pending, also what it was given after the look.
func TestDelConsumerDropsWhatIsPending(t *testing.T) { play(t) }

// MAXLEN drops what nobody has read, and what was read and is not done.
func TestMaxLenDropsWhatNobodyRead(t *testing.T) { play(t) }

// NOACK is at most once: what a dead consumer had read is lost.
func TestNoAckIsAtMostOnce(t *testing.T) { play(t) }

// A unit is given back by two consumers of one ticket.
func TestGivenBackTwice(t *testing.T) { play(t) }

// A count of deliveries rises while the database is away: healthy tickets are given up.
func TestGivenUpByDeliveries(t *testing.T) { play(t) }

// After a failover an entry's id can be another ticket's.
func TestEndByEntryID(t *testing.T) { play(t) }

// A correction of the count that stops at zero forgets the debt.
func TestCorrectionStopsAtZero(t *testing.T) { play(t) }

// An inbox that is asked by SELECT lets two consumers in.
func TestInboxBySelect(t *testing.T) { play(t) }

// A consumer that ignores how many rows its UPDATE took sells what is not there.
func TestUpdateThatTookNothing(t *testing.T) { play(t) }

// A relay that goes on after the last id skips what commits late.
func TestOutboxByLastID(t *testing.T) { play(t) }
