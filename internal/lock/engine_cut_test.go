package lock_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lastitem/internal/lock"
)

// believers are the holders that think they hold the lock: their context has not ended, they have not released.
type believers struct {
	t     *testing.T
	mu    sync.Mutex
	now   map[lock.Lease]struct{}
	fence uint64
	seen  int
}

func (b *believers) enter(l lock.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.Context().Err() != nil {
		return
	}
	for other := range b.now {
		if other.Context().Err() == nil {
			b.t.Errorf("two believers at once: fences %d and %d", other.Fence(), l.Fence())
		}
	}
	if l.Fence() <= b.fence {
		b.t.Errorf("fence %d after %d, want it to rise", l.Fence(), b.fence)
	}
	b.now[l], b.fence = struct{}{}, l.Fence()
	b.seen++
}

func (b *believers) leave(l lock.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.now, l)
}

// number reads a number from the environment; the seed and the length of the long runs.
func number(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// Connections are cut, stall, lose requests or answers at random, in virtual time: nobody may believe beside another.
// LOCK_TEST_CUTS and LOCK_TEST_SEED set how often and which.
func TestEngineRandomCuts(t *testing.T) {
	for _, name := range []string{"handoff", "fair"} {
		t.Run(name, func(t *testing.T) {
			cuts, seed := number("LOCK_TEST_CUTS", 500), number("LOCK_TEST_SEED", rand.Uint64())
			t.Logf("LOCK_TEST_SEED=%d LOCK_TEST_CUTS=%d", seed, cuts)
			synctest.Test(t, func(t *testing.T) { randomCuts(t, name, cuts, seed) })
		})
	}
}

// slowness is most of the time that a renewal waits for its answer, and a good part of a TTL.
const slowness = 90 * time.Millisecond

func randomCuts(t *testing.T, name string, cuts, seed uint64) {
	const leaseTTL = 300 * time.Millisecond
	m, wires := network(t, 3)
	b := &believers{t: t, now: map[lock.Lease]struct{}{}}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i, w := range wires {
		l := pick(w.process(t, lock.EngineOptions{TTL: leaseTTL}), name)
		for g := range 3 {
			r := rand.New(rand.NewPCG(seed, uint64(10*i+g)))
			wg.Go(func() {
				for ctx.Err() == nil {
					contend(ctx, l, b, r)
				}
			})
		}
	}
	r := rand.New(rand.NewPCG(seed, 1000))
	for range cuts {
		time.Sleep(time.Duration(r.IntN(80)) * time.Millisecond)
		w := wires[r.IntN(len(wires))]
		if broken := r.IntN(5); broken < 4 {
			[]*atomic.Bool{&w.down, &w.replies, &w.calls, &w.deaf}[broken].Store(true)
			w.cut()
		} else {
			w.slow.Store(int64(slowness))
		}
		time.Sleep(time.Duration(r.IntN(int(2*leaseTTL/time.Millisecond))) * time.Millisecond)
		w.heal()
		if r.IntN(2) == 0 {
			w.cut()
		}
	}
	stop()
	wg.Wait()
	if b.seen < int(cuts)/2 {
		t.Errorf("%d acquisitions during %d cuts: too few to tell", b.seen, cuts)
	}
	t.Logf("%d acquisitions, %d cuts", b.seen, cuts)
	time.Sleep(10 * time.Second)
	nothingLeft(t, m, "k{1}")
}

// contend takes the lock once, works for a random time, and releases, waits and gives up as its dice have it.
func contend(ctx context.Context, l lock.Locker, b *believers, r *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(2000))*time.Millisecond)
	defer cancel()
	lease, err := l.Acquire(lock.WithWait(ctx, time.Duration(r.IntN(2000))*time.Millisecond), "k{1}")
	if err != nil {
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		return
	}
	b.enter(lease)
	work := r.IntN(60)
	if r.IntN(4) == 0 {
		work = r.IntN(1500) // longer than a lease that is not renewed
	}
	select {
	case <-lease.Context().Done():
	case <-time.After(time.Duration(work) * time.Millisecond):
	}
	b.leave(lease)
	_ = lease.Release(ctx)
}

// queued is how many tokens wait in the queue of a key.
func queued(m *miniredis.Miniredis, key string) int {
	tokens, _ := m.ZMembers(lock.EngineKeys(key)[1])
	return len(tokens)
}

// nothingLeft fails where a lock that nobody wants has an owner or a queue.
func nothingLeft(t *testing.T, m *miniredis.Miniredis, key string) {
	t.Helper()
	for _, k := range lock.EngineKeys(key)[:2] {
		if m.Exists(k) {
			t.Errorf("%s is left behind:\n%s", k, m.Dump())
		}
	}
}
