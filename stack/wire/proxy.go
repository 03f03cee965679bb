package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ids and conns number the calls and the connections of a process.
var ids, conns atomic.Int64

// LastID returns the highest [Call.ID] so far; calls that come later have higher ones.
func LastID() int64 { return ids.Load() }

// Proxy stands before one server. It is safe for concurrent use.
type Proxy struct {
	// Addr is the address for the client: host:port on loopback.
	Addr string

	server   string
	codec    Codec
	recorder *Recorder
	delay    *delay // nil = none
	listener net.Listener
	dialing  context.Context //nolint:containedctx // it ends with Close
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	severed bool
	target  string
	err     error
	conns   map[*conn]bool
	marks   map[string]bool // the addresses of acceptAll's connections
	rules   []*Hold
	calls   []*Command
}

// NewProxy starts a proxy before the server at target, host:port; server is its name in [Call]. The caller closes it.
func NewProxy(server, target string, codec Codec) (*Proxy, error) {
	return newProxy(server, target, codec, extra{})
}

// extra holds the optional parts of a proxy; nil = without.
type extra struct {
	recorder *Recorder
	delay    *delay
}

func newProxy(server, target string, codec Codec, x extra) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	p := &Proxy{
		Addr: l.Addr().String(), server: server, codec: codec, recorder: x.recorder, delay: x.delay,
		listener: l, target: target,
		conns: map[*conn]bool{}, marks: map[string]bool{},
	}
	p.dialing, p.cancel = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	if p.delay != nil {
		p.running.Go(p.deliver)
	}
	return p, nil
}

// Close ends the proxy and its connections, and drops what is held. It may be repeated.
func (p *Proxy) Close() {
	p.mu.Lock()
	if p.delay != nil && !p.closed {
		p.delay.alarm.close()
	}
	p.closed = true
	p.cancel()
	_ = p.listener.Close()
	for c := range p.conns {
		c.close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// Err is why the proxy ended a connection that it could not read: TLS, compression, another protocol. nil = there was
// none since [Proxy.Forget].
func (p *Proxy) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Turn sends new connections to another server. It closes at once the connections on which nothing is held; the others
// are closed when what is held there has passed, and its answer too.
func (p *Proxy) Turn(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	for c := range p.conns {
		c.turned = true
		if !c.holding() {
			c.close()
		}
	}
}

// Since returns copies of the calls with a higher ID, in order.
func (p *Proxy) Since(id int64) []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	from, _ := slices.BinarySearchFunc(p.calls, id+1, func(k *Command, id int64) int { return int(k.ID - id) })
	found := make([]Call, 0, len(p.calls)-from)
	for _, k := range p.calls[from:] {
		found = append(found, k.Call)
	}
	return found
}

// Forget drops the calls up to an ID from what [Proxy.Since] returns, and the error that [Proxy.Err] returns.
func (p *Proxy) Forget(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = nil
	p.calls = slices.DeleteFunc(p.calls, func(k *Command) bool { return k.ID <= id })
}

// Unanswered returns the calls that are held, or sent and not answered, in order. It leaves out polls, Setup, and
// commands that will never be answered because they were dropped or their server has closed the connection.
func (p *Proxy) Unanswered() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []Call
	for c := range p.conns {
		for _, k := range c.waiting {
			if !k.Poll && !k.Setup {
				found = append(found, k.Call)
			}
		}
	}
	slices.SortFunc(found, func(a, b Call) int { return int(a.ID - b.ID) })
	return found
}

// Sessions returns the credentials of the sessions on the open connections, for protocols with sessions. For ZooKeeper
// each is the session's id, eight bytes big-endian, followed by its password.
func (p *Proxy) Sessions() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all [][]byte
	for c := range p.conns {
		if c.granted != nil {
			all = append(all, c.granted)
		}
	}
	return all
}

// Sever cuts the client off from the server: while it is on, nothing passes in either direction, and new connections
// are accepted but get no answer. When it is turned off, all of these connections are closed with a reset.
func (p *Proxy) Sever(on bool) {
	p.acceptAll()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.severed && !on {
		for c := range p.conns {
			c.reset()
		}
	}
	p.severed = on
}

// Discard cleans up after a client whose process was killed. On each connection that its client has closed, it drops
// all that is not delivered, held commands too, and closes the connection to the server. It returns when the server has
// closed these connections too.
func (p *Proxy) Discard(ctx context.Context) error {
	p.acceptAll()
	p.mu.Lock()
	var gone []*conn
	for c := range p.conns {
		if c.gone || hungUp(c.client) {
			c.discard()
			gone = append(gone, c)
		}
	}
	p.mu.Unlock()
	for _, c := range gone {
		select {
		case <-c.left:
		case <-ctx.Done():
			return fmt.Errorf("wire: %s has not closed the connection of a client that is gone: %w", p.server, ctx.Err())
		}
	}
	return nil
}

// acceptAll returns when all connections that were made before have been accepted: it makes one more, and waits until
// the proxy has closed that one.
func (p *Proxy) acceptAll() {
	p.mu.Lock()
	mark, err := net.DialTimeout("tcp", p.Addr, time.Second)
	if err == nil { // else it is closed
		p.marks[mark.LocalAddr().String()] = true
	}
	p.mu.Unlock()
	if err == nil {
		_ = mark.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = mark.Read(make([]byte, 1))
		_ = mark.Close()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no more files, perhaps: the next may have one
			time.Sleep(time.Millisecond)
			continue
		}
		c := &conn{proxy: p, id: conns.Add(1), client: client.(*net.TCPConn), session: p.codec.Begin(),
			left: make(chan struct{})}
		c.up.up = true
		p.mu.Lock()
		if from := client.RemoteAddr().String(); p.closed || p.marks[from] {
			delete(p.marks, from)
			_ = client.Close()
		} else {
			p.conns[c] = true
			if !p.severed {
				p.running.Go(c.start)
			} else {
				close(c.left)
			}
		}
		p.mu.Unlock()
	}
}

// fail notes why a connection cannot be read.
func (p *Proxy) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = fmt.Errorf("wire: %s: %w", p.server, err)
	}
}

// enter gives a command its number and its place, and returns the rules that hold it.
func (p *Proxy) enter(c *conn, k *Command) (holds []*Hold) {
	k.Server, k.Conn = p.server, c.id
	if k.Inside {
		return nil
	}
	k.ID = ids.Add(1)
	p.calls = append(p.calls, k)
	if !k.Silent {
		c.waiting = append(c.waiting, k)
	}
	if k.Setup {
		return nil
	}
	return p.meant(k, false)
}

// meant asks the rules about a command, or about what a server sent by itself, and returns those that hold it. Rules
// that hold the answer are kept in the call.
func (p *Proxy) meant(k *Command, push bool) (holds []*Hold) {
	p.rules = slices.DeleteFunc(p.rules, func(h *Hold) bool {
		if h.rule.Push != push || !h.rule.Match(k.Call) || h.rule.Instead != nil && !k.Plain {
			return false
		}
		switch {
		case h.rule.Instead != nil:
			k.instead = h.rule.Instead
		case h.rule.Answer && !push:
			k.holds = append(k.holds, h)
		default:
			holds = append(holds, h)
		}
		return !h.rule.Every
	})
	return holds
}
