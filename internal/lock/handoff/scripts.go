package handoff

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
)

var (
	//go:embed lua/pass.lua
	enginePassSource string
	//go:embed lua/fence.lua
	engineFenceSource string
	//go:embed lua/acquire.lua
	engineAcquireSource string
	//go:embed lua/release.lua
	engineReleaseSource string
	//go:embed lua/cancel.lua
	engineCancelSource string
	//go:embed lua/poll.lua
	enginePollSource string
	//go:embed lua/renew.lua
	engineRenewSource string
	//go:embed lua/raise.lua
	engineRaiseSource string

	engineAcquire = engineScript(engineAcquireSource)
	engineRelease = engineScript(engineReleaseSource).withoutTombstone()
	engineCancel  = engineScript(engineCancelSource)
	enginePoll    = engineScript(enginePollSource)
	engineRenew   = newScript(engineRenewSource)
	engineRaise   = engineScript(engineRaiseSource).withoutTombstone()
)

// script is one of the engine's.
type script struct {
	*redis.Script
	keys int // how many of scriptKeys it takes, if it takes those of one token
}

func newScript(text string) *script { return &script{redis.NewScript(text), 5} }

// withoutTombstone is a script that does not ask for the last of scriptKeys.
func (s *script) withoutTombstone() *script {
	s.keys--
	return s
}

func include(source, name, part string) string {
	return strings.Replace(source, "-- include "+name+"\n", part, 1)
}

// engineScript puts pass.lua where source includes it: after the commands for a free lock, which are most of the traffic. Before them, its
// functions would cost Redis a quarter more CPU time for a free lock (BenchmarkFreeLock).
func engineScript(source string) *script {
	return newScript(include(include(source, "pass.lua", enginePassSource), "fence.lua", engineFenceSource))
}

// answer is what the scripts say about an attempt.
type answer struct {
	verdict int64  // of the token: 1 = it owns the lock (a writer: readers are in), 2 = a writer, and no reader is in, 0 = it does not, -1 = it has ended
	token   string // of which attempt, if the request was about several
	fence   uint64 // the last one reserved
	ttl     time.Duration
	time    int64         // the server's clock, ms
	sent    time.Duration // when the request was sent, on the engine's clock
	late    bool          // sent more than once: another copy may have had an effect as well, or will
	err     error
}

// newRequest makes a request about one token, with its keys and the first arguments, which are the same for all these scripts. The
// caller adds the rest.
func (e *Engine) newRequest(s *script, m mode, key, token string) *request {
	k := scriptKeys(key, token)
	r := newRequest(s, k[:s.keys]...)
	if m.shares() {
		r.key(readersKey(key))
	}
	return r.add(token, e.ttl, e.route)
}

// decimal writes a number that is not negative as an argument of a script.
func decimal[T int | int64 | uint64](n T) string { return strconv.FormatUint(uint64(n), 10) }

// maxTries is how often a request whose reply was lost is sent: every script has one outcome however often it arrives.
const (
	maxTries = 3
	tryPause = 5 * time.Millisecond // before the second try; four times as long before the third
)

// permanent says that there is no error, or one that would not go away if the request were sent again at once.
func permanent(err error) bool {
	return err == nil || refused(err) || errors.Is(err, redis.ErrClosed) || errors.Is(err, ErrReplicas) || errors.Is(err, ErrVersion)
}

// refused says that the server refuses a request for a reason that only an operator can change: the type of a key, the permissions of the
// user, or the slots of the keys. Before Redis 7 the message of an error within a script begins with the script's name, and the code comes
// after it.
func refused(err error) bool {
	return hasCode(err, "WRONGTYPE", "NOPERM", "NOAUTH", "WRONGPASS", "CROSSSLOT")
}

func hasCode(err error, codes ...string) bool {
	inScript := redis.HasErrorPrefix(err, "Error ") // HasErrorPrefix ignores a leading ERR
	return slices.ContainsFunc(codes, func(code string) bool {
		return redis.HasErrorPrefix(err, code) || inScript && strings.Contains(err.Error(), ": "+code+" ")
	})
}

// again says that the server has not executed a request because it is not ready, or a slot is on its way to
// another node: the request is sent again for as long as its caller waits. All keys of a script must be at one
// node, so that nothing can be done about a lock while its slot moves.
func again(err error) bool {
	return err != nil && slices.ContainsFunc([]string{"TRYAGAIN ", "ASK ", "MOVED ", "CLUSTERDOWN ", "LOADING ", "MASTERDOWN "},
		func(code string) bool { return redis.HasErrorPrefix(err, code) })
}

// againPause is how long to wait after so many such answers.
func againPause(n int) time.Duration { return min(retryPause(min(n, maxTries)), 100*time.Millisecond) }

// versionError returns [ErrVersion] for the refusal of a script, and every other error as it is.
func versionError(err error) error {
	if redis.HasErrorPrefix(err, "LOCKVERSION") {
		return ErrVersion
	}
	return err
}

