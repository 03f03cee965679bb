package handoff_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// said is an error reply of a server.
type said string

func (s said) Error() string { return string(s) }
func (said) RedisError()     {}

// refusing is a process whose scripts the server answers with an error while there is one.
func refusing(t *testing.T, w *link, o handoff.Options) (*handoff.Engine, *atomic.Pointer[said]) {
	var refusal atomic.Pointer[said]
	c := w.client()
	c.AddHook(locktest.SendHook{Name: "evalsha", Send: func(_ context.Context, send func() error) error {
		if err := refusal.Load(); err != nil {
			return *err
		}
		return send()
	}})
	return w.processOn(t, c, o), &refusal
}

// A server that is not ready, or whose slot moves, is asked again: for an acquire until the wait is over, for a release
// within the time for a call. A waiter's polls may be refused for as long as it waits.
func TestEngineAsksAgain(t *testing.T) {
	for _, code := range []string{"TRYAGAIN", "ASK", "MOVED", "CLUSTERDOWN", "LOADING", "MASTERDOWN"} {
		for _, name := range allLocks {
			inBubble(t, code+"/"+name, func(t *testing.T) {
				m, links := network(t, 2)
				e, refusal := refusing(t, links[0], handoff.Options{})
				l, rival, not := pick(e, name), links[1].process(t, handoff.Options{}).ReadWrite().Write(), said(code+" not now")
				locktest.Warm(t, l, "k{1}")
				refused := func(d time.Duration, f func()) {
					refusal.Store(&not)
					f()
					time.Sleep(d)
					refusal.Store(nil)
				}
				start := time.Now()
				refused(0, func() {
					_, err := l.Acquire(lock.WithWait(t.Context(), time.Second), "k{1}")
					if took := time.Since(start); !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), code) ||
						took < time.Second || took > 1200*time.Millisecond {
						t.Errorf("Acquire = %v after %s, want ErrUnavailable with the answer after 1s", err, took)
					}
				})
				var got chan lock.Lease
				var failed chan error
				obtained := func() (lease lock.Lease) {
					select {
					case lease = <-got:
					case err := <-failed:
						t.Fatalf("Acquire = %v", err)
					}
					return lease
				}
				refused(5*time.Second, func() { got, failed = waits(t.Context(), l, "k{1}") })
				held := obtained()
				refused(1500*time.Millisecond, func() { go func() { locktest.Release(t, held) }() })
				synctest.Wait()
				held = locktest.Obtain(t, rival, "k{1}")
				got, failed = waits(t.Context(), l, "k{1}")
				refused(20*time.Second, func() {})
				locktest.Release(t, held)
				released(t, obtained())
				nothingLeft(t, m, "k{1}")
			})
		}
	}
}

// A loop that repeats can tell what never heals from what may, and what was never sent.
func TestEngineErrors(t *testing.T) {
	for answer, final := range map[said]bool{
		"WRONGTYPE Operation against a key": true, "NOPERM no": true, "CROSSSLOT Keys": true, "TRYAGAIN later": false,
		"ERR The user executing the script can't run this command": true, "ERR ACL failure in script: User u": true,
		"OOM command not allowed": false,
	} {
		synctest.Test(t, func(t *testing.T) {
			_, links := network(t, 1)
			e, refusal := refusing(t, links[0], handoff.Options{})
			refusal.Store(&answer)
			_, err := e.Fair().Acquire(lock.WithWait(t.Context(), 0), "k")
			if !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, handoff.ErrRefused) != final {
				t.Errorf("%s: Acquire = %v, want ErrUnavailable, and ErrRefused: %t", answer, err, final)
			}
			refusal.Store(nil)
			ages := lock.WithLease(t.Context(), 200*365*24*time.Hour)
			_, err = e.Fair().Acquire(ages, "k")
			testkit.IsError(t, err, lock.ErrLeaseTime, "Acquire for 200 years")
		})
	}
	if !errors.Is(handoff.ErrClosed, lock.ErrUnavailable) {
		t.Error("ErrClosed is not ErrUnavailable")
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, MaxRedirects: -1})
	defer c.Close()
	e, prefixed := engine(t, c, handoff.Options{}), engine(t, c, handoff.Options{Prefix: "p:"})
	for key, want := range map[string][2]bool{
		"": {true, true}, "{}": {true, false}, "{}x": {true, false}, "a{}b": {true, false}, "a}b": {true, false},
		"a": {}, "a{": {}, "a{b}": {}, "}a{b}": {},
	} {
		for i, e := range []*handoff.Engine{e, prefixed} {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := e.Fair().Acquire(ctx, key); errors.Is(err, handoff.ErrKey) != want[i] {
				t.Errorf("Acquire(%q), prefix: %t, = %v, want ErrKey: %t", key, i == 1, err, want[i])
			}
		}
	}
}

