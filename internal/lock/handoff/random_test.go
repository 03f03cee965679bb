package handoff_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
)

// inside checks that nobody shares the lock with a writer, and that fences rise. The holder of an exclusive lock is a
// writer. A lease is valid until it is released or its context has ended.
type inside struct {
	t             *testing.T
	mu            sync.Mutex
	in            map[lock.Lease]bool // true = writes
	read, wrote   uint64              // the highest fences
	reads, writes int
	most          int // at a time
}

func newInside(t *testing.T) *inside { return &inside{t: t, in: map[lock.Lease]bool{}} }

func (c *inside) enter(l lock.Lease, write bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.Context().Err() != nil {
		return
	}
	for other, writes := range c.in {
		if (write || writes) && other.Context().Err() == nil {
			c.t.Errorf("fence %d (write %t) is in beside fence %d (write %t)", l.Fence(), write, other.Fence(), writes)
		}
	}
	if f := l.Fence(); f <= c.wrote || write && f <= c.read {
		c.t.Errorf("fence %d (write %t) after write %d and read %d, want it to rise", f, write, c.wrote, c.read)
	}
	if c.in[l] = write; write {
		c.wrote = l.Fence()
		c.writes++
	} else {
		c.read = max(c.read, l.Fence())
		c.reads++
	}
	c.most = max(c.most, len(c.in))
}

func (c *inside) leave(l lock.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.in, l)
}

// turn is the lock that is taken next: name, or "rw", and then a write or a read. exclusive says that nobody else may
// be in.
func turn(e *handoff.Engine, name string, write bool) (l lock.Locker, exclusive bool) {
	switch {
	case name != "rw":
		return pick(e, name), true
	case write:
		return e.ReadWrite().Write(), true
	default:
		return e.ReadWrite().Read(), false
	}
}

// number reads a number from the environment; the seed and the length of the long runs.
func number(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// Connections are cut, stall, lose requests or replies or deliver them late, at random, in virtual time, and one
// process sends every script twice: there are never two holders, or a writer beside anybody (invariants 2 to 6).
// LOCK_TEST_SEED and LOCK_TEST_CUTS set which faults and how many. The same seed makes the same faults at the same
// times, but the scheduler may run the goroutines in another order.
func TestEngineRandomCuts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"handoff", "fair", "rw"} {
		t.Run(name, func(t *testing.T) {
			seed, cuts := number("LOCK_TEST_SEED", rand.Uint64()), number("LOCK_TEST_CUTS", 100)
			t.Logf("LOCK_TEST_SEED=%d LOCK_TEST_CUTS=%d", seed, cuts)
			synctest.Test(t, func(t *testing.T) { randomCuts(t, name, cuts, seed) })
		})
	}
}

// cutTTL is short, so that many leases are lost. slowness is most of the time that a renewal waits for its answer.
const (
	cutTTL   = 300 * time.Millisecond
	slowness = 90 * time.Millisecond
)

