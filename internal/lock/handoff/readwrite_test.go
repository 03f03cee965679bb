package handoff_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

// released releases a lease. Unlike with [locktest.Release], the first answer counts: an unknown outcome is an error.
func released(t *testing.T, l lock.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
}

func TestReadWriteCosts(t *testing.T) {
	s := testenv.Redis(t)
	c, counted := locktest.RedisClient(t, s), &spy{}
	rw, key := engine(t, c, calm(handoff.Options{})).ReadWrite(), s.Prefix+"{1}"
	// Before commands are counted, each script has run and the process is subscribed.
	for range 2 {
		r := locktest.Obtain(t, rw.Read(), key)
		w := queueing(t, s, rw.Write(), key, 1)
		next := queueing(t, s, rw.Read(), key, 2)
		released(t, r)
		released(t, served(t, "the writer", w))
		released(t, served(t, "the next reader", next))
		released(t, locktest.Obtain(t, rw.Write(), key))
	}
	c.AddHook(counted)
	cost := func(what string, want int64, f func()) {
		t.Helper()
		before := counted.scripts.Load()
		if f(); counted.scripts.Load()-before != want {
			t.Errorf("%s: %d commands, want %d", what, counted.scripts.Load()-before, want)
		}
	}
	cost("a free read", 2, func() { released(t, locktest.Obtain(t, rw.Read(), key)) })
	cost("a free write", 2, func() { released(t, locktest.Obtain(t, rw.Write(), key)) })
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

// rwJudge checks that a writer is alone and that a reader's fence lies between those of the writes before and after it.
type rwJudge struct {
	t                *testing.T
	readers, writers atomic.Int64
	most             atomic.Int64 // readers at once
	mu               sync.Mutex
	read, wrote      uint64
}

func (p *rwJudge) enter(l lock.Lease, write bool) {
	if write {
		if w, r := p.writers.Add(1), p.readers.Load(); w != 1 || r != 0 {
			p.t.Errorf("%d writers beside %d readers", w, r)
		}
	} else if r, w := p.readers.Add(1), p.writers.Load(); w != 0 {
		p.t.Errorf("a reader beside %d writers", w)
	} else if r > p.most.Load() {
		p.most.Store(r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := l.Fence(); f <= p.wrote || write && f <= p.read {
		p.t.Errorf("fence %d (write %t) after write %d and read %d, want it to rise", f, write, p.wrote, p.read)
	}
	if write {
		p.wrote = l.Fence()
	} else {
		p.read = max(p.read, l.Fence())
	}
}

func (p *rwJudge) leave(write bool) {
	if write {
		p.writers.Add(-1)
	} else {
		p.readers.Add(-1)
	}
}

// release releases a hold of no more than a ping. If that is lost, the message says whether the machine stood still for as long as a
// grant by message lasts, or the wall clock, by which Redis expires keys, moved.
func (p *rwJudge) release(l lock.Lease, write bool, since time.Time) {
	held := time.Since(since)
	if err := l.Release(p.t.Context()); err != nil {
		moved := time.Now().Round(0).Sub(since.Round(0)) - time.Since(since)
		p.t.Errorf("Release (write %t) = %v, want nil; held for %s, answered after %s, the wall clock moved by %s", write, err, held, time.Since(since), moved)
	}
}

// readersAndWriters has readers and writers of four engines acquire and release.
func readersAndWriters(t *testing.T, s *testenv.RedisServer, c func() *redis.Client) {
	t.Helper()
	key := s.Prefix + t.Name() + "{1}"
	p := &rwJudge{t: t}
	ctx, entered := testenv.Progress(t, testenv.Still)
	var wg sync.WaitGroup
	for range 4 {
		rw := engine(t, c(), patient(handoff.Options{})).ReadWrite()
		for g := range 8 {
			wg.Go(func() {
				for i := range 40 {
					write := (g+i)%4 == 0
					l := rw.Read()
					if write {
						l = rw.Write()
					}
					lease, err := l.Acquire(ctx, key)
					if err != nil {
						t.Errorf("Acquire: %v (%v)", err, context.Cause(ctx))
						return
					}
					entered()
					since := time.Now()
					p.enter(lease, write)
					s.Client.Ping(ctx)
					p.leave(write)
					p.release(lease, write, since)
				}
			})
		}
	}
	wg.Wait()
	if p.most.Load() < 2 {
		t.Error("no two readers were in at once")
	}
	nothingLeftOn(t, s, key)
}

func TestReadWriteExclusion(t *testing.T) {
	s := testenv.Redis(t)
	counted := &spy{}
	readersAndWriters(t, s, func() *redis.Client {
		c := locktest.RedisClient(t, s)
		c.AddHook(counted)
		return c
	})
	if got := float64(counted.scripts.Load()) / (4 * 8 * 40); got > 2.2 {
		t.Errorf("%.2f commands for each acquisition, want 2.2 at most", got)
	}
}

// Every script arrives twice, and the engine gets the second reply.
func TestReadWriteScriptsSentTwice(t *testing.T) {
	servers := map[string]func(testing.TB) *testenv.RedisServer{"redis": testenv.Redis, "miniredis": testenv.Miniredis}
	for server, give := range servers {
		t.Run(server, func(t *testing.T) {
			s, twice := give(t), &spy{}
			twice.resend.Store(true)
			readersAndWriters(t, s, func() *redis.Client {
				o, err := redis.ParseURL(s.URL)
				if err != nil {
					t.Fatal(err)
				}
				o.MaxRetries = 1 // says that an answer may be the second
				c := redis.NewClient(o)
				t.Cleanup(func() { _ = c.Close() })
				c.AddHook(twice)
				return c
			})
		})
	}
}
