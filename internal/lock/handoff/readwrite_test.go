package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
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
)

// maxWait bounds how long a test waits for what must happen.
const maxWait = testenv.Still

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(start) > maxWait {
			t.Fatalf("not within %s: %s", maxWait, what)
		}
	}
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
	eventually(t, fmt.Sprintf("%d wait", waiting), func() bool {
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
	case <-time.After(maxWait):
		t.Fatalf("%s did not get in", what)
		return nil
	}
}

func released(t *testing.T, l lock.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
}

// busy fails if the lock can be acquired.
func busy(t *testing.T, l lock.Locker, key string) {
	t.Helper()
	if _, err := locktest.TryOnce(l, key); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("Acquire = %v, want ErrBusy", err)
	}
}

func TestReadWriteCosts(t *testing.T) {
	s := testenv.Redis(t)
	c, counted := locktest.RedisClient(t, s), &spy{}
	rw, key := engine(t, c, handoff.Options{}).ReadWrite(), s.Prefix+"{1}"
	// So that nothing counted below is for the first time: each script, and listening.
	for range 2 {
		r := holds(t, rw.Read(), key)
		w := queueing(t, s, rw.Write(), key, 1)
		next := queueing(t, s, rw.Read(), key, 2)
		released(t, r)
		released(t, served(t, "the writer", w))
		released(t, served(t, "the next reader", next))
		released(t, holds(t, rw.Write(), key))
	}
	c.AddHook(counted)
	cost := func(what string, want int64, f func()) {
		t.Helper()
		before := counted.scripts.Load()
		if f(); counted.scripts.Load()-before != want {
			t.Errorf("%s: %d commands, want %d", what, counted.scripts.Load()-before, want)
		}
	}
	cost("a free read", 2, func() { released(t, holds(t, rw.Read(), key)) })
	cost("a free write", 2, func() { released(t, holds(t, rw.Write(), key)) })
	cost("a read beside another, and that one", 4, func() {
		a, b := holds(t, rw.Read(), key), holds(t, rw.Read(), key)
		released(t, a)
		released(t, b)
	})
	cost("a read, a write that waits for it, ten reads that wait for both", 24, func() {
		r := holds(t, rw.Read(), key)
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
	rwNothingLeftOn(t, s, key)
}

// rwNothingLeftOn fails if a free lock without waiters has an owner, a queue or readers for more than a moment.
func rwNothingLeftOn(t *testing.T, s *testenv.RedisServer, key string) {
	t.Helper()
	nothingLeftOn(t, s, key)
	eventually(t, "no reader left behind", func() bool {
		return s.Client.Exists(context.Background(), handoff.KeysOf(key).Readers).Val() == 0
	})
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

// Readers overlap, so that there is always one: the writer gets in all the same.
func TestReadWriteWriterIsNotStarved(t *testing.T) {
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	readers := engine(t, locktest.RedisClient(t, s), handoff.Options{}).ReadWrite().Read()
	writer := engine(t, locktest.RedisClient(t, s), handoff.Options{}).ReadWrite().Write()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var in [2]atomic.Bool
	for i := range in {
		wg.Go(func() {
			for ctx.Err() == nil {
				lease, err := readers.Acquire(ctx, key)
				if err != nil {
					return
				}
				in[i].Store(true)
				// It leaves only when the other one is in as well, or cannot get in because somebody waits.
				for start := time.Now(); ctx.Err() == nil && !in[1-i].Load() && time.Since(start) < 50*time.Millisecond; {
					time.Sleep(time.Millisecond)
				}
				in[i].Store(false)
				released(t, lease)
			}
		})
	}
	for range 20 {
		got, failed := async(t.Context(), writer, key)
		select {
		case lease := <-got:
			released(t, lease)
		case err := <-failed:
			t.Fatal(err)
		case <-time.After(maxWait):
			t.Fatal("the writer is starved")
		}
	}
	stop()
	wg.Wait()
	rwNothingLeftOn(t, s, key)
}

// Readers and writers of all processes get in in the order of arrival; adjacent readers get in together.
func TestReadWriteOrder(t *testing.T) {
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	var rw []handoff.ReadWrite
	for range 3 {
		rw = append(rw, engine(t, locktest.RedisClient(t, s), handoff.Options{}).ReadWrite())
	}
	first := holds(t, rw[0].Write(), key)
	order := "rrwwrrrwr"
	got := make([]chan lock.Lease, len(order))
	for i, want := range order {
		l := rw[i%3].Read()
		if want == 'w' {
			l = rw[i%3].Write()
		}
		got[i] = queueing(t, s, l, key, i+1)
	}
	released(t, first)
	fence := first.Fence()
	for i := 0; i < len(order); {
		n := 1 // how many get in together
		for order[i] == 'r' && i+n < len(order) && order[i+n] == 'r' {
			n++
		}
		var in []lock.Lease
		for _, c := range got[i : i+n] {
			in = append(in, served(t, fmt.Sprintf("one of %d to %d", i, i+n), c))
		}
		i += n
		for j, c := range got[i:] {
			if len(c) > 0 {
				t.Fatalf("%d got in before its turn", i+j)
			}
		}
		for _, l := range in {
			if l.Fence() <= fence {
				t.Errorf("fence %d after %d, want it to rise", l.Fence(), fence)
			}
			released(t, l)
		}
		fence = in[0].Fence()
	}
	rwNothingLeftOn(t, s, key)
}

// cutOff is a client hook that cuts a process off: nothing that the process sends arrives.
type cutOff struct{ down atomic.Bool }

func (g *cutOff) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *cutOff) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g *cutOff) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if g.down.Load() {
			err := &net.OpError{Op: "dial", Err: errors.New("cut off")}
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

// One reader is cut off, another lives. The first one's context ends before its time runs out on the server, the writer gets
// in no sooner than that, and no later than the other reader's release.
func TestReadWriteDeadReader(t *testing.T) {
	const leaseTTL = 600 * time.Millisecond
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	for name, liveLeavesFirst := range map[string]bool{"outlived": false, "left alone": true} {
		t.Run(name, func(t *testing.T) {
			c, cut := locktest.RedisClient(t, s), &cutOff{}
			c.AddHook(cut)
			e, err := handoff.New(c, handoff.Options{TTL: leaseTTL})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close(context.Background())
			live := engine(t, locktest.RedisClient(t, s), handoff.Options{TTL: leaseTTL}).ReadWrite()
			writer := engine(t, locktest.RedisClient(t, s), handoff.Options{TTL: leaseTTL}).ReadWrite()
			dead, alive := holds(t, e.ReadWrite().Read(), key), holds(t, live.Read(), key)
			got := queueing(t, s, writer.Write(), key, 1)
			cut.down.Store(true)
			if liveLeavesFirst {
				released(t, alive)
			}
			<-dead.Context().Done()
			if cause := context.Cause(dead.Context()); !errors.Is(cause, lock.ErrLost) {
				t.Errorf("cause = %v, want ErrLost", cause)
			}
			if len(got) > 0 {
				t.Error("the writer got in while the reader still trusted its lease")
			}
			if !liveLeavesFirst {
				eventually(t, "the dead reader is taken out", func() bool {
					return s.Client.ZCard(t.Context(), handoff.KeysOf(key).Readers).Val() == 1
				})
				if len(got) > 0 {
					t.Error("the writer got in beside a live reader")
				}
				released(t, alive)
			}
			released(t, served(t, "the writer", got))
			if err := dead.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
				t.Errorf("Release without a network = %v, want unknown", err)
			}
			cut.down.Store(false)
			if err := dead.Release(t.Context()); err == nil {
				t.Error("Release of a read that ran out = nil")
			}
			rwNothingLeftOn(t, s, key)
		})
	}
}

func TestReadWriteReentry(t *testing.T) {
	s := testenv.Redis(t)
	c, counted, key := locktest.RedisClient(t, s), &spy{}, s.Prefix+"{1}"
	e := engine(t, c, handoff.Options{})
	rw := e.ReadWrite()
	read, write := holds(t, rw.Read(), key), holds(t, rw.Write(), key+"2")
	c.AddHook(counted)
	for _, refused := range []lock.Locker{rw.Write(), e.Fair(), e.Handoff()} {
		if _, err := refused.Acquire(read.Context(), key); !errors.Is(err, handoff.ErrUpgrade) {
			t.Errorf("more than a read within a read = %v, want ErrUpgrade", err)
		}
	}
	var inner []lock.Lease
	for l, outer := range map[lock.Locker]lock.Lease{rw.Read(): read, rw.Write(): write, e.Fair(): write} {
		k := key
		if outer == write {
			k = key + "2"
		}
		lease, err := l.Acquire(outer.Context(), k)
		if err != nil {
			t.Fatalf("re-entry: %v", err)
		}
		inner = append(inner, lease)
	}
	within, err := rw.Read().Acquire(write.Context(), key+"2")
	if err != nil {
		t.Fatalf("a read within a write = %v", err)
	}
	if within.Fence() != write.Fence() {
		t.Errorf("a read within write %d has fence %d", write.Fence(), within.Fence())
	}
	released(t, read)
	released(t, write)
	released(t, within)
	if n := counted.scripts.Load(); n != 0 {
		t.Errorf("re-entry cost %d commands", n)
	}
	for _, l := range inner {
		if l.Context().Err() != nil {
			t.Error("the outer release ended an inner lease")
		}
		released(t, l)
	}
	rwNothingLeftOn(t, s, key)
	rwNothingLeftOn(t, s, key+"2")
	fair := holds(t, e.Fair(), key)
	if _, err := rw.Write().Acquire(fair.Context(), key); !errors.Is(err, handoff.ErrUpgrade) {
		t.Errorf("a write within a lock that knows no readers = %v, want ErrUpgrade", err)
	}
	released(t, fair)
}

func TestReadWriteLostAnswers(t *testing.T) {
	s := testenv.Redis(t)
	for _, name := range []string{"rw-read", "rw-write"} {
		t.Run(name, func(t *testing.T) {
			c, lost, key := locktest.RedisClient(t, s), &locktest.LostAnswers{Name: "evalsha"}, s.Prefix+name+"{1}"
			e := engine(t, c, handoff.Options{})
			l, other := pick(e, name), engine(t, locktest.RedisClient(t, s), handoff.Options{}).ReadWrite().Write()
			locktest.Warm(t, l, key)
			c.AddHook(lost)
			for n := range int64(3) {
				lost.Left.Store(n)
				lease, err := l.Acquire(t.Context(), key)
				if err != nil {
					t.Fatalf("Acquire with %d answers lost = %v", n, err)
				}
				busy(t, other, key)
				lost.Left.Store(n)
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release with %d answers lost = %v, want nil", n, err)
				}
			}
			lost.Left.Store(3)
			if _, err := l.Acquire(t.Context(), key); !errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("Acquire with all answers lost = %v, want ErrUnavailable", err)
			}
			rwNothingLeftOn(t, s, key)
			lease := holds(t, l, key)
			lost.Left.Store(3)
			if err := lease.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
				t.Errorf("Release with all answers lost = %v, want unknown", err)
			}
			released(t, lease)
			rwNothingLeftOn(t, s, key)
		})
	}
}

