package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
)

// rwHolders are the readers and writers whose leases are valid.
type rwHolders struct {
	t           *testing.T
	mu          sync.Mutex
	in          map[lock.Lease]bool // true = writes
	read, wrote uint64
	reads       int
	writes      int
}

func (c *rwHolders) enter(l lock.Lease, write bool) {
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
}

func (c *rwHolders) leave(l lock.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.in, l)
}

// Connections are cut, stall, lose requests or replies at random, in virtual time: a writer never shares the lock.
// LOCK_TEST_CUTS and LOCK_TEST_SEED set how often and which.
func TestReadWriteRandomCuts(t *testing.T) {
	cuts, seed := number("LOCK_TEST_CUTS", 300), number("LOCK_TEST_SEED", rand.Uint64())
	t.Logf("LOCK_TEST_SEED=%d LOCK_TEST_CUTS=%d", seed, cuts)
	synctest.Test(t, func(t *testing.T) { rwRandomCuts(t, cuts, seed) })
}

// rwRandomCuts returns the number of reads and writes.
func rwRandomCuts(t *testing.T, cuts, seed uint64) int {
	const leaseTTL = 300 * time.Millisecond
	m, links := network(t, 3)
	c := &rwHolders{t: t, in: map[lock.Lease]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	var es []*handoff.Engine
	for _, w := range links {
		es = append(es, w.process(t, handoff.Options{TTL: leaseTTL}))
	}
	for i, e := range es { // while the network is whole
		subscribe(t, e.Fair(), es[(i+1)%len(es)].Fair())
	}
	var wg sync.WaitGroup
	for i, e := range es {
		rw := e.ReadWrite()
		for g := range 3 {
			r := rand.New(rand.NewPCG(seed, uint64(10*i+g)))
			wg.Go(func() {
				for ctx.Err() == nil {
					readOrWriteOnce(ctx, rw, c, r)
				}
			})
		}
	}
	r := rand.New(rand.NewPCG(seed, 1000))
	for range cuts {
		time.Sleep(time.Duration(r.IntN(80)) * time.Millisecond)
		w := links[r.IntN(len(links))]
		if fault := r.IntN(5); fault == 4 {
			w.slow.Store(int64(90 * time.Millisecond))
		} else {
			[]*atomic.Bool{&w.down, &w.replies, &w.calls, &w.dropsMessages}[fault].Store(true)
			w.cut()
		}
		time.Sleep(time.Duration(r.IntN(int(2*leaseTTL/time.Millisecond))) * time.Millisecond)
		w.heal()
		if r.IntN(2) == 0 {
			w.cut()
		}
	}
	stop()
	wg.Wait()
	t.Logf("%d reads, %d writes, %d cuts", c.reads, c.writes, cuts)
	if c.reads < int(cuts)/2 || c.writes < int(cuts)/4 {
		t.Errorf("%d reads and %d writes during %d cuts: too few to tell", c.reads, c.writes, cuts)
	}
	time.Sleep(10 * time.Second)
	nothingLeft(t, m, "k{1}")
	return c.reads + c.writes
}

// readOrWriteOnce reads or writes once, for a random time. It gives up after a random time.
func readOrWriteOnce(ctx context.Context, rw handoff.ReadWrite, c *rwHolders, r *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(2000))*time.Millisecond)
	defer cancel()
	l, write := rw.Read(), r.IntN(3) == 0
	if write {
		l = rw.Write()
	}
	lease, err := l.Acquire(lock.WithWait(ctx, time.Duration(r.IntN(2000))*time.Millisecond), "k{1}")
	if err != nil {
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		return
	}
	c.enter(lease, write)
	work := r.IntN(60)
	if r.IntN(4) == 0 {
		work = r.IntN(1500) // longer than a lease that is not renewed
	}
	select {
	case <-lease.Context().Done():
	case <-time.After(time.Duration(work) * time.Millisecond):
	}
	c.leave(lease)
	_ = lease.Release(ctx)
}

// rwModel is what a fair read-write lock must be: readers or one writer, and a queue.
type rwModel struct {
	m           *miniredis.Miniredis
	rw          []handoff.ReadWrite // of two processes
	key         string
	in          []*rwLease
	queue       []*rwWaiter
	past        []*rwLease
	read, wrote uint64
}

type rwLease struct {
	lock.Lease
	write, lost bool
}

type rwWaiter struct {
	write  bool
	got    chan lock.Lease
	failed chan error
	cancel context.CancelFunc
}

func (s *rwModel) admits(write bool) bool {
	return len(s.in) == 0 || !write && !s.in[0].write
}

func (s *rwModel) enter(t *rapid.T, l lock.Lease, write bool) {
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
	s.in = append(s.in, &rwLease{Lease: l, write: write})
}

