package lock_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// relay is a TCP relay to one server. Cut, it swallows what comes and refuses nothing, as a network that drops packets does.
// hello is the server's first answer.
type relay struct {
	net.Listener
	cut   atomic.Bool
	slow  atomic.Int64 // nanoseconds by which answers are late
	asked atomic.Int64 // questions seen
	hello chan []byte
	lose  atomic.Pointer[loss]
	wg    sync.WaitGroup
	mu    sync.Mutex
	all   []net.Conn
}

// loss is an answer that a relay is to swallow, and to close its connection.
type loss struct {
	// question looks at what a client sends, until it returns a function that knows the answer. Whatever else the server says
	// before that (to a ping of the client's own) is let through: it is not what a test wants to have lost.
	question func(sent []byte) func(received []byte) bool
	andCut   bool          // nor is there a network from then on
	lost     chan struct{} // closed when it is
}

// losing has the relay lose an answer.
func (r *relay) losing(andCut bool, question func([]byte) func([]byte) bool) *loss {
	l := &loss{question: question, andCut: andCut, lost: make(chan struct{})}
	r.lose.Store(l)
	return l
}

// happened waits for it: without it a test shows nothing.
func (l *loss) happened(t *testing.T) {
	t.Helper()
	select {
	case <-l.lost:
	case <-time.After(soon):
		t.Fatalf("no answer was lost within %s", soon)
	}
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
		r.closeAll()
		r.wg.Wait()
	})
	return r
}

// heal ends the cut, and the connections of that time, whose ends each wait for the other.
func (r *relay) heal() {
	r.cut.Store(false)
	r.closeAll()
}

func (r *relay) closeAll() {
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
		c := &relayed{r: r, client: client, server: server}
		r.wg.Go(c.questions)
		r.wg.Go(c.answers)
	}
}

// relayed is one connection through a relay.
type relayed struct {
	r              *relay
	client, server net.Conn
	waiting        atomic.Pointer[awaited]
}

// awaited is the answer to a question that was seen.
type awaited struct {
	*loss
	answer func([]byte) bool
}

func (c *relayed) questions() {
	c.pump(c.server, c.client, func(sent []byte) bool {
		c.r.asked.Add(1)
		if l := c.r.lose.Load(); l != nil {
			if answer := l.question(sent); answer != nil && c.r.lose.CompareAndSwap(l, nil) {
				c.waiting.Store(&awaited{l, answer})
			}
		}
		return true
	})
}

func (c *relayed) answers() {
	c.pump(c.client, c.server, func(received []byte) bool {
		select {
		case c.r.hello <- append([]byte(nil), received...):
		default:
		}
		if w := c.waiting.Load(); w != nil && w.answer(received) {
			c.r.cut.Store(w.andCut)
			c.close()
			close(w.lost)
			return false
		}
		time.Sleep(time.Duration(c.r.slow.Load()))
		return true
	})
}

func (c *relayed) close() { _, _ = c.client.Close(), c.server.Close() }

// pump relays until a connection ends, or look says so.
func (c *relayed) pump(to, from net.Conn, look func([]byte) bool) {
	defer func() {
		if !c.r.cut.Load() { // what is dropped includes the end of the connection
			c.close()
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !look(buf[:n]) {
			return
		}
		if c.r.cut.Load() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