// recorder is a client hook that records the scripts sent, so that a test can deliver one of them late.
type recorder struct {
	mu   sync.Mutex
	sent [][]any
}

func (p *recorder) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (p *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "evalsha") {
			p.mu.Lock()
			p.sent = append(p.sent, slices.Clone(cmd.Args()))
			p.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}

// The first of two sendings of an acquire arrives when the read is over: it grants nothing.
func TestReadWriteLateAcquire(t *testing.T) {
	s := testenv.Redis(t)
	c, lost, sent, key := locktest.RedisClient(t, s), &locktest.LostAnswers{Name: "evalsha"}, &recorder{}, s.Prefix+"{1}"
	l := engine(t, c, handoff.Options{}).ReadWrite().Read()
	locktest.Warm(t, l, key)
	c.AddHook(sent)
	c.AddHook(lost)
	lost.Left.Store(1)
	released(t, holds(t, l, key))
	if len(sent.sent) != 3 {
		t.Fatalf("%d scripts, want an acquire twice and a release", len(sent.sent))
	}
	if err := s.Client.Do(t.Context(), sent.sent[0]...).Err(); err != nil {
		t.Fatal(err)
	}
	if n := s.Client.Exists(t.Context(), handoff.KeysOf(key).Readers).Val(); n != 0 {
		t.Error("a read that is over got in again")
	}
	rwNothingLeftOn(t, s, key)
}

