package handoff

import (
	_ "embed"
	"errors"
	"strings"
	"time"

	"lastitem/internal/lock"
)

// ErrUpgrade says that a lock was asked for within a hold of the same key that covers less, as a write within a read. To wait
// would be forever: two readers that both want to write wait for each other. Release the read, write, and check again.
var ErrUpgrade = errors.New("lock: a read cannot become a write")

// ReadWrite is a lock that many readers share, or one writer has. Its two [lock.Locker]s serve the callers of all processes in the
// order in which they reached Redis; readers that follow each other enter together. Nobody overtakes a writer that
// waits, so a stream of readers does not starve it.
//
//	reader A  acquire: in              ... release: the last one out tells B's process
//	writer B     acquire: takes the gate, A is in: waits .. in ... release: the next ones, C and D, are let in
//	reader C        acquire: queues behind B's gate ............... in
//	reader D           acquire: queues ............................ in
//
// The gate is the engine's lock, a writer keeps it while it holds, a reader passes it. Free, either costs two commands; what
// was waited for comes by message, as with [Engine.Fair]. Each reader has an expiry of its own, by the server's clock, so
// that a dead one keeps a writer out for its TTL, whatever the others do.
//
// Through a lease's context a read within a read, and either within a write, is counted and costs no command. A write within
// a read is [ErrUpgrade] at once. Without the context a second read may queue behind a writer who waits for the first.
//
// The fence of a write is higher than that of every read before it, and lower than that of every read after it; readers
// between the same two writes may have the same. So the data can refuse what is stale of either kind.
//
// For a key use either this or [Engine.Handoff] and [Engine.Fair]: these do not wait for readers.
type ReadWrite struct{ e *Engine }

// ReadWrite returns the engine's read-write lock.
func (e *Engine) ReadWrite() ReadWrite { return ReadWrite{e} }

// Read is the lock to share.
func (l ReadWrite) Read() lock.Locker { return modeLocker{l.e, reading} }

// Write is the lock to have alone.
func (l ReadWrite) Write() lock.Locker { return modeLocker{l.e, writing} }

// mode is what a line wants.
type mode uint8

const (
	exclusive mode = iota
	handingOff
	reading
	writing
)

// shares says whether others of the same key may be readers.
func (m mode) shares() bool { return m == reading || m == writing }

// covers says whether a hold of this mode is enough for who asks for the other one within it.
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

var (
	//go:embed lua/rw_admit.lua
	engineRWAdmitSource string
	//go:embed lua/rw_read.lua
	engineRWReadSource string
	//go:embed lua/rw_leave.lua
	engineRWLeaveSource string
	//go:embed lua/rw_write.lua
	engineRWWriteSource string
	//go:embed lua/rw_release.lua
	engineRWReleaseSource string
	//go:embed lua/rw_poll.lua
	engineRWPollSource string
	//go:embed lua/rw_renew.lua
	engineRWRenewSource string

	engineRWRead    = engineRWScript(engineRWReadSource)
	engineRWLeave   = engineRWScript(engineRWLeaveSource)
	engineRWWrite   = engineRWScript(engineRWWriteSource)
	engineRWRelease = engineRWScript(engineRWReleaseSource).withoutTombstone()
	engineRWPoll    = engineRWScript(engineRWPollSource)
	engineRWRenew   = newScript(engineRWRenewSource)
)

// engineRWScript puts rw_admit.lua where source asks for it.
func engineRWScript(source string) *script {
	return engineScript(include(source, "rw_admit.lua", engineRWAdmitSource))
}

// modeScripts are what a line of a mode sends.
type modeScripts struct{ acquire, release, cancel, renew *script }

func (m mode) scripts() modeScripts {
	switch m {
	case reading:
		return modeScripts{engineRWRead, engineRWLeave, engineRWLeave, engineRWRenew}
	case writing:
		return modeScripts{engineRWWrite, engineRWRelease, engineCancel, engineRenew}
	default:
		return modeScripts{engineAcquire, engineRelease, engineCancel, engineRenew}
	}
}

// modeOf tells from a token alone how it is cancelled: a reader's reserves no fencing token.
func modeOf(token string) mode {
	if part := strings.Split(token, "."); len(part) == 4 && part[2] == "0" {
		return reading
	}
	return exclusive
}

// fences is how many fencing tokens a grant reserves: one for each who may hold it in turn, and two for a writer, of which
// it has the second. The first is that of the readers before it, who reserve none.
func (l *line) fences() int {
	switch l.mode {
	case handingOff:
		return l.e.o.Cohort
	case reading:
		return 0
	case writing:
		return 2
	default:
		return 1
	}
}

// firstFence is the first to give out of those that a grant has reserved, of which last is the last.
func (l *line) firstFence(last uint64) uint64 {
	if l.mode == writing {
		return last
	}
	return last - uint64(l.fences()) + 1
}

// heldKey is the key that a hold of l keeps alive.
func (l *line) heldKey() string {
	if l.mode == reading {
		return readersKey(l.key)
	}
	return l.key
}

// The marks of a message that grants something, put before its fence: in as a reader, has the gate and nobody is in, has the
// gate while readers are in. Without one it is the gate, and nothing is said about readers.
const (
	markRead  = "r"
	markAlone = "w"
	markDrain = "d"
	marks     = markRead + markAlone + markDrain
)

// told says whether a message with this mark is all that l needs. Else it asks.
func (l *line) told(mark string) bool {
	switch l.mode {
	case reading:
		return mark == markRead
	case writing:
		return mark == markAlone || mark == markDrain
	default:
		return true
	}
}

// drain lets a writer that has the gate wait until the readers have left. The last one to leave sends a message; should it
// be lost, or a reader be dead, the writer asks again when the first of them expires, or as often as a poll would. That
// also renews the gate, which was confirmed at a.sent for ttl. The mutex is held.
func (e *Engine) drain(l *line, a answer, ttl time.Duration) {
	e.unwatch(l)
	l.phase, l.asked, l.serverTime, l.until = draining, a.sent, a.time, trust(a.sent, ttl)
	e.schedule(&l.alarm, min(e.now()+e.nextPoll(a.ttl), a.sent+ttl*2/5))
	e.expel(l, true)
}

// granted takes a message that told l all that it needs. The mutex is held.
func (e *Engine) granted(l *line, mark string, a answer) {
	if mark == markDrain && l.mode == writing {
		e.drain(l, a, e.claim)
		return
	}
	e.grant(l, a.fence, a.sent, e.claim)
}

// askAgain asks what has become of l's bid, after the answer that is under way, if any. The mutex is held.
func (e *Engine) askAgain(l *line) {
	e.unwatch(l)
	if l.phase == asking {
		l.repeat = true
		return
	}
	e.unschedule(&l.alarm)
	l.phase, l.anew = asking, true
	e.ask(l)
}
