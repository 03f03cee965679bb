package handoff_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

// holders checks that no two leases of a lock are valid at a time: neither released, nor their contexts ended.
type holders struct {
	t     *testing.T
	mu    sync.Mutex
	now   map[lock.Lease]struct{}
	fence uint64
	seen  int
}

func (b *holders) enter(l lock.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.Context().Err() != nil {
		return
	}
	for other := range b.now {
		if other.Context().Err() == nil {
			b.t.Errorf("two holders at once: fences %d and %d", other.Fence(), l.Fence())
		}
	}
	if l.Fence() <= b.fence {
		b.t.Errorf("fence %d after %d, want it to rise", l.Fence(), b.fence)
	}
	b.now[l], b.fence = struct{}{}, l.Fence()
	b.seen++
}

func (b *holders) leave(l lock.Lease) {
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

// seedAndCuts are the seed and the number of cuts of one run. LOCK_TEST_SEED and LOCK_TEST_CUTS set them. The same seed makes the same
// faults at the same times, but the scheduler may run the goroutines in another order.
func seedAndCuts(t *testing.T) (seed, cuts uint64) {
	seed, cuts = number("LOCK_TEST_SEED", rand.Uint64()), number("LOCK_TEST_CUTS", 350)
	t.Logf("LOCK_TEST_SEED=%d LOCK_TEST_CUTS=%d", seed, cuts)
	return seed, cuts
}

// Connections are cut, stall, lose requests or replies or deliver them late, at random, in virtual time, and one process sends every script
// twice: there are never two holders (invariants 2 to 6).
func TestEngineRandomCuts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"handoff", "fair"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed, cuts := seedAndCuts(t)
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
	b := &holders{t: t, now: map[lock.Lease]struct{}{}}
	var ls []lock.Locker
	for i, w := range links {
		c, twice := w.retrying([]int{-1, 3, 1}[i]), &spy{}
		twice.resend.Store(i == 2)
		c.AddHook(twice)
		ls = append(ls, pick(w.processOn(t, c, handoff.Options{TTL: cutTTL}), name))
	}
	for i, l := range ls { // while the network is whole
		subscribe(t, l, ls[(i+1)%len(ls)])
	}
	stop := b.contend(ls, "k{1}", 2000, seed)
	r := rand.New(rand.NewPCG(seed, 1000))
	for range cuts {
		time.Sleep(time.Duration(r.IntN(80)) * time.Millisecond)
		w := links[r.IntN(len(links))]
		switch broken := r.IntN(7); broken {
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
	if b.seen < int(cuts)/2 {
		t.Errorf("%d acquisitions during %d cuts: too few to tell", b.seen, cuts)
	}
	t.Logf("%d acquisitions, %d cuts", b.seen, cuts)
	for _, w := range links {
		w.deliver()
	}
	time.Sleep(10 * time.Second)
	// A client that repeats by itself does not tell that a request may still arrive. The token that such a request queues belongs to no waiter,
	// and the next release removes it.
	for _, l := range ls {
		warmDespiteStale(t, l, "k{1}")
	}
	time.Sleep(time.Second)
	nothingLeft(t, m, "k{1}")
	return b.seen
}

// warmDespiteStale acquires and releases a lock. The last cut may have left broken connections idle in the client's pool: go-redis tells only
// real sockets that are closed from those that are open, and a client that never repeats reports each broken one as an error.
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

// The same over TCP to a real server, in real time.
func TestEngineRandomCutsOfTCP(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"handoff", "fair"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed, cuts := seedAndCuts(t)
			cutTCP(t, testenv.Redis(t), name, cuts/2, seed) // they take their time
		})
	}
}