// delayedReply is a client hook that keeps back the reply to one script until deliver is closed.
type delayedReply struct {
	next    atomic.Bool // the next one
	arrived chan struct{}
	deliver chan struct{}
}

func (h *delayedReply) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *delayedReply) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *delayedReply) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if strings.HasPrefix(cmd.Name(), "evalsha") && h.next.CompareAndSwap(true, false) {
			close(h.arrived)
			<-h.deliver
		}
		return err
	}
}

// The message that grants a read overtakes the reply to its acquire, which says that it is queued.
func TestReadWriteMessageOvertakesAnswer(t *testing.T) {
	for name, holder := range map[string]string{"let in": "rw-write", "given the gate": "fair"} {
		t.Run(name, func(t *testing.T) {
			s := testenv.Redis(t)
			key := s.Prefix + t.Name() + "{1}"
			a, c, sent := engine(t, locktest.RedisClient(t, s), handoff.Options{}), locktest.RedisClient(t, s), &recorder{}
			h := &delayedReply{arrived: make(chan struct{}), deliver: make(chan struct{})}
			b := engine(t, c, handoff.Options{})
			l := b.ReadWrite().Read()
			held := holds(t, pick(a, holder), key)
			queued := queueing(t, s, l, key, 1) // so that it listens
			released(t, held)
			released(t, served(t, "the first reader", queued))
			held = holds(t, pick(a, holder), key)
			other := holds(t, a.Fair(), key+"2")
			after := queueing(t, s, b.Fair(), key+"2", 1)
			c.AddHook(h)
			c.AddHook(sent)
			h.next.Store(true)
			got := queueing(t, s, l, key, 1)
			<-h.arrived
			released(t, held)
			released(t, other)
			later := served(t, "who gets the next message", after) // so that the first one has been read
			if holder == "rw-write" {                              // all is said: it is in, and out again, before the answer
				released(t, served(t, "the reader", got))
				if err := s.Client.Do(t.Context(), sent.sent[0]...).Err(); err != nil { // it was sent twice, for all one knows
					t.Fatal(err)
				}
				close(h.deliver)
			} else { // it sends another acquire, at once and not with the next poll
				close(h.deliver)
				released(t, served(t, "the reader", got))
				if n := len(sent.sent); n != 3 {
					t.Errorf("%d scripts, want two acquires and a release", n)
				}
			}
			rwNothingLeftOn(t, s, key)
			released(t, later)
		})
	}
}

