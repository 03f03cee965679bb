package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// engine returns an engine that is closed with the test, before its client.
func engine(t testing.TB, c redis.UniversalClient, o handoff.Options) *handoff.Engine {
	t.Helper()
	e, err := handoff.New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testenv.Still)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("Engine.Close: %v", err)
		}
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
		"TTL 49ms":      {c: c, o: handoff.Options{TTL: 49 * time.Millisecond}},
		"FenceTTL 59s":  {c: c, o: handoff.Options{FenceTTL: 59 * time.Second}},
		"bound is nega": {c: c, o: handoff.Options{MaxHold: -1}},
		"hash tag":      {c: c, o: handoff.Options{Prefix: "a{b"}},
	} {
		if _, err := handoff.New(test.c, test.o); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("New = %v, want an error that says %q", err, why)
		}
	}
}

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
	resend  atomic.Bool
}

func (s *spy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !isScript(cmd) {
			return next(ctx, cmd)
		}
		s.count(cmd)
		err := next(ctx, cmd)
		if s.resend.Load() {
			err = next(ctx, cmd)
		}
		return err
	}
}

func (s *spy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		scripts := 0
		for _, cmd := range cmds {
			if isScript(cmd) {
				scripts++
				s.count(cmd)
			}
		}
		err := next(ctx, cmds)
		if scripts > 0 && s.resend.Load() {
			err = next(ctx, cmds)
		}
		return err
	}
}

func (s *spy) count(script redis.Cmder) {
	s.scripts.Add(1)
	if handoff.IsPoll(script) {
		s.polls.Add(1)
	}
}

func isScript(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), "eval") }

func TestEngineFreeLockCostsTwoCommands(t *testing.T) {
	s := testenv.Redis(t)
	for _, name := range []string{"handoff", "fair"} {
		t.Run(name, func(t *testing.T) {
			c, counted := locktest.RedisClient(t, s), &spy{}
			l, key := pick(engine(t, c, calm(handoff.Options{})), name), s.Prefix+name+"{1}"
			locktest.Warm(t, l, key)
			c.AddHook(counted)
			const rounds = 50
			for range rounds {
				locktest.Warm(t, l, key)
			}
			if got := counted.scripts.Load(); got != 2*rounds {
				t.Errorf("%d commands for %d acquisitions of a free lock, want %d", got, rounds, 2*rounds)
			}
		})
	}
}

// onServer is an engine for a real server on a busy machine, where a process may get no processor for longer than the default limits.
func onServer(t testing.TB, s *testenv.RedisServer, o handoff.Options) *handoff.Engine {
	t.Helper()
	return engine(t, locktest.RedisClient(t, s), calm(o))
}

// calm gives o the time limits of a busy machine for an attempt and for a command. With the default limits a process that got no processor
// does not know what became of its release.
func calm(o handoff.Options) handoff.Options {
	o.AttemptLimit, o.CallTimeout = locktest.Soon/2, locktest.Soon/2
	return o
}

// patient is calm, and gives a waiter as long to come for its grant. Who gets no processor for longer than the default has rightly lost
// the lock.
func patient(o handoff.Options) handoff.Options {
	o.GrantTimeout = locktest.Soon / 2
	return calm(o)
}

