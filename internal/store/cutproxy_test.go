package store_test

import (
	"bytes"
	"net"
	"slices"
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
	http2   bool // the server speaks HTTP/2, and says more than answers
}

func newCutProxy(t *testing.T, upstream, pattern string) *cutProxy {
	t.Helper()
	return (&cutProxy{pattern: []byte(pattern)}).listen(t, upstream)
}

func (p *cutProxy) listen(t *testing.T, upstream string) *cutProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = l.Addr().String()
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
		var frames http2Frames
		p.pipe(client, server, func(said []byte) bool {
			if answer := frames.answer(said) || !p.http2; answer && cutting.Load() {
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

// http2Frames follows what an HTTP/2 server says, by the headers of its frames (RFC 9113, 4.1).
type http2Frames struct {
	head []byte // of the frame that has begun
	left int    // bytes of its payload that are to come
}

// answer reports whether an answer begins in what the server says next, which is a frame of data (0) or headers (1). All other frames, such as
// a ping to measure the bandwidth when a request comes, are sent before the request is served.
func (f *http2Frames) answer(said []byte) (answers bool) {
	for len(said) > 0 {
		n := min(f.left, len(said))
		said, f.left = said[n:], f.left-n
		n = min(9-len(f.head), len(said))
		if f.left > 0 {
			break
		}
		f.head, said = append(f.head, said[:n]...), said[n:]
		if len(f.head) == 9 {
			answers = answers || f.head[3] <= 1
			f.left, f.head = int(f.head[0])<<16|int(f.head[1])<<8|int(f.head[2]), nil
		}
	}
	return answers
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

// Frames are found wherever the stream is divided.
func TestHTTP2Frames(t *testing.T) {
	t.Parallel()
	settings, ping := []byte("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x01"), []byte("\x00\x00\x08\x06\x00\x00\x00\x00\x00\x00\x01\x00\x01\x00\x01\x00\x01")
	control := slices.Concat(settings, ping, settings)
	stream := slices.Concat(control, []byte("\x00\x00\x01\x01\x04\x00\x00\x00\x01x"))
	for size := 1; size <= len(stream); size++ {
		var f http2Frames
		var at, answers int
		for chunk := range slices.Chunk(stream, size) {
			at += len(chunk)
			if f.answer(chunk) {
				answers++
				if end := len(control) + 9; at < end || at-len(chunk) >= end {
					t.Errorf("in pieces of %d bytes: an answer in the piece that ends at %d, want the one with byte %d", size, at, end)
				}
			}
		}
		if answers != 1 {
			t.Errorf("in pieces of %d bytes: %d answers, want 1", size, answers)
		}
	}
}
