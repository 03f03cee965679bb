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

	"lastitem/internal/lock/lease"
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

// engineScript puts pass.lua where source includes it: after the commands for a free lock, which are most of the traffic.
func engineScript(source string) *script {
	return newScript(include(include(source, "pass.lua", enginePassSource), "fence.lua", engineFenceSource))
}

// answer is what the scripts say about an attempt.
type answer struct {
	verdict int64  // 1 the caller's, 2 a writer's and no reader is in, 0 queued or somebody else's, -1 the token has ended
	token   string // of which attempt, where the call was about several
	fence   uint64 // the last one reserved
	ttl     time.Duration
	time    int64         // the server's clock, ms
	sent    time.Duration // when the call was sent, on the engine's clock
	resent  bool          // an earlier one may have had an effect as well
	err     error
}

// newCall makes a call of a script about one token, with its keys and the first arguments, which are the same for all these scripts. The
// caller adds the rest; the last argument is always keep.
func (e *Engine) newCall(s *script, m mode, key, token string) *call {
	k := scriptKeys(key, token)
	c := newCall(s, k[:s.keys]...)
	if m.shares() {
		c.key(readersKey(key))
	}
	return c.add(token, e.ttl, e.publish)
}

// decimal writes a number that is not negative as an argument of a script.
func decimal[T int | int64 | uint64](n T) string { return strconv.FormatUint(uint64(n), 10) }

// tries is how often a call whose answer was lost is sent: every script has one outcome however often it arrives.
const (
	tries    = 3
	tryPause = 5 * time.Millisecond // before the second try; four times as long before the third
)

// lasting says that there is no error, or one that would not go away if the call were sent again at once.
func lasting(err error) bool {
	return err == nil || refused(err) || errors.Is(err, redis.ErrClosed) || errors.Is(err, ErrReplicas)
}

// refused says that the server refuses a call for a reason that only an operator can change: the type of a key, the permissions of the
// user, or the slots of the keys. Before Redis 7 the message of an error within a script begins with the script's name, and the code comes
// after it.
func refused(err error) bool {
	inScript := redis.HasErrorPrefix(err, "Error ") // HasErrorPrefix ignores a leading ERR
	return slices.ContainsFunc([]string{"WRONGTYPE", "NOPERM", "NOAUTH", "WRONGPASS", "CROSSSLOT"}, func(code string) bool {
		return redis.HasErrorPrefix(err, code) || inScript && strings.Contains(err.Error(), ": "+code+" ")
	})
}

// call sends a script until it is answered, for at most a few seconds; c.tries is how often.
func (e *Engine) call(c *call) {
	for began := e.now(); ; {
		c.tries++
		e.do(c)
		e.heard(c.err)
		if lasting(c.err) || c.tries == tries || e.now()-began > lease.CleanupTimeout {
			return
		}
		_ = lease.Pause(context.Background(), retryAfter(c.tries), nil)
	}
}

// retryAfter is how long to wait after so many tries.
func retryAfter(n int) time.Duration { return tryPause << (2*n - 2) }

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
	e.m.skipped(number(v[4]))
	return a
}

// sendReplicated asks and, on the same connection, waits until replicas have what was written. WAIT answers for the
// connection that it is sent on, and is refused inside a script.
func (e *Engine) sendReplicated(key string, c *call) {
	ctx, cancel := context.WithTimeout(context.Background(), lease.CleanupTimeout+e.o.ReplicasTimeout)
	defer cancel()
	var node redis.UniversalClient
	if node, c.err = e.node(ctx, key); c.err != nil {
		return
	}
	c.sent = e.now()
	var asked, acked *redis.Cmd
	_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
		asked = c.script.Eval(ctx, p, c.keys, c.args...)
		acked = p.Do(ctx, "WAIT", e.o.Replicas, e.o.ReplicasTimeout.Milliseconds())
		return nil
	})
	c.reply, c.err = asked.Result()
	e.moved(c.err)
	if verdict, several := c.reply.([]any); c.err != nil || several && (len(verdict) == 0 || number(verdict[0]) <= 0) {
		return
	}
	if n, _ := acked.Int64(); err != nil || n < int64(e.o.Replicas) {
		c.err = fmt.Errorf("%w: %d of %d", ErrReplicas, n, e.o.Replicas)
	}
}

// sendRelease releases, and queues with next where that is not "". released is 1, or 0 when the lock was not ours.
func (e *Engine) sendRelease(l *line, token, next string) (released int64, a answer) {
	if l.mode == reading && (l.strays || e.resends) {
		next = rememberRead
	}
	c := e.newRelease(l, token, next)
	e.call(c)
	v, _ := c.reply.([]any)
	if c.err != nil || len(v) == 0 {
		return number(c.reply), answer{err: c.err, verdict: -1}
	}
	a = e.parse(v[1:], c.sent, nil)
	a.resent = e.resends || c.tries > 1
	return number(v[0]), a
}

// newRelease makes the release of token. The tombstone key that it passes is that of next, the token that the release queues.
func (e *Engine) newRelease(l *line, token, next string) *call {
	s := l.mode.scripts().release
	if next == "" || l.mode.shares() {
		return e.newCall(s, l.mode, l.key, token).add(next, e.keep)
	}
	k := scriptKeys(l.key, next)
	return newCall(s, k[:]...).add(token, e.ttl, e.publish, next, e.keep)
}

// sendCancel undoes an attempt, later where it fails.
func (e *Engine) sendCancel(key, token string) { e.cancelSince(key, token, e.now()) }

// cancelSince cancels an attempt that ended at the time ended.
func (e *Engine) cancelSince(key, token string, ended time.Duration) {
	m := modeOf(token)
	c := e.newCall(m.scripts().cancel, m, key, token).add(rememberCancel, e.keep)
	e.call(c)
	if c.err != nil {
		e.cleanLater(key, token, ended, c.err)
	}
	if v, _ := c.reply.([]any); len(v) == 2 {
		e.m.skipped(number(v[1]))
	}
}

// How long (ms) a token is remembered as ended: of a cancelled attempt, and of a read whose acquire may arrive once more.
const rememberCancel, rememberRead = "60000", "10000"

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
