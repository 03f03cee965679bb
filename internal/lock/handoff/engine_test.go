package handoff_test

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// engine returns an engine that is closed with the test, before its client.
func engine(t testing.TB, c redis.UniversalClient, o handoff.Options) *handoff.Engine {
	t.Helper()
	e, err := handoff.New(c, o)
	testkit.Must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testenv.Still)
		defer cancel()
		testkit.Is(t, e.Close(ctx), nil, "Engine.Close")
	})
	return e
}

func TestNewRefuses(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer c.Close()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	defer ring.Close()
	for why, test := range map[string]struct {
		c redis.UniversalClient
		o handoff.Options
	}{
		"no client":     {},
		"redis.Ring":    {c: ring},
		"is no":         {c: struct{ *redis.Client }{c}},
		"a time is abo": {c: c, o: handoff.Options{TTL: 200 * 365 * 24 * time.Hour}},
		"the longest":   {c: c, o: handoff.Options{MaxHold: math.MaxInt64}},
		"TTL 49ms":      {c: c, o: handoff.Options{TTL: 49 * time.Millisecond}},
		"bound is nega": {c: c, o: handoff.Options{MaxHold: -1}},
		"hash tag":      {c: c, o: handoff.Options{Prefix: "a{b"}},
	} {
		if _, err := handoff.New(test.c, test.o); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("New = %v, want an error that says %q", err, why)
		}
	}
}

// allLocks are the names of the engine's locks.
var allLocks = []string{"handoff", "fair", "rw-write", "rw-read"}

// pick returns one of the engine's locks.
func pick(e *handoff.Engine, name string) lock.Locker {
	switch name {
	case "fair":
		return e.Fair()
	case "rw-write":
		return e.ReadWrite().Write()
	case "rw-read":
		return e.ReadWrite().Read()
	default:
		return e.Handoff()
	}
}

// spy is a client hook that counts scripts as they are sent, and sends them twice if resend is set.
type spy struct {
	testenv.Hook
	scripts atomic.Int64
	polls   atomic.Int64 // of those
	times   atomic.Int64 // arguments that are an absolute time
	resend  atomic.Bool
}

func (s *spy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return s.send(func() error { return next(ctx, cmd) }, cmd)
	}
}

func (s *spy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return s.send(func() error { return next(ctx, cmds) }, cmds...)
	}
}

func (s *spy) send(next func() error, cmds ...redis.Cmder) error {
	scripts := slices.DeleteFunc(slices.Clone(cmds), func(cmd redis.Cmder) bool { return !isScript(cmd) })
	s.scripts.Add(int64(len(scripts)))
	for _, script := range scripts {
		if slices.ContainsFunc(script.Args(), func(arg any) bool { return timeOfDay.MatchString(fmt.Sprint(arg)) }) {
			s.times.Add(1)
		}
		if handoff.IsPoll(script) {
			s.polls.Add(1)
		}
	}
	err := next()
	if len(scripts) > 0 && s.resend.Load() {
		err = next()
	}
	return err
}

// timeOfDay is a number as long as a time of day in milliseconds.
var timeOfDay = regexp.MustCompile(`^\d{12,}$`)

func isScript(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), "eval") }

// onServer is an engine for a real server on a busy machine, where a process may get no processor for longer than the
// default limits.
func onServer(t testing.TB, s *testenv.RedisServer, o handoff.Options) *handoff.Engine {
	t.Helper()
	return engine(t, locktest.RedisClient(t, s), calm(o))
}

// calm gives o the time limits of a busy machine for an attempt and for a command. With the default limits a process
// that got no processor does not know what became of its release.
func calm(o handoff.Options) handoff.Options {
	o.AttemptLimit, o.CallTimeout = locktest.Soon/2, locktest.Soon/2
	return o
}

// patient is calm, and gives a waiter as long to come for its grant. Who gets no processor for longer than the default
// has rightly lost the lock.
func patient(o handoff.Options) handoff.Options {
	o.GrantTimeout = locktest.Soon / 2
	return calm(o)
}

