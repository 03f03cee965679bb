package lock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/internal/lock"
)

// keysUnder returns a source of keys below a prefix. They look like paths, which must not matter.
func keysUnder(prefix string) func() string {
	var n atomic.Int64
	return func() string { return fmt.Sprintf("%slock:{%d}", prefix, n.Add(1)) }
}

// soon is how long a test waits for what must happen.
const soon = 20 * time.Second

func obtain(t *testing.T, l lock.Locker, key string) lock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	// The lease outlives the bound on the attempt.
	lease, err := l.Acquire(lock.WithWait(t.Context(), soon), key)
	if err != nil || ctx.Err() != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return lease
}

func letGo(t *testing.T, lease lock.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

// wantBusy fails unless the lock is held.
func wantBusy(t *testing.T, l lock.Locker, key, why string) {
	t.Helper()
	lease, err := l.Acquire(lock.WithWait(t.Context(), 0), key)
	if err == nil {
		_ = lease.Release(t.Context())
	}
	if !errors.Is(err, lock.ErrBusy) {
		t.Errorf("%s: Acquire = %v, want ErrBusy", why, err)
	}
}

// wantLost waits for the end of a lease's context and returns how long that took.
func wantLost(t *testing.T, lease lock.Lease) time.Duration {
	t.Helper()
	start := time.Now()
	select {
	case <-lease.Context().Done():
	case <-time.After(soon):
		t.Fatalf("the holder was not told within %s", soon)
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause = %v, want ErrLost", cause)
	}
	return time.Since(start)
}

// sessionEnds is what every lock on a session must do when the session of its holder is ended at the server: tell the holder,
// let the rival in with a higher fence, and leave the rival's lock alone when the old holder releases.
func sessionEnds(t *testing.T, holder, rival lock.Locker, key string, within time.Duration, end func()) {
	t.Helper()
	lease := obtain(t, holder, key)
	end()
	if took := wantLost(t, lease); took > within {
		t.Errorf("the holder was told after %s, want at most %s", took, within)
	} else {
		t.Logf("told after %s", took.Round(time.Millisecond))
	}
	second := obtain(t, rival, key)
	if second.Fence() <= lease.Fence() {
		t.Errorf("the rival's fence is %d, after %d", second.Fence(), lease.Fence())
	}
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("late Release = %v, want ErrLost", err)
	}
	wantBusy(t, holder, key, "after the late Release, with a new session")
	letGo(t, second)
	letGo(t, obtain(t, holder, key))
}

// fencesRise takes and releases a key and wants every fence to be higher than the one before.
func fencesRise(t *testing.T, key string, all ...lock.Locker) {
	t.Helper()
	var last uint64
	for i := range 20 {
		lease := obtain(t, all[i%len(all)], key)
		if lease.Fence() <= last {
			t.Fatalf("fence %d after %d", lease.Fence(), last)
		}
		last = lease.Fence()
		letGo(t, lease)
	}
}

// fifo starts waiters one after the other behind a held lock and returns the order in which they got it. queued waits until n of
// them stand in the queue.
func fifo(t *testing.T, l lock.Locker, key string, n int, queued func(n int)) []int {
	t.Helper()
	lease := obtain(t, l, key)
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			lease, err := l.Acquire(lock.WithWait(t.Context(), soon), key)
			if err != nil {
				t.Errorf("Acquire: %v", err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			if err := lease.Release(context.Background()); err != nil {
				t.Errorf("Release: %v", err)
			}
		})
		queued(i + 2)
	}
	letGo(t, lease)
	wg.Wait()
	return order
}

// eventually polls until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", soon, what)
		}
	}
}

// relay is a TCP relay to one server. Cut, it swallows what comes and refuses nothing, as a network that drops packets does.
// With lose set it swallows the server's next answer and closes that connection. hello is the server's first answer.
type relay struct {
	net.Listener
	cut, lose atomic.Bool
	slow      atomic.Int64 // nanoseconds by which answers are late
	asked     atomic.Int64 // questions seen
	hello     chan []byte
	wg        sync.WaitGroup
	mu        sync.Mutex
	all       []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, hello: make(chan []byte, 1)}
	r.wg.Go(func() { r.serve(to) })
	t.Cleanup(func() {
		_ = l.Close()
		r.mu.Lock()
		for _, c := range r.all {
			_ = c.Close()
		}
		r.mu.Unlock()
		r.wg.Wait()
	})
	return r
}

// heal ends the cut, and the connections of that time, whose ends each wait for the other.
func (r *relay) heal() {
	r.cut.Store(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all {
		_ = c.Close()
	}
	r.all = nil
}

func (r *relay) serve(to string) {
	for {
		client, err := r.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", to)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.all = append(r.all, client, server)
		r.mu.Unlock()
		r.wg.Go(func() { r.pump(server, client, false) })
		r.wg.Go(func() { r.pump(client, server, true) })
	}
}

func (r *relay) pump(to, from net.Conn, answers bool) {
	defer func() {
		if !r.cut.Load() { // what is dropped includes the end of the connection
			_, _ = to.Close(), from.Close()
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if answers {
			select {
			case r.hello <- append([]byte(nil), buf[:n]...):
			default:
			}
			if r.lose.CompareAndSwap(true, false) {
				return
			}
			time.Sleep(time.Duration(r.slow.Load()))
		} else {
			r.asked.Add(1)
		}
		if r.cut.Load() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