// randomCuts returns how often the lock was acquired.
func randomCuts(t *testing.T, name string, cuts, seed uint64) int {
	m, links := network(t, 3)
	b, faults := newInside(t), 7
	var es []*handoff.Engine
	for i, w := range links {
		retries, twice := []int{-1, 3, 1}[i], &spy{}
		twice.resend.Store(i == 2)
		if name == "rw" {
			retries, faults = -1, 5
			twice.resend.Store(false)
		}
		c := w.retrying(retries)
		c.AddHook(twice)
		es = append(es, w.processOn(t, c, handoff.Options{TTL: cutTTL}))
	}
	for i, e := range es { // while the network is whole
		subscribe(t, e.Fair(), es[(i+1)%len(es)].Fair())
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i, e := range es {
		for g := range 3 {
			r := rand.New(rand.NewPCG(seed, uint64(10*i+g)))
			wg.Go(func() {
				for ctx.Err() == nil {
					b.once(ctx, e, name, r)
				}
			})
		}
	}
	r := rand.New(rand.NewPCG(seed, 1000))
	for range cuts {
		time.Sleep(time.Duration(r.IntN(80)) * time.Millisecond)
		w := links[r.IntN(len(links))]
		switch broken := r.IntN(faults); broken {
		case 4:
			w.slow.Store(int64(slowness))
		case 5:
			w.keep.Store(true)
		case 6:
			w.lateMessages.Store(int64(r.IntN(int(3 * cutTTL))))
			w.calls.Store(r.IntN(2) == 0) // then no poll finds a grant whose message is late
		default:
			[]*atomic.Bool{&w.down, &w.replies, &w.calls, &w.dropsMessages}[broken].Store(true)
			w.cut()
		}
		time.Sleep(time.Duration(r.IntN(int(2*cutTTL/time.Millisecond))) * time.Millisecond)
		w.heal()
		if r.IntN(2) == 0 {
			w.cut()
		}
		if r.IntN(3) == 0 {
			w.deliver()
		}
	}
	stop()
	wg.Wait()
	t.Logf("%d reads, %d writes, %d cuts", b.reads, b.writes, cuts)
	if b.reads+b.writes < int(cuts)/2 || name == "rw" && b.reads < int(cuts)/2 {
		t.Error("too few to tell")
	}
	for _, w := range links {
		w.deliver()
	}
	time.Sleep(10 * time.Second)
	// A client that repeats by itself does not tell that a request may still arrive. The token that such a request queues
	// belongs to no waiter, and the next release removes it.
	for _, e := range es {
		warmDespiteStale(t, e.Fair(), "k{1}")
	}
	time.Sleep(time.Second)
	nothingLeft(t, m, "k{1}")
	return b.reads + b.writes
}

// once takes the lock, works for a random time, and releases. It gives up after a random time.
func (c *inside) once(ctx context.Context, e *handoff.Engine, name string, r *rand.Rand) {
	const most = 2000
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(most))*time.Millisecond)
	defer cancel()
	l, write := turn(e, name, r.IntN(3) == 0)
	lease, err := l.Acquire(lock.WithWait(ctx, time.Duration(r.IntN(most))*time.Millisecond), "k{1}")
	if err != nil {
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		return
	}
	c.enter(lease, write)
	work := r.IntN(60)
	if r.IntN(5) == 0 {
		work = r.IntN(most) // longer than a lease that is not renewed
	}
	working, done := context.WithTimeout(lease.Context(), time.Duration(work)*time.Millisecond)
	<-working.Done()
	done()
	c.leave(lease)
	_ = lease.Release(ctx)
}

// warmDespiteStale acquires and releases a lock. The last cut may have left broken connections idle in the client's
// pool: go-redis tells only real sockets that are closed from those that are open, and a client that never repeats
// reports each broken one as an error.
func warmDespiteStale(t *testing.T, l lock.Locker, key string) {
	t.Helper()
	for range 100 {
		lease, err := l.Acquire(lock.WithWait(t.Context(), locktest.Soon), key)
		if err == nil {
			locktest.Release(t, lease)
			return
		}
		if !errors.Is(err, lock.ErrUnavailable) {
			t.Fatalf("Acquire: %v", err)
		}
	}
	t.Fatal("100 attempts over a whole network met broken connections only")
}

// queued is how many tokens wait in the queue of a key.
func queued(m *miniredis.Miniredis, key string) int {
	tokens, _ := m.ZMembers(handoff.KeysOf(key).Queue)
	return len(tokens)
}

// nothingLeft fails if a free lock without waiters has an owner, a queue or readers, once all in the bubble has been
// done.
func nothingLeft(t rapid.TB, m *miniredis.Miniredis, key string) {
	t.Helper()
	synctest.Wait()
	keys := handoff.KeysOf(key)
	for _, k := range []string{keys.Lock, keys.Queue, keys.Readers} {
		if m.Exists(k) {
			t.Errorf("%s is left behind:\n%s", k, m.Dump())
		}
	}
}

// model is what a fair lock must be: readers or one writer, a queue, and leases that remember how they ended. Who holds
// an exclusive lock is a writer.
type model struct {
	m           *miniredis.Miniredis
	es          []*handoff.Engine // two processes
	rw          bool
	key         string
	in          []*modelLease
	queue       []*modelWaiter
	past        []*modelLease
	read, wrote uint64
}

type modelLease struct {
	lock.Lease
	write, lost bool
}

type modelWaiter struct {
	write  bool
	got    chan lock.Lease
	failed chan error
	cancel context.CancelFunc
}

func (s *model) admits(write bool) bool { return len(s.in) == 0 || !write && !s.in[0].write }

func (s *model) enter(t *rapid.T, l lock.Lease, write bool) {
	if f := l.Fence(); f <= s.wrote || write && f <= s.read {
		t.Fatalf("fence %d (write %t) after write %d and read %d", f, write, s.wrote, s.read)
	}
	if err := l.Context().Err(); err != nil {
		t.Fatalf("a new lease has ended: %v", err)
	}
	if write {
		s.wrote = l.Fence()
	} else {
		s.read = max(s.read, l.Fence())
	}
	s.in = append(s.in, &modelLease{Lease: l, write: write})
}

