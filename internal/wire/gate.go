package wire

import (
	"fmt"
	"net"
	"sync"
)

// Gate is a proxy before one server that can hold back what passes: a command that has not reached the server, or an answer that
// has not reached the client. What a connection sends behind something that is held waits with it. Where a client gives up and
// closes its connection, what is held still arrives when it is let pass, as it would from a network.
type Gate struct {
	// Addr is where the client shall connect to: host:port on loopback.
	Addr string

	protocol Protocol
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	closed chan struct{}
	target string
	armed  []*Hold // that wait for their command
	all    *Hold   // of every answer
	conns  map[*gated]bool
}

// Hold is something that a gate holds back, or will.
type Hold struct {
	match   func(*Call) bool
	answer  bool // not the command
	reached chan struct{}
	passed  chan struct{}
	once    [2]sync.Once
	last    bool          // the connection is closed after it
	gone    chan struct{} // closed when it is
	closed  chan struct{} // the gate is
}

// Reached is closed when something is held.
func (h *Hold) Reached() <-chan struct{} { return h.reached }

// Pass lets go on what is held, and what comes after it. It may be repeated.
func (h *Hold) Pass() { h.once[1].Do(func() { close(h.passed) }) }

// PassLast lets an answer go on that is held, and returns when its connection is closed after it.
func (h *Hold) PassLast() {
	h.last = true
	h.Pass()
	select {
	case <-h.gone:
	case <-h.closed:
	}
}

func (h *Hold) reach() { h.once[0].Do(func() { close(h.reached) }) }

// NewGate starts a gate before the server at target, host:port. protocol reads the commands; nil = only [Gate.HoldAnswers]. The
// caller closes it.
func NewGate(target string, protocol Protocol) (*Gate, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	if protocol == nil {
		protocol = func() (sent, heard Reader) { return func([]byte) []*Call { return nil }, nil }
	}
	g := &Gate{
		Addr: l.Addr().String(), protocol: protocol, listener: l, target: target, closed: make(chan struct{}), conns: map[*gated]bool{},
	}
	g.running.Go(g.accept)
	return g, nil
}

// Close ends the gate and its connections, and drops what is held. It may not be repeated.
func (g *Gate) Close() {
	g.mu.Lock()
	close(g.closed)
	_ = g.listener.Close()
	for c := range g.conns {
		c.close()
	}
	g.mu.Unlock()
	g.running.Wait()
}

// HoldCommand holds the next command that match accepts before it reaches the server.
func (g *Gate) HoldCommand(match func(*Call) bool) *Hold { return g.arm(&Hold{match: match}) }

// HoldAnswer holds the answer to the next command that match accepts.
func (g *Gate) HoldAnswer(match func(*Call) bool) *Hold {
	return g.arm(&Hold{match: match, answer: true})
}

// HoldAnswers holds whatever the server says, on every connection, from now on.
func (g *Gate) HoldAnswers() *Hold {
	h := g.hold(&Hold{answer: true})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = h
	return h
}

func (g *Gate) arm(h *Hold) *Hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = append(g.armed, g.hold(h))
	return h
}

func (g *Gate) hold(h *Hold) *Hold {
	h.reached, h.passed, h.gone, h.closed = make(chan struct{}), make(chan struct{}), make(chan struct{}), g.closed
	return h
}

// Turn has new connections go to another server, and closes those on which nothing is held.
func (g *Gate) Turn(target string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.target = target
	for c := range g.conns {
		if c.command == nil && c.answer == nil {
			c.close()
		}
	}
}

func (g *Gate) accept() {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return
		}
		g.mu.Lock()
		target := g.target
		g.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &gated{g: g, client: client, server: server}
		c.sent, _ = g.protocol()
		g.mu.Lock()
		select {
		case <-g.closed:
			c.close()
		default:
			g.conns[c] = true
			g.running.Go(c.up)
			g.running.Go(c.down)
		}
		g.mu.Unlock()
	}
}

// gated is one connection of a client.
type gated struct {
	g              *Gate
	client, server net.Conn
	sent           Reader

	command, answer *Hold // what is held, or will be; under the gate's mutex
}

func (c *gated) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}

// up hands on what the client sends. A client that has closed its connection has the server's closed too, after all that it sent.
func (c *gated) up() {
	defer func() {
		c.g.mu.Lock()
		delete(c.g.conns, c)
		c.g.mu.Unlock()
		c.close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.client.Read(buf)
		if n > 0 {
			if h := c.see(buf[:n]); h != nil && !c.wait(h, &c.command) {
				return
			}
			if _, err := c.server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// see finds the holds that what was sent is meant by, and returns the one of the command.
func (c *gated) see(p []byte) *Hold {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	for _, call := range c.sent(p) {
		for i, h := range c.g.armed {
			if !h.match(call) {
				continue
			}
			c.g.armed = append(c.g.armed[:i:i], c.g.armed[i+1:]...)
			if h.answer {
				c.answer = h
			} else {
				c.command = h
			}
			break
		}
	}
	return c.command
}

// down hands on what the server says.
func (c *gated) down() {
	defer c.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.server.Read(buf)
		if n > 0 {
			h := c.held()
			if h != nil && !c.wait(h, &c.answer) {
				return
			}
			_, err := c.client.Write(buf[:n])
			if h != nil && h.last {
				c.close()
				close(h.gone)
				return
			}
			if err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// held is the hold of the answer that has come.
func (c *gated) held() *Hold {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	if c.answer == nil {
		c.answer = c.g.all
	}
	return c.answer
}

// wait waits until h is let pass; false = the gate is closed.
func (c *gated) wait(h *Hold, place **Hold) bool {
	h.reach()
	select {
	case <-h.passed:
	case <-c.g.closed:
		return false
	}
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	if *place = nil; c.g.all == h {
		c.g.all = nil
	}
	return true
}