// cutTCP returns how often the lock was acquired.
func cutTCP(t *testing.T, s *testenv.RedisServer, name string, cuts, seed uint64) int {
	key := s.Prefix + name + "{1}"
	b := &holders{t: t, now: map[lock.Lease]struct{}{}}
	var relays []*locktest.Relay
	var ls []lock.Locker
	for range 3 {
		r := locktest.NewRelay(t, s.Client.Options().Addr)
		o := *s.Client.Options()
		o.Addr, o.MaxRetries, o.ContextTimeoutEnabled = r.Addr().String(), -1, true
		o.Dialer = nil
		c := redis.NewClient(&o)
		t.Cleanup(func() { _ = c.Close() })
		relays, ls = append(relays, r), append(ls, pick(engine(t, c, handoff.Options{TTL: cutTTL}), name))
	}
	stop := b.contend(ls, key, 300, seed)
	dice := rand.New(rand.NewPCG(seed, 1000))
	for i := range cuts {
		if t.Failed() {
			break
		}
		if i%5 == 0 { // however slow the machine: between the faults somebody gets in
			healAll(relays)
			b.awaitAnotherHold()
		}
		time.Sleep(time.Duration(dice.IntN(20)) * time.Millisecond)
		r := relays[dice.IntN(len(relays))]
		switch dice.IntN(8) {
		case 0:
			r.Cut.Store(true) // and what was sent meanwhile is lost
			time.Sleep(time.Duration(dice.IntN(60)) * time.Millisecond)
		case 1:
			r.Slow.Store(int64(dice.IntN(10)) * int64(time.Millisecond))
		case 2:
			r.Losing(false, func([]byte) func([]byte) bool { return func([]byte) bool { return true } })
			continue
		}
		r.Heal()
	}
	healAll(relays)
	stop()
	t.Logf("%d acquisitions, %d cuts", b.seen, cuts)
	nothingLeftOn(t, s, key)
	return b.seen
}

// healAll ends all faults but cut connections.
func healAll(relays []*locktest.Relay) {
	for _, r := range relays {
		r.Slow.Store(0)
		r.Lose.Store(nil)
	}
}

// awaitAnotherHold waits until one more lease was acquired; over a healed network that takes at most a TTL.
func (b *holders) awaitAnotherHold() {
	count := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.seen
	}
	before := count()
	for start := time.Now(); count() == before; time.Sleep(time.Millisecond) {
		if time.Since(start) > testenv.Still {
			b.t.Errorf("nobody got in for %s", testenv.Still)
			return
		}
	}
}

// contend has goroutines take the lock until stop is called, which waits for them.
func (b *holders) contend(ls []lock.Locker, key string, most int, seed uint64) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i, l := range ls {
		for g := range 3 {
			r := rand.New(rand.NewPCG(seed, uint64(10*i+g)))
			wg.Go(func() {
				for ctx.Err() == nil {
					b.acquireOnce(ctx, l, key, most, r)
				}
			})
		}
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// acquireOnce takes the lock, works for a random time, and releases. It gives up after a random time of at most most ms.
func (b *holders) acquireOnce(ctx context.Context, l lock.Locker, key string, most int, r *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(most))*time.Millisecond)
	defer cancel()
	lease, err := l.Acquire(lock.WithWait(ctx, time.Duration(r.IntN(most))*time.Millisecond), key)
	if err != nil {
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		return
	}
	b.enter(lease)
	work := r.IntN(most / 30)
	if r.IntN(6) == 0 {
		work = r.IntN(most) // longer than a lease that is not renewed
	}
	working, done := context.WithTimeout(lease.Context(), time.Duration(work)*time.Millisecond)
	<-working.Done()
	done()
	b.leave(lease)
	_ = lease.Release(ctx)
}

// queued is how many tokens wait in the queue of a key.
func queued(m *miniredis.Miniredis, key string) int {
	tokens, _ := m.ZMembers(handoff.KeysOf(key).Queue)
	return len(tokens)
}

// nothingLeft fails if a free lock without waiters has an owner, a queue or readers.
func nothingLeft(t rapid.TB, m *miniredis.Miniredis, key string) {
	t.Helper()
	keys := handoff.KeysOf(key)
	for _, k := range []string{keys.Lock, keys.Queue, keys.Readers} {
		if m.Exists(k) {
			t.Errorf("%s is left behind:\n%s", k, m.Dump())
		}
	}
}