// settle checks that exactly the waiters that the model admits were granted the lock.
func (s *model) settle(t *rapid.T) {
	synctest.Wait()
	for len(s.queue) > 0 && s.admits(s.queue[0].write) {
		w := s.queue[0]
		select {
		case l := <-w.got:
			s.enter(t, l, w.write)
		case err := <-w.failed:
			t.Fatalf("the first waiter (write %t) failed: %v", w.write, err)
		default:
			t.Fatalf("the first waiter (write %t) has not got in beside %d", w.write, len(s.in))
		}
		s.queue = s.queue[1:]
	}
	for i, w := range s.queue {
		if len(w.got)+len(w.failed) > 0 {
			t.Fatalf("waiter %d (write %t) was served beside %d", i, w.write, len(s.in))
		}
	}
}

// locker draws a process and one of its locks. Of the exclusive locks only Fair serves waiters of several processes in
// order.
func (s *model) locker(t *rapid.T, waits bool) (l lock.Locker, write bool) {
	e, name := rapid.SampledFrom(s.es).Draw(t, "process"), "rw"
	if !s.rw {
		name = "fair"
		if !waits {
			name = rapid.SampledFrom([]string{"handoff", "fair"}).Draw(t, "kind")
		}
	}
	return turn(e, name, rapid.Bool().Draw(t, "write"))
}

// held reports whether anybody has the lock.
func (s *model) held() bool { return len(s.in) > 0 }

func (s *model) one(t *rapid.T) (i int) {
	return rapid.IntRange(0, len(s.in)-1).Draw(t, "lease")
}

// action is what a state machine may do. It is drawn only if it is possible now; nil = it always is.
type action struct {
	possible func() bool
	do       func(*rapid.T)
}

func (s *model) actions() map[string]action {
	return map[string]action{
		"try": {nil, func(t *rapid.T) {
			l, write := s.locker(t, false)
			lease, err := l.Acquire(lock.WithWait(context.Background(), 0), s.key)
			if free := len(s.queue) == 0 && s.admits(write); free && err == nil {
				s.enter(t, lease, write)
			} else if free || !errors.Is(err, lock.ErrBusy) {
				t.Fatalf("Acquire (write %t) = %v, free %t", write, err, free)
			}
		}},
		"wait": {func() bool { return len(s.queue) <= 6 }, func(t *rapid.T) {
			l, write := s.locker(t, true)
			ctx, cancel := context.WithCancel(context.Background())
			w := &modelWaiter{write: write, cancel: cancel}
			w.got, w.failed = waits(ctx, l, s.key)
			s.queue = append(s.queue, w)
			s.settle(t)
		}},
		"cancel": {func() bool { return len(s.queue) > 0 }, func(t *rapid.T) {
			i := rapid.IntRange(0, len(s.queue)-1).Draw(t, "waiter")
			s.queue[i].cancel()
			if err := <-s.queue[i].failed; !errors.Is(err, context.Canceled) {
				t.Fatalf("cancelled Acquire = %v", err)
			}
			s.queue = slices.Delete(s.queue, i, i+1)
			s.settle(t)
		}},
		"release": {s.held, func(t *rapid.T) {
			i := s.one(t)
			l := s.in[i]
			if err := l.Release(context.Background()); err != nil {
				t.Fatalf("Release = %v", err)
			}
			s.in, s.past = slices.Delete(s.in, i, i+1), append(s.past, l)
			s.settle(t)
		}},
		"release again": {func() bool { return len(s.past) > 0 }, func(t *rapid.T) {
			l := rapid.SampledFrom(s.past).Draw(t, "lease")
			if err := l.Release(context.Background()); errors.Is(err, lock.ErrLost) != l.lost || !l.lost && err != nil {
				t.Fatalf("Release again = %v, lost %t", err, l.lost)
			}
		}},
		"re-enter": {s.held, s.reenter},
		"time":     {nil, s.time},
		"lose":     {s.held, s.lose},
	}
}

func (s *model) reenter(t *rapid.T) {
	outer := s.in[s.one(t)]
	l, write := s.locker(t, false)
	inner, err := l.Acquire(lock.WithReentry(lock.WithWait(outer.Context(), 0)), s.key)
	switch {
	case errors.Is(err, lock.ErrBusy): // the lease is of the other process
	case write && !outer.write:
		if !errors.Is(err, handoff.ErrUpgrade) {
			t.Fatalf("a write within a read = %v", err)
		}
	case err != nil:
		t.Fatalf("re-entry = %v", err)
	default: // counted; or, in the other process, one more reader
		if outer.write && inner.Fence() != outer.Fence() || inner.Release(context.Background()) != nil ||
			outer.Context().Err() != nil {
			t.Fatal("re-entry disturbed the hold")
		}
		if !outer.write {
			s.read = max(s.read, inner.Fence())
		}
	}
}

