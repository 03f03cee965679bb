package lock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
)

// wire is the network of one process inside a synctest bubble, which can be broken.
type wire struct {
	m       *miniredis.Miniredis
	down    atomic.Bool // no connection can be made
	replies atomic.Bool // answers and messages are lost
	calls   atomic.Bool // requests are lost
	deaf    atomic.Bool // messages are lost, answers are not
	slow    atomic.Bool // what the server sends takes a while
	mu      sync.Mutex
	conns   []*brittle
}

func (w *wire) dial(context.Context, string, string) (net.Conn, error) {
	if w.down.Load() {
		return nil, &net.OpError{Op: "dial", Err: errors.New("cut")}
	}
	conn, err := w.m.Dial()
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &brittle{Conn: conn, w: w, more: make(chan struct{}, 1)}
	go b.pump()
	w.conns = append(w.conns, b)
	return b, nil
}

// cut breaks every connection that there is.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

func (w *wire) client() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true, Dialer: w.dial,
		ReadTimeout: 200 * time.Millisecond, WriteTimeout: 200 * time.Millisecond, DialTimeout: 200 * time.Millisecond,
	})
}

// brittle is a connection that loses what its wire says. It always takes what the server sends, as a socket's buffer does:
// net.Pipe has none, and a server that waits for a reader would stop the bubble's clock.
type brittle struct {
	net.Conn
	w          *wire
	subscribed atomic.Bool
	mu         sync.Mutex
	buffer     []byte
	due        time.Time // when the buffer arrives
	err        error
	deadline   time.Time
	more       chan struct{}
}

// slowness is most of the time that a renewal waits for its answer, and a good part of a TTL.
const slowness = 90 * time.Millisecond

func (b *brittle) pump() {
	for p := make([]byte, 4096); ; {
		n, err := b.Conn.Read(p)
		message := b.subscribed.Load() && strings.Contains(string(p[:n]), "\r\nmessage\r\n")
		b.mu.Lock()
		if !b.w.replies.Load() && (!b.w.deaf.Load() || !message) {
			b.buffer = append(b.buffer, p[:n]...)
		}
		if b.w.slow.Load() {
			b.due = time.Now().Add(slowness)
		}
		b.err = err
		b.mu.Unlock()
		select {
		case b.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (b *brittle) Read(p []byte) (int, error) {
	for {
		b.mu.Lock()
		if wait := time.Until(b.due); wait > 0 {
			b.mu.Unlock()
			time.Sleep(wait)
			continue
		}
		n, err, until := copy(p, b.buffer), b.err, b.deadline
		b.buffer = b.buffer[n:]
		b.mu.Unlock()
		if n > 0 || err != nil {
			return n, err
		}
		var late <-chan time.Time
		if !until.IsZero() {
			late = time.After(time.Until(until))
		}
		select {
		case <-b.more:
		case <-late:
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (b *brittle) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "subscribe") {
		b.subscribed.Store(true)
	}
	if b.w.calls.Load() {
		return len(p), nil
	}
	return b.Conn.Write(p)
}

func (b *brittle) SetReadDeadline(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadline = t
	return nil
}

func (b *brittle) SetDeadline(t time.Time) error {
	return errors.Join(b.SetReadDeadline(t), b.SetWriteDeadline(t))
}

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

// network is a server and the wires to it, in a bubble.
func network(t *testing.T, processes int) (*miniredis.Miniredis, []*wire) {
	t.Helper()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	wires := make([]*wire, processes)
	for i := range wires {
		wires[i] = &wire{m: m}
	}
	return m, wires
}

// process is an engine on a wire of its own, closed with the test.
func (w *wire) process(t *testing.T, o lock.EngineOptions) *lock.Engine {
	t.Helper()
	c := w.client()
	t.Cleanup(func() { _ = c.Close() })
	return engine(t, c, o)
}

// Connections are cut, stall, lose requests or answers at random, in virtual time: nobody may believe beside another.
// LOCK_TEST_CUTS and LOCK_TEST_SEED set how often and which.
func TestEngineRandomCuts(t *testing.T) {
	for _, name := range []string{"handoff", "fair"} {
		t.Run(name, func(t *testing.T) {
			cuts, seed := number("LOCK_TEST_CUTS", 1000), number("LOCK_TEST_SEED", rand.Uint64())
			t.Logf("LOCK_TEST_SEED=%d LOCK_TEST_CUTS=%d", seed, cuts)
			synctest.Test(t, func(t *testing.T) { randomCuts(t, name, cuts, seed) })
		})
	}
}

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
		broken := []*atomic.Bool{&w.down, &w.replies, &w.calls, &w.deaf, &w.slow}[r.IntN(5)]
		if broken.Store(true); broken != &w.slow {
			w.cut()
		}
		time.Sleep(time.Duration(r.IntN(int(2*leaseTTL/time.Millisecond))) * time.Millisecond)
		broken.Store(false)
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

// nothingLeft fails where a lock that nobody wants has an owner or a queue.
func nothingLeft(t *testing.T, m *miniredis.Miniredis, key string) {
	t.Helper()
	for _, k := range lock.EngineKeys(key)[:2] {
		if m.Exists(k) {
			t.Errorf("%s is left behind:\n%s", k, m.Dump())
		}
	}
}
