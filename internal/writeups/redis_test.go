package writeups_test

import (
	"testing"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/textbook"
	"lastitem/testkit"
)

// "Redis is single-threaded, so a read and a write need no lock."
func TestSingleThreadIsNoTransaction(t *testing.T) { play(t) }

// "MULTI makes a transaction": its commands do not see each other's answers, so nothing can be decided between them.
func TestMultiWithoutWatchLosesUpdates(t *testing.T) { play(t) }

// GET, compare, DEL: between the comparison and the DEL the key changes hands.
func TestGetThenDel(t *testing.T) {
	s, a, b, c := withABC(t)
	a.do("OK", "SET @lock a NX PX 30000")
	a.do("a", "GET @lock")
	a.expires("lock")
	b.do("OK", "SET @lock b NX PX 30000")
	a.do("1", "DEL @lock")
	c.do("OK", "SET @lock c NX PX 30000")
	s.note("B and C both hold the lock")
	const release = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
	a.eval("0", "compare-and-delete", release, "lock", "a")
	c.do("c", "GET @lock")
}

// try { if (setnx) ... } finally { del }: whoever did not get the lock deletes it too.
func TestFinallyOfTheLoser(t *testing.T) {
	s := tell(t)
	server, _ := s.redis()
	l := textbook.NewSetNXFinally(server, nil)
	enters := func(who, want string) {
		t.Helper()
		got := "entered"
		if _, err := l.Acquire(lock.WithWait(t.Context(), 0), s.prefix+"lock"); err != nil {
			got = "turned away"
		}
		s.is(who, "if (setnx(lock)) { work } finally { del(lock) }", got, want)
	}
	enters("A", "entered")
	enters("B", "turned away")
	enters("C", "entered")
	s.note("A still works; B's finally deleted A's lock")
}

// EXPIRE counts in seconds, PEXPIRE in milliseconds, and neither can tell that you meant the other.
func TestMillisecondsToExpire(t *testing.T) {
	s, a := withA(t)
	a.do("1", "SETNX @lock a")
	a.do("1", "EXPIRE @lock 30000")
	a.do("30000", "TTL @lock")
	s.note("30000 was meant as milliseconds: A dies, and the lock stays for 8 h 20 min")
	a.do("1", "DEL @lock")
	a.do("OK", "SET @lock a NX PX 30")
	testkit.Until(s, "the key is gone", func() bool { return a.quietly("EXISTS @lock") == "0" })
	a.do("-2", "TTL @lock")
	s.note("30 was meant as seconds: the lock is gone while A works")
}

// SETNX, then EXPIRE: a holder that dies in between leaves a lock that never ends.
func TestSetnxThenExpire(t *testing.T) { play(t) }

// SET without NX or KEEPTTL replaces the value and the expiry.
func TestSetDropsTheTTL(t *testing.T) { play(t) }

// The lock from before SET NX PX: the value is the time of its end by the holder's clock, and GETSET takes over.
func TestGetSetWithClientClocks(t *testing.T) { play(t) }

// The thread's id, or its name, as the owner: another process has a thread of that id.
func TestThreadIDIsNoOwner(t *testing.T) {
	s, a, b, c := withABC(t)
	const release = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
	a.do("OK", "SET @lock thread-27 NX PX 30000")
	a.expires("lock")
	b.do("OK", "SET @lock thread-27 NX PX 30000")
	a.eval("1", "compare-and-delete", release, "lock", "thread-27")
	c.do("OK", "SET @lock thread-31 NX PX 30000")
	s.note("A and B are processes: thread 27 of one is not thread 27 of the other, but the values are equal")
}

// DECRBY first, INCRBY back when below zero: nobody oversells, but a smaller request is refused that could have been
// served.
func TestDecrRefusesWhatIsInStock(t *testing.T) { play(t) }

// A request is bound to one segment by its hash, and "sold out" is what that segment says.
func TestSegmentSaysSoldOut(t *testing.T) { play(t) }

// SETNX request id as idempotency: the mark is there before the work is done.
func TestMarkBeforeTheWork(t *testing.T) { play(t) }

// A release that is announced to everybody wakes everybody, and one gets in.
func TestBroadcastWakesAll(t *testing.T) {
	s := tell(t)
	server, c := s.redis("A")
	const waiters = 8
	for range waiters {
		sub := testkit.Closing(t, server.Subscribe(t.Context(), s.prefix+"released"))
		_, err := sub.Receive(t.Context())
		testkit.Must(t, err)
	}
	c[0].do("8", "PUBLISH @released 1")
	won := 0
	for range waiters {
		if ok, err := server.SetNX(t.Context(), s.prefix+"lock", "x", time.Minute).Result(); err == nil && ok {
			won++
		}
	}
	if won != 1 {
		t.Errorf("%d got in, want 1", won)
	}
	s.note("8 woken, 8 SET NX, %d got in: a herd, one per process that waits", won)
}

// The work outlives the TTL. No release script helps, as nothing was released by mistake.
func TestWorkOutlivesTheTTL(t *testing.T) { play(t) }

// "Is it still mine?", asked before the write: the answer is of the past when it arrives.
func TestAskingBeforeTheWrite(t *testing.T) {
	s, a, b := withAB(t)
	a.do("OK", "SET @stock 1")
	a.do("OK", "SET @lock a NX PX 30000")
	a.do("1", "GET @stock")
	a.do("a", "GET @lock")
	s.note("the lock is still A's, and now A stops")
	a.expires("lock")
	b.do("OK", "SET @lock b NX PX 30000")
	b.do("1", "GET @stock")
	b.do("OK", "SET @stock 0")
	a.do("OK", "SET @stock 0")
	s.note("the check passed, and the unit was sold twice")
	const guarded = "if redis.call('GET', KEYS[1]) == ARGV[1] " +
		"then return redis.call('SET', KEYS[1] .. ':stock', 0) end return 'refused'"
	a.eval("refused", "question and write in one script", guarded, "lock", "a")
}

// A widely read listing: sold is counted up while total >= sold.
func TestOffByOneInTheScript(t *testing.T) {
	s, a := withA(t)
	const widely = "local total = tonumber(redis.call('HGET', KEYS[1], 'total')) " +
		"local sold = tonumber(redis.call('HGET', KEYS[1], 'sold')) " +
		"if total >= sold then return redis.call('HINCRBY', KEYS[1], 'sold', 1) end return 'sold out'"
	a.do("2", "HSET @ticket total 2 sold 0")
	a.eval("1", "if total >= sold then HINCRBY sold 1", widely, "ticket")
	a.eval("2", "if total >= sold then HINCRBY sold 1", widely, "ticket")
	a.eval("3", "if total >= sold then HINCRBY sold 1", widely, "ticket")
	a.eval("sold out", "if total >= sold then HINCRBY sold 1", widely, "ticket")
	s.note("two units in stock, three sold: the command is atomic, and wrong every time")
}

// A job that writes the database's count over the live one in Redis, to put right what has drifted.
func TestRefillOverTheCounter(t *testing.T) { play(t) }
