// Package wire records what passes between a client and its servers, without changing it; a [Gate] holds it back, for tests.
//
// A [Tap] is a proxy before one server: whatever comes in goes out at once, both ways, and what passes is read along the way
// by one of the [Protocol] functions. Each command becomes a [Call] in the [Recorder], with the time at which it passed and
// that at which its answer did. Start with [Recorder.Tap].
package wire

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Call is one command as it passed.
type Call struct {
	Server string // the name given to Tap
	// Words are the command of a protocol that consists of words (Redis); nil for the others.
	Words []string
	// Text is the command on one line, for people.
	Text string
	// Sent is when the command had passed whole. Answered is when the last of its answer had; zero = not answered yet.
	Sent, Answered time.Time
	// Poll is a command that waits in the server until there is something. Only one that brought something is recorded, when it
	// is answered.
	Poll bool
}

// At is when the call stands in an account of what happened: when it was sent, and a poll, when its answer came.
func (c *Call) At() time.Time {
	if c.Poll {
		return c.Answered
	}
	return c.Sent
}

// Protocol makes the readers of one connection. That of what the client sends returns the commands that are complete with it;
// that of what the server sends returns those of them that are answered with it. heard is nil where the server need not be
// read: the commands since its last word are then answered by its next, which holds for clients that wait for their
// answers, one by one or in batches.
type Protocol func() (sent, heard Reader)

// Reader reads one side of a connection. It is given the bytes as they come, cut anywhere, and keeps what is left.
type Reader func(p []byte) []*Call

// Recorder keeps the calls of its taps. The zero value is ready. It is safe for concurrent use.
type Recorder struct {
	mu    sync.Mutex
	calls []*Call
}

// Between returns the calls from one time until another, each where it stands by [Call.At], in that order.
func (r *Recorder) Between(from, to time.Time) []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Call
	for _, c := range r.calls {
		if at := c.At(); !at.Before(from) && !at.After(to) {
			found = append(found, *c)
		}
	}
	slices.SortStableFunc(found, func(a, b Call) int { return a.At().Compare(b.At()) })
	return found
}

// Forget drops the calls so far.
func (r *Recorder) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = nil
}

// Add notes a call that passed no tap: one to a database without a wire.
func (r *Recorder) Add(c Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, &c)
}

// Tap is a proxy before one server.
type Tap struct {
	// Addr is where the client shall connect to: host:port on loopback.
	Addr string

	recorder       *Recorder
	server, target string
	protocol       Protocol
	listener       net.Listener
	running        sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

// Tap starts a proxy before the server at target, host:port. The caller closes it.
func (r *Recorder) Tap(server, target string, protocol Protocol) (*Tap, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	t := &Tap{Addr: l.Addr().String(), recorder: r, server: server, target: target, protocol: protocol, listener: l}
	t.running.Go(t.accept)
	return t, nil
}

// Close ends the proxy and its connections. It may be repeated.
func (t *Tap) Close() {
	t.mu.Lock()
	t.closed = true
	_ = t.listener.Close()
	for _, c := range t.conns {
		_ = c.Close()
	}
	t.mu.Unlock()
	t.running.Wait()
}

func (t *Tap) accept() {
	for {
		client, err := t.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", t.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !t.keep(client, server) {
			return
		}
		c := &conn{tap: t}
		c.commands, c.answers = t.protocol()
		t.running.Go(func() { pass(client, server, c.sent) })
		t.running.Go(func() { pass(server, client, c.heard) })
	}
}

// keep notes two connections for Close; when that has been called already, it closes them.
func (t *Tap) keep(conns ...net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		for _, c := range conns {
			_ = c.Close()
		}
		return false
	}
	t.conns = append(t.conns, conns...)
	return true
}

// pass hands on what comes, and tells note first: what a client has an answer to has been noted. At the end it closes both.
func pass(from, to net.Conn, note func([]byte)) {
	defer func() {
		_ = from.Close()
		_ = to.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			note(buf[:n])
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// conn is one connection of a client.
type conn struct {
	tap               *Tap
	commands, answers Reader // answers may be nil; see Protocol

	mu       sync.Mutex
	waiting  []*Call // without answers
	answered bool    // something has come since the first of waiting was sent
}

func (c *conn) sent(p []byte) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.commands(p)
	if c.answered {
		c.waiting, c.answered = nil, false
	}
	if c.answers == nil {
		c.waiting = append(c.waiting, calls...)
	}
	r := c.tap.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, call := range calls {
		call.Server, call.Sent = c.tap.server, now
		if !call.Poll {
			r.calls = append(r.calls, call)
		}
	}
}

func (c *conn) heard(p []byte) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = true
	answered := c.waiting
	if c.answers != nil {
		answered = c.answers(p)
	}
	r := c.tap.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, call := range answered {
		call.Answered = now
		if call.Poll {
			r.calls = append(r.calls, call)
		}
	}
}