// contendAndCheck has goroutines of four engines acquire one lock, and checks exclusion, fences, and that each gets its turns.
func contendAndCheck(t *testing.T, s *testenv.RedisServer, name string, c func() *redis.Client, o handoff.Options) {
	t.Helper()
	key := s.Prefix + t.Name() + "{1}"
	o = patient(o)
	ctx, entered := testenv.Progress(t, testenv.Still)
	const engines, perEngine, rounds = 4, 8, 50
	var inside atomic.Int64
	var fence uint64
	var wg sync.WaitGroup
	for range engines {
		l := pick(engine(t, c(), o), name)
		for range perEngine {
			wg.Go(func() {
				for range rounds {
					lease, err := l.Acquire(ctx, key)
					if err != nil {
						t.Errorf("Acquire: %v (%v)", err, context.Cause(ctx))
						return
					}
					entered()
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d holders at once", n)
					}
					if lease.Fence() <= fence {
						t.Errorf("fence %d after %d, want it to rise", lease.Fence(), fence)
					}
					fence = lease.Fence()
					s.Client.Ping(ctx)
					inside.Add(-1)
					if err := lease.Release(ctx); err != nil {
						t.Errorf("Release: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	nothingLeftOn(t, s, key)
}

// nothingLeftOn fails if a free lock without waiters has an owner, a queue or readers for more than a moment.
func nothingLeftOn(t *testing.T, s *testenv.RedisServer, key string) {
	t.Helper()
	keys := handoff.KeysOf(key)
	wait.NoError(t, "nothing left", func() error {
		if s.Client.Exists(t.Context(), keys.Lock, keys.Queue, keys.Readers).Val() == 0 {
			return nil
		}
		return fmt.Errorf("owner %q, queue %v, readers %v", s.Client.Get(t.Context(), keys.Lock).Val(),
			s.Client.ZRange(t.Context(), keys.Queue, 0, -1).Val(), s.Client.ZRange(t.Context(), keys.Readers, 0, -1).Val())
	})
}

func TestEngineContendedCommands(t *testing.T) {
	s := testenv.Redis(t)
	for name, most := range map[string]float64{"handoff": 0.30, "fair": 2.05} {
		t.Run(name, func(t *testing.T) {
			counted := &spy{}
			// A slow machine must not cut the cohort short by the clock: the count is what is tested.
			contendAndCheck(t, s, name, func() *redis.Client {
				c := locktest.RedisClient(t, s)
				c.AddHook(counted)
				return c
			}, handoff.Options{CohortTime: time.Minute})
			got := float64(counted.scripts.Load()) / (4 * 8 * 50)
			t.Logf("%.3f commands for each acquisition", got)
			if got > most {
				t.Errorf("%.3f commands for each acquisition, want at most %.2f", got, most)
			}
		})
	}
}

// Every script arrives twice, and the engine gets the second reply.
func TestEngineScriptsSentTwice(t *testing.T) {
	t.Parallel()
	for server, give := range map[string]func(testing.TB) *testenv.RedisServer{"redis": testenv.Redis, "miniredis": testenv.Miniredis} {
		for _, name := range []string{"handoff", "fair"} {
			t.Run(server+"/"+name, func(t *testing.T) {
				t.Parallel()
				s, twice := give(t), &spy{}
				twice.resend.Store(true)
				contendAndCheck(t, s, name, func() *redis.Client {
					o, err := redis.ParseURL(s.URL)
					if err != nil {
						t.Fatal(err)
					}
					o.MaxRetries = 1 // says that an answer may be the second
					c := redis.NewClient(o)
					t.Cleanup(func() { _ = c.Close() })
					c.AddHook(twice)
					return c
				}, handoff.Options{})
			})
		}
	}
}

func TestEngineLostAnswers(t *testing.T) {
	s := testenv.Redis(t)
	for _, name := range []string{"handoff", "fair"} {
		t.Run(name, func(t *testing.T) {
			c, lost, key := locktest.RedisClient(t, s), &locktest.LostAnswers{Name: "evalsha"}, s.Prefix+name+"{1}"
			l := pick(engine(t, c, handoff.Options{}), name)
			locktest.Warm(t, l, key)
			c.AddHook(lost)
			for n := range int64(3) { // of an acquire, then of a release, all but the last
				lost.Left.Store(n)
				lease, err := l.Acquire(t.Context(), key)
				if err != nil {
					t.Fatalf("Acquire with %d answers lost = %v", n, err)
				}
				lost.Left.Store(n)
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release with %d answers lost = %v, want nil", n, err)
				}
			}
			lost.Left.Store(3)
			if _, err := l.Acquire(t.Context(), key); !errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("Acquire with all answers lost = %v, want ErrUnavailable", err)
			}
			nothingLeftOn(t, s, key)
			// Another process: what this one sends to clean up would have its answers lost in place of the release.
			c, lost = locktest.RedisClient(t, s), &locktest.LostAnswers{Name: "evalsha"}
			lease := locktest.Obtain(t, pick(engine(t, c, handoff.Options{}), name), key)
			c.AddHook(lost)
			lost.Left.Store(3)
			if err := lease.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
				t.Errorf("Release with all answers lost = %v, want unknown", err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release repeated = %v, want nil", err)
			}
		})
	}
}

func TestEngineReplicasShort(t *testing.T) {
	s := testenv.Redis(t)
	l := onServer(t, s, handoff.Options{Replicas: 1, ReplicasTimeout: time.Millisecond}).Handoff()
	_, err := l.Acquire(t.Context(), s.Prefix+"{1}")
	if !errors.Is(err, handoff.ErrReplicas) || !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("Acquire without a replica = %v, want ErrReplicas and ErrUnavailable", err)
	}
	nothingLeftOn(t, s, s.Prefix+"{1}")
}
