package handoff

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/redisbatch"
)

// clock is the engine's: monotonic, and half the size of a time.Time.
type clock struct{ epoch time.Time }

func (c clock) now() time.Duration { return time.Since(c.epoch) }

// server is the Redis deployment that an engine sends its scripts to.
type server struct {
	clock
	c            redis.UniversalClient
	o            *Options
	publish      string // PUBLISH, or SPUBLISH in a cluster, whose servers know their own subscribers only
	route        string // publish and the prefix of all channels, for the scripts
	ttl          string // in ms
	batches      *redisbatch.Batcher
	repeatsAfter time.Duration // the client may send a request again so long after it; never if it does not repeat
	onReply      func(error)   // is told the outcomes of what do sends
	m            *meter
}

// cluster says whether the deployment is a Redis Cluster.
func (s *server) cluster() bool { return s.publish == "SPUBLISH" }

const never = time.Duration(math.MaxInt64)

// mayRepeat notes when the client sends again, on its own, what was not answered: after the shorter of these pauses.
func (s *server) mayRepeat(retries int, minPause, maxPause time.Duration) {
	s.repeatsAfter = never
	if retries > 0 {
		s.repeatsAfter = min(minPause, maxPause)
	}
}

// request is one request to run an engine script, and its outcome.
type request struct {
	script *script
	keys   []string
	args   []any
	limit  time.Duration // if not 0, the request goes alone and has this limit
	token  string        // of an acquire
	queue  bool          // whether that acquire queues

	sent  time.Duration // on the engine's clock
	tries int
	reply any
	err   error
	late  bool // a copy of it may arrive after its answer
}

// newRequest is a request to run s with keys.
func newRequest(s *script, keys ...string) *request { return (&request{script: s}).key(keys...) }

// key adds keys.
func (r *request) key(keys ...string) *request {
	r.keys = append(r.keys, keys...)
	return r
}

// add adds arguments.
func (r *request) add(args ...string) *request {
	for _, arg := range args {
		r.args = append(r.args, arg)
	}
	return r
}

// answer is what the scripts say about an attempt.
type answer struct {
	// of the token: 1 = it owns the lock (a writer: readers are in), 2 = a writer, and no reader is in, 0 = it does not,
	// -1 = it has ended
	verdict int64
	token   string // of which attempt, if the request was about several
	fence   uint64 // the last one reserved
	ttl     time.Duration
	time    int64         // the server's clock, ms
	sent    time.Duration // when the request was sent, on the engine's clock
	late    bool          // sent more than once: another copy may have had an effect as well, or will
	err     error
}

// newRequest makes a request about tokens of one key, with its keys and the first arguments, which are the same for all
// these scripts; ttl is what a grant gets, in ms. The caller adds the rest.
func (s *server) newRequest(script *script, m mode, ttl, key string, tokens ...string) *request {
	k := scriptKeys(key, tokens[0])
	r := newRequest(script, k[:script.keys]...)
	for _, token := range tokens[1:] {
		r.key(scriptKeys(key, token)[4])
	}
	if m.shares() {
		r.key(readersKey(key))
	}
	return r.add(tokens[0], ttl, s.route).add(tokens[1:]...)
}

// send sends a request and returns before the reply arrives, which then is called with.
func (s *server) send(r *request, then func(r *request)) *redisbatch.Call {
	sent := r.toBatch()
	s.batches.Go(sent, func() {
		s.complete(r, sent)
		then(r)
	})
	return sent
}

func (r *request) toBatch() *redisbatch.Call {
	return &redisbatch.Call{Script: r.script.Script, Keys: r.keys, Args: r.args, Limit: r.limit}
}

func (s *server) complete(r *request, sent *redisbatch.Call) {
	r.reply, r.err, r.sent = sent.Reply, versionError(sent.Err), sent.Sent.Sub(s.epoch)
	r.late = r.late || r.tries > 1 || time.Since(sent.Began) >= s.repeatsAfter
}

