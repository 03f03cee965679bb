package locktest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Relay is a TCP relay to one server. While it is cut, it swallows everything and refuses nothing, like a network that
// drops packets. Hello receives the server's first answer.
type Relay struct {
	net.Listener
	Cut   atomic.Bool
	Shut  atomic.Bool  // new connections are closed at once
	Hangs atomic.Bool  // nothing passes meanwhile, and all of it afterwards
	Slow  atomic.Int64 // nanoseconds by which answers are delayed
	Delay atomic.Int64 // nanoseconds by which questions and answers are delayed
	Asked atomic.Int64 // questions seen
	Hello chan []byte
	Lose  atomic.Pointer[Loss]
	to    atomic.Pointer[string]
	wg    sync.WaitGroup
	mu    sync.Mutex
	all   []net.Conn
}

// Loss is an answer that a relay will swallow before it closes the connection.
type Loss struct {
	// question sees everything that a client sends, until it returns a function that recognises the answer. Other answers
	// before that (such as to the client's own ping) pass: the test does not want to lose them.
	question func(sent []byte) func(received []byte) bool
	andCut   bool          // the network is cut from then on as well
	lost     chan struct{} // closed when the answer is lost
}

// Losing makes the relay lose one answer.
func (r *Relay) Losing(andCut bool, question func([]byte) func([]byte) bool) *Loss {
	l := &Loss{question: question, andCut: andCut, lost: make(chan struct{})}
	r.Lose.Store(l)
	return l
}

// Happened waits until the answer is lost; without the loss a test shows nothing.
func (l *Loss) Happened(t *testing.T) {
	t.Helper()
	select {
	case <-l.lost:
	case <-time.After(Soon):
		t.Fatalf("no answer was lost within %s", Soon)
	}
}

// NewRelay returns a relay to a server, closed with the test.
func NewRelay(t *testing.T, to string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Listener: l, Hello: make(chan []byte, 1)}
	r.to.Store(&to)
	r.wg.Go(r.serve)
	t.Cleanup(func() {
		r.Shut.Store(true)
		_ = l.Close()
		r.CloseAll()
		r.wg.Wait()
	})
	return r
}

// Heal ends the cut. It also closes the connections of that time, since both of their ends wait for each other.
func (r *Relay) Heal() {
	r.Cut.Store(false)
	r.CloseAll()
}

// Turn closes all connections, and directs new ones to another server.
func (r *Relay) Turn(to string) {
	r.to.Store(&to)
	r.CloseAll()
}

// CloseAll closes all open connections.
func (r *Relay) CloseAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all {
		_ = c.Close()
	}
	r.all = nil
}

func (r *Relay) serve() {
	for {
		client, err := r.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", *r.to.Load())
		if err == nil && r.Shut.Load() {
			_, err = server.Close(), net.ErrClosed
		}
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
	r              *Relay
	client, server net.Conn
	waiting        atomic.Pointer[awaited]
}

// awaited is the expected answer to a question that was seen.
type awaited struct {
	*Loss
	answer func([]byte) bool
}

func (c *relayed) questions() {
	c.pump(c.server, c.client, func(sent []byte) bool {
		c.r.Asked.Add(1)
		if l := c.r.Lose.Load(); l != nil {
			if answer := l.question(sent); answer != nil && c.r.Lose.CompareAndSwap(l, nil) {
				c.waiting.Store(&awaited{l, answer})
			}
		}
		return true
	})
}

func (c *relayed) answers() {
	c.pump(c.client, c.server, func(received []byte) bool {
		select {
		case c.r.Hello <- append([]byte(nil), received...):
		default:
		}
		if w := c.waiting.Load(); w != nil && w.answer(received) {
			c.r.Cut.Store(w.andCut)
			c.close()
			close(w.lost)
			return false
		}
		time.Sleep(time.Duration(c.r.Slow.Load()))
		return true
	})
}

func (c *relayed) close() { _, _ = c.client.Close(), c.server.Close() }

// pump relays until a connection ends, or look returns false.
func (c *relayed) pump(to, from net.Conn, look func([]byte) bool) {
	defer func() {
		if !c.r.Cut.Load() { // a cut relay also drops the end of the connection
			c.close()
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !look(buf[:n]) {
			return
		}
		for c.r.Hangs.Load() && !c.r.Shut.Load() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(c.r.Delay.Load()))
		if c.r.Cut.Load() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