// Each right that the engine needs, and a policy that evicts locks, is named at the start; and a waiter without
// channels hears of it at once.
func TestEngineCheck(t *testing.T) {
	t.Parallel()
	node := testenv.RedisNodes(t, 1)[0]
	admin := connect(t, options(t, node))
	do := func(t *testing.T, args ...any) {
		t.Helper()
		testkit.Must(t, admin.Do(t.Context(), args...).Err())
	}
	for name, test := range map[string]struct {
		rules []any
		want  string // of the error; "" = there is none
	}{
		"documented": {[]any{
			"resetchannels", "&lock:engine:*", "-@all", "+@connection", "+@read", "+@write", "+@scripting", "+@pubsub", "+time",
		}, ""},
		"no channel":  {[]any{"resetchannels"}, "subscribe to lock:engine:"},
		"no publish":  {[]any{"-publish"}, "publish to lock:engine:"},
		"no pubsub":   {[]any{"-pubsub"}, "publish to lock:engine:"},
		"no scripts":  {[]any{"-@scripting"}, "evalsha"},
		"other keys":  {[]any{"resetkeys", "~shop:*"}, "key"},
		"evicts":      {nil, "volatile-lru"},
		"evicts none": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, node)
			o.Username, o.Password = strings.ReplaceAll(name, " ", "-"), "p"
			do(t, append([]any{"ACL", "SETUSER", o.Username, "on", ">p", "~*", "&*", "+@all"}, test.rules...)...)
			if name == "evicts" {
				do(t, "CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", "volatile-lru")
				defer do(t, "CONFIG", "SET", "maxmemory", "0")
			}
			var missing metric
			e := engine(t, connect(t, o), handoff.Options{Metrics: handoff.Metrics{RightMissing: &missing}})
			err := e.Check(t.Context())
			if (test.want == "") != (err == nil) ||
				err != nil && (!errors.Is(err, handoff.ErrRefused) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("Check = %v, want ErrRefused with %q", err, test.want)
			}
			testkit.Is(t, missing.value() > 0, test.want != "" && name != "evicts", "some right is missing")
			if left := admin.Keys(t.Context(), "*check*").Val(); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
			if name == "no channel" {
				held := locktest.Obtain(t, engine(t, admin, handoff.Options{}).Fair(), "k")
				start := time.Now()
				_, err := e.Fair().Acquire(lock.WithWait(t.Context(), time.Minute), "k")
				if !errors.Is(err, handoff.ErrRefused) || time.Since(start) > time.Second {
					t.Errorf("a waiter without channels: %v after %s, want ErrRefused at once", err, time.Since(start))
				}
				locktest.Release(t, held)
			}
		})
	}
	nobody := connect(t, &redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	err := engine(t, nobody, handoff.Options{}).Check(t.Context())
	if !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, handoff.ErrRefused) {
		t.Errorf("Check without a server = %v, want ErrUnavailable only", err)
	}
}