// do sends a request until it is answered, for at most a few seconds; r.tries is how often. It may also wait for the
// other requests of its batch.
func (s *server) do(r *request) {
	refusals := 0
	for began := s.now(); ; {
		r.tries++
		sent := r.toBatch()
		s.batches.Do(sent)
		s.complete(r, sent)
		s.onReply(r.err)
		rest := retryPause(r.tries)
		if again(r.err) {
			r.tries--
			refusals++
			rest = againPause(refusals)
		}
		if permanent(r.err) || r.tries == maxTries || s.now()-began > s.o.CallTimeout {
			return
		}
		_ = lock.Pause(context.Background(), rest, nil)
	}
}

// retryPause is how long to wait after so many tries.
func retryPause(n int) time.Duration { return tryPause << (2*n - 2) }

// parse reads {verdict, fence, PTTL, time, skipped}, or a fence alone.
func (s *server) parse(reply any, sent time.Duration, err error) answer {
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
	s.m.skipped(number(v[4]))
	return a
}

// sendReplicated sends an acquire and, on the same connection, waits until replicas have the write. WAIT counts only
// the writes of its own connection, and is refused inside a script.
func (s *server) sendReplicated(key string, r *request) {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.CallTimeout+s.o.ReplicasTimeout)
	defer cancel()
	var node redis.UniversalClient
	if node, r.err = s.node(ctx, key); r.err != nil {
		return
	}
	r.sent = s.now()
	var asked, acked *redis.Cmd
	_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
		asked = r.script.Eval(ctx, p, r.keys, r.args...)
		acked = p.Do(ctx, "WAIT", s.o.Replicas, s.o.ReplicasTimeout.Milliseconds())
		return nil
	})
	r.reply, r.err = asked.Result()
	r.err, r.late = versionError(r.err), s.now()-r.sent >= s.repeatsAfter
	s.moved(r.err)
	if verdict, several := r.reply.([]any); r.err != nil || several && (len(verdict) == 0 || number(verdict[0]) <= 0) {
		return
	}
	if n, _ := acked.Int64(); err != nil || n < int64(s.o.Replicas) {
		r.err = fmt.Errorf("%w: %d of %d", ErrReplicas, n, s.o.Replicas)
	}
}

// moved makes the client of a cluster reload which node has which slot, if err says that another node has the key.
func (s *server) moved(err error) {
	if c, ok := s.c.(*redis.ClusterClient); ok && redis.HasErrorPrefix(err, "MOVED") {
		c.ReloadState(context.Background())
	}
}

// node returns the client of the master that has key.
func (s *server) node(ctx context.Context, key string) (redis.UniversalClient, error) {
	if c, ok := s.c.(*redis.ClusterClient); ok {
		return c.MasterForKey(ctx, key)
	}
	return s.c, nil
}

// maxTries is how often a request whose reply was lost is sent: every script has one outcome however often it arrives.
const (
	maxTries = 3
	tryPause = 5 * time.Millisecond // before the second try; four times as long before the third
)

// permanent says that there is no error, or one that would not go away if the request were sent again at once.
func permanent(err error) bool {
	return err == nil || refused(err) || errors.Is(err, redis.ErrClosed) || errors.Is(err, ErrReplicas) ||
		errors.Is(err, ErrVersion)
}

// refused says that the server refuses a request for a reason that only an operator can change: the type of a key, the
// permissions of the user, or the slots of the keys. Before Redis 7 the message of an error within a script begins with
// the script's name, and the code comes after it.
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
	return beginsWith(err, "TRYAGAIN ", "ASK ", "MOVED ", "CLUSTERDOWN ", "LOADING ", "MASTERDOWN ")
}

// beginsWith says whether an answer of the server begins with one of these.
func beginsWith(err error, codes ...string) bool {
	return slices.ContainsFunc(codes, func(code string) bool { return redis.HasErrorPrefix(err, code) })
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

// decimal writes a number that is not negative as an argument of a script.
func decimal[T int | int64 | uint64](n T) string { return strconv.FormatUint(uint64(n), 10) }

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