// within fails if more than most has passed since start.
func within(t testing.TB, start time.Time, most time.Duration, what string) {
	t.Helper()
	if took := time.Since(start); took > most {
		t.Errorf("%s: after %s, want %s at most", what, took, most)
	}
}

// rise fails unless fences rise.
func rise(t testing.TB, fences ...uint64) {
	t.Helper()
	for i, f := range fences[1:] {
		if f <= fences[i] {
			t.Errorf("fences %d, want them to rise", fences)
		}
	}
}

// released releases a lease. Unlike with [locktest.Release], the first answer counts: an unknown outcome is an error.
func released(t *testing.T, l lock.Lease) {
	t.Helper()
	testkit.Is(t, l.Release(context.Background()), nil, "Release")
}

// contend has goroutines of four engines take one lock, and checks who is in with whom, fences, and that each gets its
// turns. It returns how often the lock was acquired.
func contend(t *testing.T, s *testenv.RedisServer, name string, hook *spy, o handoff.Options) float64 {
	t.Helper()
	const engines, perEngine, rounds = 4, 8, 25
	key := s.Prefix + t.Name() + "{1}"
	ctx, entered := testenv.Progress(t, testenv.Still)
	b := newInside(t)
	var wg sync.WaitGroup
	for range engines {
		c := locktest.RedisClient(t, s)
		if c.AddHook(hook); hook.resend.Load() { // any answer may be the second
			c.Options().MaxRetries, c.Options().MinRetryBackoff = 1, 0
		}
		e := engine(t, c, patient(o))
		for g := range perEngine {
			wg.Go(func() {
				for i := range rounds {
					l, write := turn(e, name, (g+i)%4 == 0)
					lease, err := l.Acquire(ctx, key)
					if err != nil {
						t.Errorf("Acquire: %v (%v)", err, context.Cause(ctx))
						return
					}
					entered()
					b.enter(lease, write)
					s.Client.Ping(ctx)
					b.leave(lease)
					released(t, lease)
				}
			})
		}
	}
	wg.Wait()
	if name == "rw" && b.most < 2 {
		t.Error("no two readers were in at once")
	}
	nothingLeftOn(t, s, key)
	return engines * perEngine * rounds
}

// nothingLeftOn fails if a free lock without waiters has an owner, a queue or readers for more than a moment.
func nothingLeftOn(t *testing.T, s *testenv.RedisServer, key string) {
	t.Helper()
	keys := handoff.KeysOf(key)
	testkit.NoError(t, "nothing left", func() error {
		if s.Client.Exists(t.Context(), keys.Lock, keys.Queue, keys.Readers).Val() == 0 {
			return nil
		}
		return fmt.Errorf("owner %q, queue %v, readers %v", s.Client.Get(t.Context(), keys.Lock).Val(),
			s.Client.ZRange(t.Context(), keys.Queue, 0, -1).Val(), s.Client.ZRange(t.Context(), keys.Readers, 0, -1).Val())
	})
}

// Server time comes from PX and TIME (invariant 11), and a contended lock costs little.
func TestEngineContendedCommands(t *testing.T) {
	for name, most := range map[string]float64{"handoff": 0.30, "fair": 2.05, "rw": 2.2} {
		t.Run(name, func(t *testing.T) {
			counted := &spy{}
			// A slow machine must not cut the cohort short by the clock: the count is what is tested.
			n := contend(t, testenv.Redis(t), name, counted, handoff.Options{CohortTime: time.Minute})
			if got := float64(counted.scripts.Load()) / n; got > most {
				t.Errorf("%.3f commands for each acquisition, want at most %.2f", got, most)
			}
			if counted.times.Load() > 0 {
				t.Error("an absolute time was sent")
			}
		})
	}
}

// Every script arrives twice, and the engine gets the second reply.
func TestEngineScriptsSentTwice(t *testing.T) {
	for _, name := range []string{"handoff", "fair", "rw"} {
		t.Run(name, func(t *testing.T) {
			twice := &spy{}
			twice.resend.Store(true)
			contend(t, testenv.Redis(t), name, twice, handoff.Options{})
		})
	}
}

