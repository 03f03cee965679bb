package wire

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// conn is one connection of a client, and the one to the server that belongs to it.
type conn struct {
	proxy  *Proxy
	id     int64
	client *net.TCPConn
	server *net.TCPConn // nil before it is dialed

	reading sync.Mutex // of session
	session Session

	// All that follows is under the proxy's mutex.
	up, down lane
	waiting  []*Command      // for their answers, in order
	gone     bool            // the client has closed
	given    bool            // see Hold.Abandon
	turned   bool            // to be closed when nothing is held any more
	granted  []byte          // see Proxy.Sessions
	silent   bool            // nothing passes any more
	mute     map[uint32]bool // the streams on which nothing passes any more
	closing  bool
	left     chan struct{} // closed when the server has closed
}

// start dials the server and passes on what comes.
func (c *conn) start() {
	p := c.proxy
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := (&net.Dialer{}).DialContext(p.dialing, "tcp", target)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		c.close()
		close(c.left)
		return
	}
	c.server, _ = server.(*net.TCPConn)
	if c.closing {
		_ = server.Close()
		close(c.left)
		return
	}
	p.running.Go(func() { c.read(c.client, &c.up, c.session.Command) })
	p.running.Go(func() { c.read(c.server, &c.down, c.session.Answer) })
}

// errTLS is a client that does not speak in the clear.
var errTLS = errors.New("the client speaks TLS: have it connect without")

// read reads messages from one side until its end.
func (c *conn) read(from *net.TCPConn, l *lane, next func([]byte) (Message, error)) {
	in := make([]byte, 16<<10)
	var rest []byte
	first := l.up && c.proxy.codec.Plain
	for {
		n, err := from.Read(in)
		if n > 0 {
			rest = append(rest, in[:n]...)
			if first && rest[0] == 0x16 && (len(rest) == 1 || rest[1] == 3) {
				c.unreadable(errTLS)
				err = errTLS
			}
			first = false
			var bad error
			if rest, bad = c.take(l, rest, next); bad != nil && err == nil {
				c.unreadable(bad)
				err = bad
			}
		}
		if err != nil {
			c.ended(l)
			return
		}
	}
}

func (c *conn) unreadable(err error) {
	if !errors.Is(err, ErrReplica) {
		c.proxy.fail(err)
	}
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	c.close()
}

// take reads the messages at the beginning of p, hands them on, and returns the rest. The items still refer to their
// parts of p.
func (c *conn) take(l *lane, p []byte, next func([]byte) (Message, error)) (rest []byte, err error) {
	var few [4]item
	items := few[:0]
	c.reading.Lock()
	for len(p) > 0 {
		var m Message
		if m, err = next(p); err != nil || m.Size == 0 {
			break
		}
		if m.Data == nil {
			m.Data = p[:m.Size:m.Size]
		}
		items = append(items, item{Message: m})
		p = p[m.Size:]
	}
	c.reading.Unlock()
	if len(p) == 0 {
		p = nil
	}
	if len(items) > 0 {
		c.proxy.mu.Lock()
		defer c.proxy.mu.Unlock()
		c.come(l, items)
	}
	return p, err
}

// ended notes that one side has closed. What it sent before is still passed on.
func (c *conn) ended(l *lane) {
	p := c.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.up {
		c.gone = true
		if c.silent {
			c.close()
			return
		}
	} else {
		close(c.left)
		c.up.queue, c.up.broken = nil, true
		c.waiting = slices.DeleteFunc(c.waiting, func(k *Command) bool { return !k.arrived })
		if c.gone && c.proxy.delay == nil { // with a delay an answer may still be on its way
			c.close()
			return
		}
	}
	c.queue(l, item{end: true})
	c.drain(l)
}

// finished closes the far end of a lane, after all of the lane has been passed on.
func (c *conn) finished(l *lane) {
	if l.up {
		_ = c.server.CloseWrite()
		return
	}
	for _, k := range slices.Clone(c.waiting) {
		if k.open {
			c.pass(&item{Message: Message{Of: k, Last: true}}, time.Now())
		}
	}
	c.close()
}

// discard drops what is not delivered, and closes towards the server.
func (c *conn) discard() {
	c.gone = true
	c.up.queue, c.down.queue = nil, nil
	c.waiting = slices.DeleteFunc(c.waiting, func(k *Command) bool { return k.Sent.IsZero() })
	if c.server == nil {
		c.close()
		return
	}
	_ = c.server.CloseWrite()
}

// close closes both sides. What is held is dropped. It may be repeated.
func (c *conn) close() {
	c.closing = true
	c.up.queue, c.down.queue, c.waiting = nil, nil, nil
	_ = c.client.Close()
	if c.server != nil {
		_ = c.server.Close()
	}
	delete(c.proxy.conns, c)
}

// reset closes both sides, the client's with a reset.
func (c *conn) reset() {
	_ = c.client.SetLinger(0)
	c.close()
}

// silence leaves the client's connection open, and nothing passes on it any more.
func (c *conn) silence() {
	c.silent = true
	c.up.queue, c.down.queue, c.waiting = nil, nil, nil
	if c.gone {
		c.close()
	}
}