// settle checks that exactly the readers and writers that the model admits were granted the lock.
func (s *rwModel) settle(t *rapid.T) {
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

func (s *rwModel) locker(t *rapid.T) (l lock.Locker, write bool) {
	rw := rapid.SampledFrom(s.rw).Draw(t, "process")
	if write = rapid.Bool().Draw(t, "write"); write {
		return rw.Write(), true
	}
	return rw.Read(), false
}

// held reports whether anybody has the lock.
func (s *rwModel) held() bool { return len(s.in) > 0 }

func (s *rwModel) one(t *rapid.T) (i int) {
	return rapid.IntRange(0, len(s.in)-1).Draw(t, "lease")
}

func (s *rwModel) actions() map[string]action {
	return map[string]action{
		"try": {nil, func(t *rapid.T) {
			l, write := s.locker(t)
			lease, err := l.Acquire(lock.WithWait(context.Background(), 0), s.key)
			if free := len(s.queue) == 0 && s.admits(write); free && err == nil {
				s.enter(t, lease, write)
			} else if free || !errors.Is(err, lock.ErrBusy) {
				t.Fatalf("Acquire (write %t) = %v, free %t", write, err, free)
			}
		}},
		"wait": {func() bool { return len(s.queue) <= 6 }, func(t *rapid.T) {
			l, write := s.locker(t)
			ctx, cancel := context.WithCancel(context.Background())
			w := &rwWaiter{write: write, cancel: cancel}
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
		"re-enter":  {s.held, s.reenter},
		"time":      {nil, s.time},
		"lose":      {s.held, s.lose},
		"lose some": {s.held, s.lose},
	}
}

func (s *rwModel) reenter(t *rapid.T) {
	outer := s.in[s.one(t)]
	l, write := s.locker(t)
	ctx := lock.WithWait(outer.Context(), 0)
	inner, err := l.Acquire(ctx, s.key)
	switch {
	case errors.Is(err, lock.ErrBusy): // the lease is of the other process
	case write && !outer.write:
		if !errors.Is(err, handoff.ErrUpgrade) {
			t.Fatalf("a write within a read = %v", err)
		}
	case err != nil:
		t.Fatalf("re-entry = %v", err)
	default: // counted; or, in the other process, one more reader
		if outer.write && inner.Fence() != outer.Fence() || inner.Release(context.Background()) != nil || outer.Context().Err() != nil {
			t.Fatal("re-entry disturbed the hold")
		}
		s.read = max(s.read, inner.Fence()*map[bool]uint64{true: 0, false: 1}[outer.write])
	}
}

func (s *rwModel) time(t *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
	for _, l := range s.in {
		if l.Context().Err() != nil {
			t.Fatalf("a hold (write %t) was not renewed", l.write)
		}
	}
	s.settle(t)
}

// lose deletes the lock, or all readers, as an operator might.
func (s *rwModel) lose(t *rapid.T) {
	l := s.in[s.one(t)]
	if keys := handoff.KeysOf(s.key); l.write {
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

func TestReadWriteStateMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { rwStateMachine(t) })
}

// rwStateMachine returns how many sequences it has run.
func rwStateMachine(t *testing.T) (runs int) {
	m, links := network(t, 2)
	var rw []handoff.ReadWrite
	for _, w := range links {
		rw = append(rw, w.process(t, handoff.Options{}).ReadWrite())
	}
	rapid.Check(bubbled{t}, func(t *rapid.T) {
		runs++
		s := &rwModel{m: m, rw: rw, key: fmt.Sprintf("k{%d}", runs)}
		repeat(t, s.actions())
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
		synctest.Wait()
		nothingLeft(t, m, s.key)
	})
	return runs
}

// Five hundred readers of one key share their renewals, a hundred to a command.
func TestReadWriteRenewalsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, links := network(t, 1)
		c, counted := links[0].client(), &spy{}
		t.Cleanup(func() { _ = c.Close() })
		c.AddHook(counted)
		rw := engine(t, c, handoff.Options{}).ReadWrite()
		const readers = 500
		for range readers {
			locktest.Obtain(t, rw.Read(), "k{1}")
			time.Sleep(time.Millisecond)
		}
		before := counted.scripts.Load()
		const minutes = 5
		time.Sleep(minutes * time.Minute)
		if got := float64(counted.scripts.Load()-before) / (minutes * 60); got > readers/100/float64(locktest.TTL/time.Second)*4 {
			t.Errorf("%.2f renewals a second for %d readers", got, readers)
		}
		if in, err := m.ZMembers(handoff.KeysOf("k{1}").Readers); err != nil || len(in) != readers {
			t.Errorf("%d readers are in, want %d", len(in), readers)
		}
	})
}
