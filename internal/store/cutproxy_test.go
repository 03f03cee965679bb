package store_test

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// cutProxy stands between a client and its server. Once armed, it waits for a request that contains the pattern, forwards it, and cuts
// the connection when the answer comes.
type cutProxy struct {
	addr    string
	pattern []byte
	armed   atomic.Bool
	cuts    atomic.Int64
}

func newCutProxy(t *testing.T, upstream, pattern string) *cutProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutProxy{addr: l.Addr().String(), pattern: []byte(pattern)}
	var links sync.WaitGroup
	done := make(chan struct{})
	t.Cleanup(func() { close(done); l.Close(); links.Wait() })
	links.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			links.Go(func() { p.link(t, client, upstream, done) })
		}
	})
	return p
}

func (p *cutProxy) link(t *testing.T, client net.Conn, upstream string, done <-chan struct{}) {
	server, err := net.Dial("tcp", upstream)
	if err != nil {
		t.Errorf("proxy: %v", err)
		client.Close()
		return
	}
	var cutting atomic.Bool
	var both sync.WaitGroup
	ended := make(chan struct{})
	end := sync.OnceFunc(func() { close(ended); client.Close(); server.Close() })
	both.Go(func() {
		defer end()
		p.pipe(server, client, func(request []byte) bool {
			if bytes.Contains(request, p.pattern) && p.armed.CompareAndSwap(true, false) {
				cutting.Store(true)
			}
			return true
		})
	})
	both.Go(func() {
		defer end()
		p.pipe(client, server, func([]byte) bool {
			if cutting.Load() {
				p.cuts.Add(1)
				return false
			}
			return true
		})
	})
	select {
	case <-done:
		end()
	case <-ended:
	}
	both.Wait()
}

// pipe copies until either end closes or pass says no.
func (p *cutProxy) pipe(dst, src net.Conn, pass func([]byte) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if err != nil || !pass(buf[:n]) {
			return
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
	}
}