// do sends a request until it is answered, for at most a few seconds; r.tries is how often.
func (e *Engine) do(r *request) {
	refusals := 0
	for began := e.now(); ; {
		r.tries++
		e.doOnce(r)
		e.noteReply(r.err)
		rest := retryPause(r.tries)
		if again(r.err) {
			r.tries--
			refusals++
			rest = againPause(refusals)
		}
		if permanent(r.err) || r.tries == maxTries || e.now()-began > e.o.CallTimeout {
			return
		}
		_ = lock.Pause(context.Background(), rest, nil)
	}
}

// retryPause is how long to wait after so many tries.
func retryPause(n int) time.Duration { return tryPause << (2*n - 2) }

// parse reads {verdict, fence, PTTL, time, skipped}, or a fence alone.
func (e *Engine) parse(reply any, sent time.Duration, err error) answer {
	a := answer{sent: sent, err: err}
	v, several := reply.([]any)
	switch fence, alone := reply.(int64); {
	case err != nil:
		return a
	case alone:
		a.verdict, a.fence = 1, uint64(fence)
		return a
	case !several || len(v) != 5:
		a.err = fmt.Errorf("lock: engine: unexpected answer %v", reply)
		return a
	}
	if token, ok := v[0].(string); ok {
		a.token = token
	} else {
		a.verdict = number(v[0])
	}
	a.fence, a.ttl, a.time = uint64(number(v[1])), time.Duration(number(v[2]))*time.Millisecond, number(v[3])
	if a.verdict == 0 && a.ttl >= 0 { // PTTL leaves out a part of a millisecond, and 0 is unknown
		a.ttl += time.Millisecond
	}
	e.m.skipped(number(v[4]))
	return a
}

// sendReplicated sends an acquire and, on the same connection, waits until replicas have the write. WAIT counts only the writes of its own
// connection, and is refused inside a script.
func (e *Engine) sendReplicated(key string, r *request) {
	ctx, cancel := context.WithTimeout(context.Background(), e.o.CallTimeout+e.o.ReplicasTimeout)
	defer cancel()
	var node redis.UniversalClient
	if node, r.err = e.node(ctx, key); r.err != nil {
		return
	}
	r.sent = e.now()
	var asked, acked *redis.Cmd
	_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
		asked = r.script.Eval(ctx, p, r.keys, r.args...)
		acked = p.Do(ctx, "WAIT", e.o.Replicas, e.o.ReplicasTimeout.Milliseconds())
		return nil
	})
	r.reply, r.err = asked.Result()
	r.err, r.late = versionError(r.err), e.now()-r.sent >= e.repeatsAfter
	e.moved(r.err)
	if verdict, several := r.reply.([]any); r.err != nil || several && (len(verdict) == 0 || number(verdict[0]) <= 0) {
		return
	}
	if n, _ := acked.Int64(); err != nil || n < int64(e.o.Replicas) {
		r.err = fmt.Errorf("%w: %d of %d", ErrReplicas, n, e.o.Replicas)
	}
}

// sendRelease releases h and, if next is not "", queues that token. released is 1, or 0 if the token of h did not own the
// lock, or -1 if that is because its holder was evicted.
func (e *Engine) sendRelease(h *hold, next string) (released int64, a answer) {
	c, token := h.c, h.token
	if c.mode == reading && h.mayArriveLate {
		next = readTombstone
	}
	r := e.newRelease(c, token, next)
	e.do(r)
	v, _ := r.reply.([]any)
	if r.err != nil || len(v) == 0 {
		return number(r.reply), answer{err: r.err, verdict: -1}
	}
	a = e.parse(v[1:], r.sent, nil)
	a.late = r.late
	return number(v[0]), a
}

// newRelease makes the release of token. The tombstone key that it passes is that of next, the token that the release queues.
func (e *Engine) newRelease(c *contender, token, next string) *request {
	s := c.mode.scripts().release
	if next == "" || c.mode.shares() {
		return e.newRequest(s, c.mode, c.key, token).add(next)
	}
	k := scriptKeys(c.key, next)
	return newRequest(s, k[:]...).add(token, e.ttl, e.route, next)
}

// sendCancel cancels an attempt; if that fails, again later.
func (e *Engine) sendCancel(key, token string) { e.cancelSince(key, token, e.now()) }

// cancelSince cancels an attempt that ended at the time ended. It returns false if that was not answered.
func (e *Engine) cancelSince(key, token string, ended time.Duration) (answered bool) {
	m := modeOf(token)
	r := e.newRequest(m.scripts().cancel, m, key, token).add(cancelTombstone)
	e.do(r)
	if r.err != nil {
		e.cleanLater(key, token, ended, r.err)
	}
	if v, _ := r.reply.([]any); len(v) == 2 {
		e.m.skipped(number(v[1]))
	}
	return r.err == nil || refused(r.err)
}

// How long (ms) a tombstone lasts: of a cancelled attempt, and of a released read whose acquire may arrive once more.
const cancelTombstone, readTombstone = "60000", "10000"

// number reads a number that a script returned as such, or as a string where Lua's would lose digits.
func number(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}
