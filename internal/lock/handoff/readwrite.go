package handoff

import (
	"errors"
	"strings"
	"time"

	"lastitem/internal/lock"
)

// ErrUpgrade means that Acquire was called within a hold of the same key that includes less, as a write within a read.
// Waiting could be a deadlock: two readers that both want to write wait for each other. Release the read, acquire the
// write, and check the data again.
var ErrUpgrade = errors.New("lock: a read cannot become a write")

// ReadWrite is a lock that many readers share, or one writer holds. Its two [lock.Locker]s serve the callers of all
// processes in the order in which they reached Redis; adjacent readers get in together. Nobody overtakes a waiting
// writer, so a stream of readers does not starve it.
//
//	reader A  acquire: in                ... release: the last reader to leave notifies B's process
//	writer B     acquire: owns the write lock, waits for A .. in ... release: C and D are next, and get in
//	reader C        acquire: queues ................................. in
//	reader D           acquire: queues .............................. in
//
// The write lock is the engine's lock. A writer owns it from before the last readers have left; a reader gets in only
// while it is free. A free lock costs two commands either way. Grants to waiters come by message, as with
// [Engine.Fair]. Each reader has its own expiry, by the server's clock, so a dead reader keeps a writer out for its
// TTL, whatever the other readers do.
//
// Through a lease's context a read within a read, and a read or write within a write, is counted and costs no command.
// A write within a read fails at once with [ErrUpgrade]. Without that context a second read may queue after a writer
// that waits for the first read.
//
// The fence of a write is higher than that of every read before it, and lower than that of every read after it; readers
// between the same two writes may have the same. So the data can refuse stale readers and stale writers.
//
// For a key use either this or [Engine.Handoff] and [Engine.Fair]: these do not wait for readers.
type ReadWrite struct{ e *Engine }

// ReadWrite returns the engine's read-write lock.
func (e *Engine) ReadWrite() ReadWrite { return ReadWrite{e} }

// Read is the lock that readers share.
func (l ReadWrite) Read() lock.Locker { return modeLocker{l.e, reading} }

// Write is the exclusive lock.
func (l ReadWrite) Write() lock.Locker { return modeLocker{l.e, writing} }

// mode is the kind of lock that a contender wants.
type mode uint8

const (
	exclusive mode = iota
	handingOff
	reading
	writing
)

// shares says whether the lock of this mode is a read-write lock.
func (m mode) shares() bool { return m == reading || m == writing }

// covers says whether a hold of this mode includes one of the other mode.
func (m mode) covers(other mode) bool {
	switch m {
	case writing:
		return true
	case reading:
		return other == reading
	default:
		return !other.shares()
	}
}

// modeOf tells from a token how its attempt is cancelled: a reader's reserves no fencing token.
func modeOf(token string) mode {
	if part := strings.Split(token, "."); len(part) == 4 && part[2] == "0" {
		return reading
	}
	return exclusive
}

// fences is how many fencing tokens a grant reserves: one for each holder in turn. A writer reserves two and has the
// second; the first belongs to the readers before it, which reserve none.
func (m mode) fences(cohort int) int {
	switch m {
	case handingOff:
		return cohort
	case reading:
		return 0
	case writing:
		return 2
	default:
		return 1
	}
}

// firstFence returns the first fencing token that a grant gives out; last is the last that it has reserved.
func (c *contender) firstFence(last uint64) uint64 {
	if c.mode == writing {
		return last
	}
	return last - uint64(c.mode.fences(c.e.o.Cohort)) + 1
}

// heldKey is the key that a hold keeps alive.
func (m mode) heldKey(key string) string {
	if m == reading {
		return readersKey(key)
	}
	return key
}

// The marks of a grant message, before its fence: a read, the write lock while no reader is in, the write lock while
// readers are in. Without a mark the message grants the lock, and says nothing about readers.
const (
	markRead  = "r"
	markAlone = "w"
	markDrain = "d"
	// markEvicted takes the lock away: see force.go. The other words of the message are as in a grant.
	markEvicted = "x"
	marks       = markRead + markAlone + markDrain + markEvicted
)

// sufficient says whether a message with this mark tells a contender all that it needs. Otherwise it sends an acquire.
func (m mode) sufficient(mark string) bool {
	switch m {
	case reading:
		return mark == markRead
	case writing:
		return mark == markAlone || mark == markDrain
	default:
		return true
	}
}

// drain has a writer that owns the write lock wait until the readers have left. The last reader to leave sends a
// message. If it is lost, or a reader is dead, another acquire finds out, when the first reader expires or as often as
// a poll would. That also renews the write lock, which was confirmed at a.sent for ttl. The mutex is held.
func (c *contender) drain(because event, a answer, ttl time.Duration) {
	e := c.e
	e.pollers.unwatch(c)
	c.setState(draining, because)
	c.confirmedAt, c.serverTime, c.validUntil = a.sent, a.time, validUntil(a.sent, ttl)
	e.agenda.schedule(&c.alarm, min(e.now()+e.pollers.next(a.ttl), a.sent+ttl*2/5))
	c.rejectOverdue(true)
}

// onGrant handles a message that is sufficient for c. The mutex is held.
func (c *contender) onGrant(mark string, a answer) {
	if mark == markDrain && c.mode == writing {
		c.drain(byMessage, a, c.grantTimeout())
		return
	}
	c.grant(byMessage, a.fence, a.sent, c.e.grantTimeout)
}

// reacquire sends another acquire for c's token, after the reply to the one that is in flight, if any. The mutex is
// held.
func (c *contender) reacquire(because event) {
	c.e.pollers.unwatch(c)
	if c.state == asking {
		c.acquireAgain = true
		return
	}
	c.e.agenda.unschedule(&c.alarm)
	c.setState(asking, because)
	c.sendAnotherAcquire()
}