func TestEngineCosts(t *testing.T) {
	s := testenv.Redis(t)
	c, counted := locktest.RedisClient(t, s), &spy{}
	e, key := engine(t, c, calm(handoff.Options{})), s.Prefix+"{1}"
	rw := e.ReadWrite()
	// Before commands are counted, each script has run and the process is subscribed.
	for range 2 {
		r := locktest.Obtain(t, rw.Read(), key)
		w := queueing(t, s, rw.Write(), key, 1)
		next := queueing(t, s, rw.Read(), key, 2)
		released(t, r)
		released(t, served(t, "the writer", w))
		released(t, served(t, "the next reader", next))
		for _, name := range allLocks {
			locktest.Warm(t, pick(e, name), key)
		}
	}
	c.AddHook(counted)
	cost := func(what string, want int64, f func()) {
		t.Helper()
		before := counted.scripts.Load()
		if f(); counted.scripts.Load()-before != want {
			t.Errorf("%s: %d commands, want %d", what, counted.scripts.Load()-before, want)
		}
	}
	for _, name := range allLocks {
		cost("a free lock, "+name, 2, func() { released(t, locktest.Obtain(t, pick(e, name), key)) })
	}
	cost("a read beside another, and that one", 4, func() {
		a, b := locktest.Obtain(t, rw.Read(), key), locktest.Obtain(t, rw.Read(), key)
		released(t, a)
		released(t, b)
	})
	cost("a read, a write that waits for it, ten reads that wait for both", 24, func() {
		r := locktest.Obtain(t, rw.Read(), key)
		w := queueing(t, s, rw.Write(), key, 1)
		var next []chan lock.Lease
		for i := range 10 {
			next = append(next, queueing(t, s, rw.Read(), key, 2+i))
		}
		released(t, r)
		released(t, served(t, "the writer", w))
		for _, r := range next {
			released(t, served(t, "a reader", r))
		}
	})
}

func TestEngineLostAnswers(t *testing.T) {
	s := testenv.Redis(t)
	for _, name := range allLocks {
		t.Run(name, func(t *testing.T) {
			c, lost, key := locktest.RedisClient(t, s), &locktest.LostAnswers{Name: "evalsha"}, s.Prefix+name+"{1}"
			l, other := pick(engine(t, c, handoff.Options{}), name), onServer(t, s, handoff.Options{}).ReadWrite().Write()
			locktest.Warm(t, l, key)
			c.AddHook(lost)
			for n := range int64(3) { // of an acquire, then of a release, all but the last
				lost.Left.Store(n)
				lease, err := l.Acquire(t.Context(), key)
				testkit.Mustf(t, err, "Acquire with %d answers lost", n)
				locktest.WantBusy(t, other, key, "while it is held")
				lost.Left.Store(n)
				testkit.Is(t, lease.Release(t.Context()), nil, "Release with %d answers lost", n)
			}
			lost.Left.Store(3)
			locktest.WantUnavailable(t.Context(), t, l, key, "Acquire with all answers lost")
			nothingLeftOn(t, s, key)
			// Another process: what this one sends to clean up would have its answers lost in place of the release.
			c, lost = locktest.RedisClient(t, s), &locktest.LostAnswers{Name: "evalsha"}
			lease := locktest.Obtain(t, pick(engine(t, c, handoff.Options{}), name), key)
			c.AddHook(lost)
			lost.Left.Store(3)
			locktest.ReleaseUnknown(t, lease, "Release with all answers lost")
			released(t, lease)
			nothingLeftOn(t, s, key)
		})
	}
}

func TestEngineReplicasShort(t *testing.T) {
	s := testenv.Redis(t)
	l := onServer(t, s, handoff.Options{Replicas: 1, ReplicasTimeout: time.Millisecond}).Handoff()
	_, err := l.Acquire(t.Context(), s.Prefix+"{1}")
	testkit.IsError(t, err, handoff.ErrReplicas, "Acquire without a replica")
	testkit.IsError(t, err, lock.ErrUnavailable, "Acquire without a replica")
	nothingLeftOn(t, s, s.Prefix+"{1}")
}

