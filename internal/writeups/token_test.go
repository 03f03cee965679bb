package writeups_test

import "testing"

// fenced is a table of products whose rows hold the highest token they have seen.
const fenced = "CREATE TABLE product_stock (id INT PRIMARY KEY, stock INT NOT NULL, fence INT NOT NULL)"

// A fencing token that is drawn beside the lock, not with it: the order of the tokens is not the order of the holders.
func TestTokenFromASeparateIncr(t *testing.T) {
	s, a, b := withAB(t)
	a.do("OK", "SET @lock a NX PX 30000")
	s.note("A stops before its INCR")
	a.expires("lock")
	b.do("OK", "SET @lock b NX PX 30000")
	b.do("1", "INCR @fence")
	a.do("2", "INCR @fence")
	s.note("SET NX, then INCR: the previous holder has the higher token, and B's write is refused")
}

// Drawn before the lock it is the other way round: the right holder is refused.
func TestTokenBeforeTheLock(t *testing.T) {
	s, a, b := withAB(t)
	a.do("1", "INCR @fence")
	b.do("2", "INCR @fence")
	b.do("OK", "SET @lock b NX PX 30000")
	s.note("B writes with token 2")
	b.do("1", "DEL @lock")
	a.do("OK", "SET @lock a NX PX 30000")
	s.note("A alone holds the lock, with token 1; the data has seen 2 and refuses A's write")
}

// The token is read when it is needed: whoever asks late is told the number of somebody else.
func TestTokenReadLater(t *testing.T) {
	s, a, b := withAB(t)
	const acquire = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 30000) " +
		"then return redis.call('INCR', KEYS[1] .. ':fence') end return 0"
	a.eval("1", "SET NX and INCR in one script", acquire, "lock", "a")
	a.expires("lock")
	b.eval("2", "SET NX and INCR in one script", acquire, "lock", "b")
	a.do("2", "GET @lock:fence")
	s.note("A asks for its token and gets B's: the acquire itself must return the token")
}

// The fence is checked on the write only. Both reads are of old, the tokens rise, and every write is accepted.
func TestFenceOnTheWriteOnly(t *testing.T) {
	s, a, b := onMySQL(t, fenced, "INSERT INTO product_stock VALUES (101, 1, 0)")
	a.value("1", "SELECT stock FROM product_stock WHERE id = 101")
	s.note("A has token 1, stops, and loses the lock; B gets it with token 2")
	b.value("1", "SELECT stock FROM product_stock WHERE id = 101")
	a.exec("1 affected", "UPDATE product_stock SET stock = 0, fence = 1 WHERE id = 101 AND fence <= 1")
	b.exec("1 affected", "UPDATE product_stock SET stock = 0, fence = 2 WHERE id = 101 AND fence <= 2")
	s.note("A wrote between B's read and B's write, and no higher token had been seen yet: sold twice")
	a.exec("1 affected", "UPDATE product_stock SET stock = 1, fence = 0 WHERE id = 101")
	a.exec("1 affected", "UPDATE product_stock SET fence = 1 WHERE id = 101 AND fence < 1")
	b.exec("1 affected", "UPDATE product_stock SET fence = 2 WHERE id = 101 AND fence < 2")
	a.exec("0 affected", "UPDATE product_stock SET stock = 0 WHERE id = 101 AND fence = 1")
	b.exec("1 affected", "UPDATE product_stock SET stock = 0 WHERE id = 101 AND fence = 2")
	s.note("B's read raises the fence, and the fence refuses A")
}

// A counter that went back, as after a failover, gives a token twice. Not older is not enough: it must be newer.
func TestSameTokenTwice(t *testing.T) {
	s, a, b := onMySQL(t, fenced, "INSERT INTO product_stock VALUES (101, 10, 6)")
	s.note("A has token 7; a failover loses the last INCR; B has token 7 too")
	a.exec("1 affected", "UPDATE product_stock SET fence = 7 WHERE id = 101 AND fence <= 7")
	a.value("10", "SELECT stock FROM product_stock WHERE id = 101")
	b.value("10", "SELECT stock FROM product_stock WHERE id = 101 AND fence <= 7")
	a.exec("1 affected", "UPDATE product_stock SET stock = 9 WHERE id = 101 AND fence = 7")
	b.exec("1 affected", "UPDATE product_stock SET stock = 8 WHERE id = 101 AND fence = 7")
	s.note("neither token is older, so both pass: three units sold, two taken")
	a.exec("1 affected", "UPDATE product_stock SET stock = 10, fence = 6 WHERE id = 101")
	a.exec("1 affected", "UPDATE product_stock SET fence = 7 WHERE id = 101 AND fence < 7")
	b.exec("0 affected", "UPDATE product_stock SET fence = 7 WHERE id = 101 AND fence < 7")
	s.note("the read refuses a token that has been seen")
}

// A holder that writes twice with one token. Where the row wants a higher token for each write, its second write is refused although nobody else
// has the lock; where the same token will do, the second write passes also when a rival has the lock, until the rival has shown its own.
func TestHolderWritesTwice(t *testing.T) {
	s, a, b := onMySQL(t, fenced, "INSERT INTO product_stock VALUES (101, 1, 0)")
	a.exec("1 affected", "UPDATE product_stock SET fence = 100 WHERE id = 101 AND fence < 100")
	a.exec("0 affected", "UPDATE product_stock SET stock = 0, fence = 100 WHERE id = 101 AND fence < 100")
	s.note("100 is not above 100: the rightful holder is refused")
	a.exec("1 affected", "UPDATE product_stock SET fence = 0 WHERE id = 101")
	a.exec("1 affected", "UPDATE product_stock SET fence = 100 WHERE id = 101 AND fence <= 100")
	s.note("A stops, and loses the lock; B gets it with token 101")
	b.value("1", "SELECT stock FROM product_stock WHERE id = 101")
	a.exec("1 affected", "UPDATE product_stock SET stock = 0, fence = 100 WHERE id = 101 AND fence <= 100")
	b.exec("1 affected", "UPDATE product_stock SET stock = 0, fence = 101 WHERE id = 101 AND fence <= 101")
	s.note("100 is not below 100: A passes as well, and the unit is sold twice")
}