func (s *model) time(t *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
	for _, l := range s.in {
		if l.Context().Err() != nil {
			t.Fatalf("a hold (write %t) was not renewed", l.write)
		}
	}
	s.settle(t)
}

// lose deletes the lock, or all readers, as an operator might.
func (s *model) lose(t *rapid.T) {
	if keys := handoff.KeysOf(s.key); s.in[0].write {
		s.m.Del(keys.Lock)
	} else {
		s.m.Del(keys.Readers)
	}
	time.Sleep(locktest.TTL)
	for _, l := range s.in {
		if !errors.Is(context.Cause(l.Context()), lock.ErrLost) {
			t.Fatal("the holder was not told")
		}
		l.lost = true
		if err := l.Release(context.Background()); !errors.Is(err, lock.ErrLost) {
			t.Fatalf("Release of a lost lease = %v", err)
		}
	}
	s.in, s.past = nil, append(s.past, s.in...)
	s.settle(t)
}

// bubbled is a test inside a bubble, where a test has no deadline to be asked for.
type bubbled struct{ *testing.T }

func TestStateMachine(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"exclusive", "read-write"} {
		inBubble(t, name, func(t *testing.T) { stateMachine(t, name == "read-write", 40) })
	}
}

// stateMachine runs sequences of at most so many actions in a bubble, and returns how many it has checked.
func stateMachine(t *testing.T, rw bool, most int) (runs int) {
	m, links := network(t, 2)
	var es []*handoff.Engine
	for _, w := range links {
		es = append(es, w.process(t, handoff.Options{}))
	}
	rapid.Check(bubbled{t}, func(t *rapid.T) {
		runs++
		s := &model{m: m, es: es, rw: rw, key: fmt.Sprintf("k{%d}", runs)}
		all := s.actions()
		names := slices.Sorted(maps.Keys(all))
		for range rapid.IntRange(1, most).Draw(t, "actions") {
			now := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				can := all[name].possible
				return can != nil && !can()
			})
			all[rapid.SampledFrom(now).Draw(t, "action")].do(t)
		}
		for _, w := range s.queue { // a writer that leaves may admit the readers after it, before they leave too
			w.cancel()
			select {
			case <-w.failed:
			case l := <-w.got:
				_ = l.Release(context.Background())
			}
		}
		for _, l := range s.in {
			_ = l.Release(context.Background())
		}
		nothingLeft(t, m, s.key)
	})
	return runs
}

// TestEngineSoak repeats the random cuts and the state machines for as long as LOCK_TEST_SOAK says ('make soak'). Each
// round has a seed of its own, which is printed; LOCK_TEST_SEED is that of the first, so that a round that failed is
// repeated by giving its seed and a short time. A round that hangs ends the test with all goroutines.
func TestEngineSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("LOCK_TEST_SOAK"))
	if err != nil {
		return // it is not asked for
	}
	const (
		cuts       = 500
		roundLimit = 10 * time.Minute // a round takes one or two
	)
	first, rounds, acquired, runs := number("LOCK_TEST_SEED", rand.Uint64()), 0, 0, 0
	stuck := time.AfterFunc(roundLimit, func() {
		debug.SetTraceback("all")
		panic("soak: the last round has not ended in " + roundLimit.String())
	})
	defer stuck.Stop()
	for end := time.Now().Add(length); rounds == 0 || time.Now().Before(end) && !t.Failed(); rounds++ {
		seed := first + uint64(rounds)
		fmt.Printf("soak: LOCK_TEST_SEED=%d\n", seed)
		stuck.Reset(roundLimit)
		for _, name := range []string{"handoff", "fair", "rw"} {
			inBubble(t, fmt.Sprint(seed, " ", name), func(t *testing.T) { acquired += randomCuts(t, name, cuts, seed) })
		}
		testkit.Must(t, flag.Set("rapid.seed", strconv.FormatUint(max(seed, 1), 10))) // 0 is chance
		for _, rw := range []bool{false, true} {
			inBubble(t, fmt.Sprint(seed, " ", rw), func(t *testing.T) { runs += stateMachine(t, rw, 150) })
		}
	}
	fmt.Printf("soak: %d rounds, seeds %d to %d: %d random cuts with %d acquisitions in virtual time, %d sequences of "+
		"the state machines\n", rounds, first, first+uint64(rounds)-1, 3*cuts*rounds, acquired, runs)
}