// When an engine is closed, its waiters are told, whether they are in the queue or wait for readers to leave, and its
// holds end.
func TestEngineClose(t *testing.T) {
	s := testenv.Redis(t)
	for held, waiters := range map[string][]string{"handoff": {"fair", "handoff"}, "rw-read": {"rw-write", "rw-read"}} {
		key := s.Prefix + held + "{1}"
		e, err := handoff.New(locktest.RedisClient(t, s), calm(handoff.Options{}))
		testkit.Must(t, err)
		lease := locktest.Obtain(t, pick(e, held), key)
		var failures []chan error
		for i, name := range waiters {
			_, failed := async(context.Background(), pick(e, name), key)
			failures = append(failures, failed)
			testkit.Until(t, name+" waits", func() bool { // and a writer keeps readers out by now
				return inspect(t, e, key).Waiting == i+1 && s.Client.Exists(t.Context(), key).Val() == 1
			})
		}
		testkit.Until(t, "a waiter in the queue", func() bool {
			return s.Client.ZCard(t.Context(), handoff.KeysOf(key).Queue).Val() > 0
		})
		testkit.Is(t, e.Close(t.Context()), nil, "Close")
		for _, failed := range failures {
			testkit.IsError(t, <-failed, handoff.ErrClosed, "Acquire")
		}
		testkit.IsError(t, lease.Context().Err(), context.Canceled, "the hold's context")
		released(t, lease)
		_, err = e.Fair().Acquire(t.Context(), key)
		testkit.IsError(t, err, handoff.ErrClosed, "Acquire after Close")
		nothingLeftOn(t, s, key)
	}
}

// The server does not answer when the engine is closed. The holds end nevertheless, before others could have the lock.
func TestEngineCloseWithoutServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 1)
		e := links[0].process(t, handoff.Options{TTL: time.Minute})
		var leases []lock.Lease
		for i := range 100 { // more than it releases at a time
			leases = append(leases, locktest.Obtain(t, e.Fair(), strconv.Itoa(i)))
		}
		links[0].calls.Store(true)
		err := e.Close(testkit.Within(t, 50*time.Millisecond))
		testkit.IsError(t, err, context.DeadlineExceeded, "Close, which can release nothing")
		for _, lease := range leases {
			testkit.IsError(t, lease.Context().Err(), context.Canceled, "a hold's context")
		}
	})
}

// async acquires in the background.
func async(ctx context.Context, l lock.Locker, key string) (got chan lock.Lease, failed chan error) {
	got, failed = make(chan lock.Lease, 1), make(chan error, 1)
	go func() {
		if lease, err := l.Acquire(ctx, key); err != nil {
			failed <- err
		} else {
			got <- lease
		}
	}()
	return got, failed
}

// queueing acquires in the background, and returns when so many tokens wait in Redis, or wait for readers as the owner.
func queueing(t *testing.T, s *testenv.RedisServer, l lock.Locker, key string, waiting int) chan lock.Lease {
	t.Helper()
	got, failed := async(t.Context(), l, key)
	testkit.Until(t, fmt.Sprintf("%d wait", waiting), func() bool {
		select {
		case err := <-failed:
			t.Fatalf("Acquire: %v", err)
		default:
		}
		keys := handoff.KeysOf(key)
		n := int(s.Client.ZCard(t.Context(), keys.Queue).Val())
		if s.Client.ZCard(t.Context(), keys.Readers).Val() > 0 {
			n += int(s.Client.Exists(t.Context(), keys.Lock).Val())
		}
		return n == waiting
	})
	return got
}

func served(t *testing.T, what string, got chan lock.Lease) lock.Lease {
	t.Helper()
	select {
	case lease := <-got:
		return lease
	case <-time.After(locktest.Soon):
		t.Fatalf("%s did not get in", what)
		return nil
	}
}