// A waiter that gives up, in any state, leaves nothing behind and delays no other waiter.
func TestReadWriteContextEndsInEachPhase(t *testing.T) {
	s := testenv.Redis(t)
	for name, c := range map[string]struct{ holds, waits string }{
		"reader behind a writer": {"rw-write", "rw-read"}, "writer behind a writer": {"rw-write", "rw-write"},
		"writer behind a reader": {"rw-read", "rw-write"},
	} {
		for _, when := range []string{"at once", "waiting", "let in"} {
			t.Run(name+"/"+when, func(t *testing.T) {
				key := s.Prefix + t.Name() + "{1}"
				a, b := engine(t, locktest.RedisClient(t, s), handoff.Options{}), engine(t, locktest.RedisClient(t, s), handoff.Options{})
				held := holds(t, pick(a, c.holds), key)
				ctx, cancel := context.WithCancel(t.Context())
				got, failed := async(ctx, pick(b, c.waits), key)
				keys := handoff.KeysOf(key)
				if when != "at once" {
					eventually(t, "it waits", func() bool {
						return s.Client.ZCard(t.Context(), keys.Queue).Val() == 1 ||
							c.holds == "rw-read" && s.Client.Exists(t.Context(), keys.Lock).Val() == 1
					})
				}
				next := make(chan lock.Lease)
				if when == "waiting" {
					next = queueing(t, s, a.ReadWrite().Read(), key, 2)
				}
				if when == "let in" {
					go released(t, held)
				}
				cancel()
				select {
				case lease := <-got: // it was faster
					released(t, lease)
				case err := <-failed:
					if !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.Canceled) {
						t.Errorf("Acquire = %v, want ErrBusy and Canceled", err)
					}
				case <-time.After(maxWait):
					t.Fatal("Acquire did not return")
				}
				if when == "waiting" && c.holds == "rw-read" { // readers queued after the writer that gave up
					released(t, served(t, "the reader behind it", next))
				}
				released(t, held)
				if when == "waiting" && c.holds == "rw-write" {
					released(t, served(t, "the reader behind it", next))
				}
				rwNothingLeftOn(t, s, key)
			})
		}
	}
}

