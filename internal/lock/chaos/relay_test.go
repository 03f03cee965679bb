//go:build linux

package chaos_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// relay is the network between one process and its Redis.
type relay struct {
	l      net.Listener
	target atomic.Pointer[string]
	delay  atomic.Int64 // nanoseconds, for each chunk that passes
	shut   atomic.Bool  // new connections are closed at once
	hangs  atomic.Bool  // nothing passes, and connections stay open

	mu    sync.Mutex
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{l: l, conns: map[net.Conn]bool{}}
	r.target.Store(&to)
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		r.heal()
		r.shut.Store(true)
		_ = l.Close()
		r.cut()
		r.wg.Wait()
	})
	return r
}

func (r *relay) accept() {
	for {
		client, err := r.l.Accept()
		if err != nil {
			return
		}
		server, err := net.DialTimeout("tcp", *r.target.Load(), patience)
		if err != nil || r.shut.Load() {
			_ = client.Close()
			if server != nil {
				_ = server.Close()
			}
			continue
		}
		r.mu.Lock()
		r.conns[client], r.conns[server] = true, true
		r.mu.Unlock()
		r.wg.Go(func() { r.pump(client, server) })
		r.wg.Go(func() { r.pump(server, client) })
	}
}

func (r *relay) pump(to, from net.Conn) {
	defer func() {
		_, _ = to.Close(), from.Close()
		r.mu.Lock()
		delete(r.conns, to)
		delete(r.conns, from)
		r.mu.Unlock()
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		for r.hangs.Load() && !r.shut.Load() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(r.delay.Load()))
		if _, failed := to.Write(buf[:n]); err != nil || failed != nil {
			return
		}
	}
}

// cut ends all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
}

func (r *relay) heal() {
	r.hangs.Store(false)
	r.shut.Store(false)
	r.delay.Store(0)
}

// turn cuts all connections, and directs new ones to another server.
func (r *relay) turn(to string) {
	r.target.Store(&to)
	r.cut()
}
