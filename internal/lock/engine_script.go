package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/engine_pass.lua
	enginePassSource string
	//go:embed lua/engine_acquire.lua
	engineAcquireSource string
	//go:embed lua/engine_release.lua
	engineReleaseSource string
	//go:embed lua/engine_cancel.lua
	engineCancelSource string
	//go:embed lua/engine_poll.lua
	enginePollSource string
	//go:embed lua/engine_renew.lua
	engineRenewSource string
	//go:embed lua/engine_seed.lua
	engineSeedSource string

	engineAcquire = engineScript(engineAcquireSource)
	engineRelease = engineScript(engineReleaseSource)
	engineCancel  = engineScript(engineCancelSource)
	enginePoll    = engineScript(enginePollSource)
	engineRenew   = redis.NewScript(engineRenewSource)
	engineSeed    = redis.NewScript(engineSeedSource)
)

// engineScript puts engine_pass.lua where source asks for it: after what a free lock needs, which is most of the traffic.
func engineScript(source string) *redis.Script {
	return redis.NewScript(strings.Replace(source, "-- include engine_pass.lua\n", enginePassSource, 1))
}

// EngineKeys returns the keys that the engine keeps for a lock in Redis: the lock itself (its owner's token, for as long as
// it is held), the queue, the hash with the fencing counter, and the last releaser. Deleting all but the third is harmless
// while nobody holds or waits; without the third the fence starts anew. The queue and the hash last a week after their last
// use, the last releaser at most a TTL or a minute, and a minute the tombstone of a cancelled attempt, which is not among them.
func EngineKeys(key string) []string {
	tag := key
	if hashTag(key) == "" {
		tag = "{" + key + "}"
	}
	return []string{key, tag + ":queue", tag + ":fence", tag + ":last"}
}

// scriptKeys are EngineKeys and the tombstone of a token, in one allocation each.
func scriptKeys(key, token string) []string {
	keys := EngineKeys(key)
	return append(keys, strings.TrimSuffix(keys[3], ":last")+":ended:"+token)
}

// hashTag is the part of a key that Redis Cluster hashes, "" where it hashes all of it.
func hashTag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, closed := strings.Cut(rest, "}"); closed {
			return tag
		}
	}
	return ""
}

// token names one attempt of this process: who to tell, a number that is never used twice, how many fencing tokens a grant
// reserves, and how many milliseconds a grant by message may stay unanswered.
func (e *Engine) token(number uint64, fences int) string {
	b := make([]byte, 0, 56)
	b = append(append(b, e.id...), '.')
	b = append(strconv.AppendUint(b, number, 36), '.')
	b = append(strconv.AppendInt(b, int64(fences), 10), '.')
	return string(strconv.AppendInt(b, e.claim.Milliseconds(), 10))
}

// numberOf reads the number back, 0 when the token is not one of this process.
func (e *Engine) numberOf(token string) uint64 {
	rest, ours := strings.CutPrefix(token, e.id+".")
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(number, 36, 64)
	if !ours || err != nil {
		return 0
	}
	return n
}

// answer is what the scripts say about an attempt.
type answer struct {
	verdict int64  // 1 the caller's, 0 queued or somebody else's, -1 the token has ended
	token   string // of which attempt, where the call was about several
	fence   uint64 // the last one reserved
	ttl     time.Duration
	time    int64         // the server's clock, ms
	sent    time.Duration // when the call was sent, on the engine's clock
	resent  bool          // an earlier one may have had an effect as well
	err     error
}

// args are the arguments that all scripts with the pass function begin with.
func (e *Engine) args(token string, more ...any) []any {
	all := make([]any, 0, 3+len(more))
	return append(append(all, token, e.o.TTL.Milliseconds(), e.publish), more...)
}

// tries is how often a call whose answer was lost is sent: every script has one outcome however often it arrives.
const (
	tries    = 3
	tryPause = 5 * time.Millisecond // before the second try; four times as long before the third
)

// call sends a script until it is answered, and returns its values.
func (e *Engine) call(ctx context.Context, s *redis.Script, keys []string, args []any) (sent time.Duration, v any, err error) {
	for i := range tries {
		if i > 0 {
			if pause(ctx, tryPause<<(2*i-2), nil) != nil {
				break
			}
		}
		sent = e.now()
		if v, err = s.Run(ctx, e.c, keys, args...).Result(); err == nil || redis.HasErrorPrefix(err, "ERR") || errors.Is(err, redis.ErrClosed) {
			break
		}
	}
	return sent, v, err
}

// sendAcquire asks for the lock, and queues for it where queue is true.
func (e *Engine) sendAcquire(ctx context.Context, key, token string, queue bool, fences int) answer {
	flag := 0
	if queue {
		flag = 1
	}
	keys, args := scriptKeys(key, token), e.args(token, flag, fences)
	if e.o.Replicas > 0 {
		return e.sendReplicated(ctx, key, keys, args)
	}
	sent, v, err := e.call(ctx, engineAcquire, keys, args)
	return e.parse(sent, v, err)
}

// parse reads {verdict, fence, PTTL, time, skipped}, or a fence alone.
func (e *Engine) parse(sent time.Duration, reply any, err error) answer {
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
func (e *Engine) sendReplicated(ctx context.Context, key string, keys []string, args []any) answer {
	node, err := e.node(ctx, key)
	if err != nil {
		return answer{err: err}
	}
	sent := e.now()
	var asked *redis.Cmd
	var acked *redis.Cmd
	_, err = node.Pipelined(ctx, func(p redis.Pipeliner) error {
		asked = engineAcquire.Eval(ctx, p, keys, args...)
		acked = p.Do(ctx, "WAIT", e.o.Replicas, e.o.ReplicasTimeout.Milliseconds())
		return nil
	})
	if asked.Err() != nil {
		return answer{err: asked.Err()}
	}
	a := e.parse(sent, asked.Val(), nil)
	if n, _ := acked.Int64(); a.err == nil && a.verdict == 1 && (err != nil || n < int64(e.o.Replicas)) {
		a.err = fmt.Errorf("%w: %d of %d", ErrReplicas, n, e.o.Replicas)
	}
	return a
}

// sendRelease releases, and queues with next where that is not "". released is 1, or 0 when the lock was not ours.
func (e *Engine) sendRelease(ctx context.Context, key, token, next string) (released int64, a answer) {
	began := e.now() + tryPause/2
	sent, reply, err := e.call(ctx, engineRelease, scriptKeys(key, token), e.args(token, next))
	v, _ := reply.([]any)
	if err != nil || len(v) == 0 {
		return number(reply), answer{err: err, verdict: -1}
	}
	a = e.parse(sent, v[1:], nil)
	a.resent = e.resends || sent > began
	return number(v[0]), a
}

// sendCancel undoes an attempt, later where it fails.
func (e *Engine) sendCancel(key, token string) {
	ctx, cancel := detached(context.Background())
	defer cancel()
	_, reply, err := e.call(ctx, engineCancel, scriptKeys(key, token), e.args(token))
	if err != nil {
		e.owe(debt{key, token})
	}
	if v, _ := reply.([]any); len(v) == 2 {
		e.m.skipped(number(v[1]))
	}
}

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