func TestReadWriteClose(t *testing.T) {
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	e, err := handoff.New(locktest.RedisClient(t, s), handoff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rw := e.ReadWrite()
	lease := holds(t, rw.Read(), key)
	draining, drained := async(context.Background(), rw.Write(), key)
	eventually(t, "the writer has the gate", func() bool { return s.Client.Exists(t.Context(), key).Val() == 1 })
	waiting, waited := async(context.Background(), rw.Read(), key)
	eventually(t, "a reader queues", func() bool { return s.Client.ZCard(t.Context(), handoff.KeysOf(key).Queue).Val() == 1 })
	if err := e.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	for _, failed := range []chan error{drained, waited} {
		select {
		case err := <-failed:
			if !errors.Is(err, handoff.ErrClosed) {
				t.Errorf("a waiter got %v, want ErrClosed", err)
			}
		case <-draining:
			t.Error("the writer got in beside a reader")
		case <-waiting:
			t.Error("a reader got in during Close")
		}
	}
	if lease.Context().Err() == nil {
		t.Error("the read outlived its engine")
	}
	released(t, lease)
	rwNothingLeftOn(t, s, key)
}

// More readers than one script admits: the last of them admits the rest.
func TestReadWriteManyReadersAtOnce(t *testing.T) {
	s := testenv.Redis(t)
	c, counted, key := locktest.RedisClient(t, s), &spy{}, s.Prefix+"{1}"
	rw := engine(t, c, handoff.Options{}).ReadWrite()
	const readers = 250
	held := holds(t, engine(t, locktest.RedisClient(t, s), handoff.Options{}).ReadWrite().Write(), key)
	first := queueing(t, s, rw.Read(), key, 1)
	c.AddHook(counted)
	got := []chan lock.Lease{first}
	for range readers - 1 {
		one, _ := async(t.Context(), rw.Read(), key)
		got = append(got, one)
	}
	eventually(t, "all queue", func() bool { return s.Client.ZCard(t.Context(), handoff.KeysOf(key).Queue).Val() == readers })
	released(t, held)
	var in []lock.Lease
	for _, one := range got {
		in = append(in, served(t, "a reader", one))
	}
	if n := counted.scripts.Load(); n > readers+10 {
		t.Errorf("%d commands for %d readers", n, readers)
	}
	busy(t, rw.Write(), key)
	for _, lease := range in {
		released(t, lease)
	}
	rwNothingLeftOn(t, s, key)
}

// A writer whose wait runs out while readers are in gives up its ownership.
func TestReadWriteBoundedWaitForReaders(t *testing.T) {
	s := testenv.Redis(t)
	rw, key := engine(t, locktest.RedisClient(t, s), handoff.Options{}).ReadWrite(), s.Prefix+"{1}"
	held := holds(t, rw.Read(), key)
	for _, wait := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond} {
		if _, err := rw.Write().Acquire(lock.WithWait(t.Context(), wait), key); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("Acquire with wait %s beside a reader = %v, want ErrBusy", wait, err)
		}
		eventually(t, "the gate is open", func() bool {
			lease, err := locktest.TryOnce(rw.Read(), key)
			if err == nil {
				released(t, lease)
			}
			return err == nil
		})
	}
	released(t, held)
	rwNothingLeftOn(t, s, key)
}

// The set of readers does not outlive the last of them, also where engines have different TTLs.
func TestReadWriteReadersExpire(t *testing.T) {
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	long := holds(t, engine(t, locktest.RedisClient(t, s), handoff.Options{TTL: time.Minute}).ReadWrite().Read(), key)
	short := holds(t, engine(t, locktest.RedisClient(t, s), handoff.Options{TTL: time.Second}).ReadWrite().Read(), key)
	if left := s.Client.PTTL(t.Context(), handoff.KeysOf(key).Readers).Val(); left > time.Minute || left < 30*time.Second {
		t.Errorf("the readers expire in %s, want a minute at most, and not with the shorter TTL", left)
	}
	released(t, long)
	released(t, short)
	rwNothingLeftOn(t, s, key)
}
