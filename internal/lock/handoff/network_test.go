package handoff_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
)

// link is the network of one process inside a synctest bubble. A test can break it.
type link struct {
	m             *miniredis.Miniredis
	down          atomic.Bool  // no connection can be made
	replies       atomic.Bool  // answers and messages are lost
	calls         atomic.Bool  // requests are lost
	dropsMessages atomic.Bool  // messages are lost, answers are not
	slow          atomic.Int64 // what the server sends takes so long, as a time.Duration
	lateMessages  atomic.Int64 // and messages, but not answers, take so long
	keep          atomic.Bool  // scripts that are sent are kept back, see deliver
	mu            sync.Mutex
	conns         []*socket
	kept          [][]byte
}

// network is a server and the links to it, in a bubble.
func network(t *testing.T, processes int) (*miniredis.Miniredis, []*link) {
	t.Helper()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(func() {
		m.Close()
		time.Sleep(10 * time.Second) // a closed client goes on dialing for a while, and a bubble must end empty
	})
	first, err := m.Dial() // which starts it
	testkit.Must(t, err)
	_ = first.Close()
	links := make([]*link, processes)
	for i := range links {
		links[i] = &link{m: m}
	}
	return m, links
}

// process is an engine on its own link, closed with the test.
func (w *link) process(t *testing.T, o handoff.Options) *handoff.Engine {
	t.Helper()
	return w.processOn(t, w.client(), o)
}

// processOn is process with the client c. The link is healed before the engine is closed, which has its requests
// answered.
func (w *link) processOn(t *testing.T, c *redis.Client, o handoff.Options) *handoff.Engine {
	t.Helper()
	t.Cleanup(func() { _ = c.Close() })
	e := engine(t, c, o)
	t.Cleanup(func() {
		w.heal()
		time.Sleep(3 * time.Second)
	})
	return e
}

func (w *link) client() *redis.Client { return w.retrying(-1) }

// retrying is a client that repeats commands on its own; -1 is never. It never waits for a free connection, because
// go-redis shares the timers for that with clients outside the bubble.
func (w *link) retrying(retries int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", PoolSize: 1000, MaxRetries: retries, ContextTimeoutEnabled: true, Dialer: w.dial,
		ReadTimeout: 200 * time.Millisecond, WriteTimeout: 200 * time.Millisecond, DialTimeout: 200 * time.Millisecond,
	})
}

func (w *link) dial(context.Context, string, string) (net.Conn, error) {
	if w.down.Load() {
		return nil, &net.OpError{Op: "dial", Err: errors.New("cut")}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.connect(), nil
}

// connect makes a connection. The mutex is held.
func (w *link) connect() *socket {
	up, back := newStream(), newStream()
	peer := &socket{link: w, in: up, out: back, server: true}
	w.m.Server().ServeConn(peer)
	c := &socket{link: w, in: back, out: up, peer: peer}
	w.conns = append(w.conns, c)
	return c
}

// cut breaks every connection that there is.
func (w *link) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

// dropMessages has the present connections lose messages from now on, as a half-open connection does.
func (w *link) dropMessages() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.peer.dropsMessages.Store(true)
	}
}

// abandonSubscribers has the server close the pub/sub connections without telling their clients: they are half-open.
func (w *link) abandonSubscribers() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		if c.subscribed.Load() {
			c.peer.poweredOff.Store(true)
			c.out.close()
		}
	}
}

// heal ends all that is broken, except for connections.
func (w *link) heal() {
	for _, broken := range []*atomic.Bool{&w.down, &w.replies, &w.calls, &w.dropsMessages, &w.keep} {
		broken.Store(false)
	}
	w.slow.Store(0)
	w.lateMessages.Store(0)
}

// deliver sends the requests that were kept back to the server, as a network does that lost the first packets and sent
// them again later. It returns how many there were; their replies are lost.
func (w *link) deliver() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.kept {
		_ = w.connect().out.write(p, 0)
	}
	n := len(w.kept)
	w.kept = nil
	return n
}

// powerOff loses everything from the process and to it; its connections stay open, as those of a machine that has lost
// its power.
func (w *link) powerOff() {
	for _, broken := range []*atomic.Bool{&w.down, &w.replies, &w.calls} {
		broken.Store(true)
	}
}

// stream is one direction of a connection. Unlike net.Pipe it buffers, as a socket does: a server that waits for a
// reader would stop the bubble's clock.
type stream struct {
	mu       sync.Mutex
	changed  *sync.Cond
	buffer   []byte
	due      time.Time // when the buffer arrives
	deadline time.Time
	closed   bool
	// It calls back and has no channel: timers with channels that fire in a bubble, several at a time, corrupt the memory
	// of the race detector (Go 1.26), which then crashes.
	timer *time.Timer
}

func newStream() *stream {
	s := &stream{}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// wake wakes the reader at the time at. The mutex is held.
func (s *stream) wake(at time.Time) {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = time.AfterFunc(time.Until(at), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		now := time.Now()
		arrived := !now.Before(s.due)
		switch {
		case len(s.buffer) > 0 && arrived:
			n := copy(p, s.buffer)
			s.buffer = s.buffer[n:]
			return n, nil
		case s.closed:
			return 0, io.EOF
		case !s.deadline.IsZero() && !now.Before(s.deadline):
			return 0, os.ErrDeadlineExceeded
		case !arrived && (s.deadline.IsZero() || s.due.Before(s.deadline)):
			s.wake(s.due)
		case !s.deadline.IsZero():
			s.wake(s.deadline)
		}
		s.changed.Wait()
	}
}

func (s *stream) write(p []byte, slow time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return io.ErrClosedPipe
	}
	if slow > 0 {
		s.due = time.Now().Add(slow)
	}
	s.buffer = append(s.buffer, p...)
	s.changed.Broadcast()
	return nil
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.changed.Broadcast()
}

// socket is one end of a connection that loses what its link says, once the client has introduced itself. Until then
// nothing is lost or slow: go-redis makes a subscriber's connection with a mutex locked, and as long as another
// goroutine waits for a mutex, a bubble's clock stands still, so that no deadline and no delay would ever pass.
type socket struct {
	link          *link
	in, out       *stream
	server        bool
	peer          *socket     // the server's end, of a client's
	dropsMessages atomic.Bool // messages are lost here
	poweredOff    atomic.Bool // the peer does not learn that it was closed
	subscribed    atomic.Bool // a client's that has subscribed
	introduced    atomic.Bool // the server's end: the client has sent its first command
}

// introduction is the beginning of the commands with which a client makes a connection, and message that of a message.
var (
	introduction = regexp.MustCompile(`^\*\d+\r\n\$\d+\r\n(hello|client)\r\n`)
	message      = regexp.MustCompile(`^[*>]3\r\n\$7\r\nmessage\r\n`)
)

func (c *socket) Read(p []byte) (int, error) { return c.in.read(p) }

func (c *socket) Write(p []byte) (int, error) {
	w, lost, slow := c.link, false, time.Duration(0)
	switch introduced := c.introduced.Load(); {
	case c.server && introduced:
		lost, slow = w.replies.Load(), time.Duration(w.slow.Load())
		if message.Match(p) {
			lost = lost || w.dropsMessages.Load() || c.dropsMessages.Load()
			slow = max(slow, time.Duration(w.lateMessages.Load()))
		}
	case c.server || introduction.Match(p):
	case w.keep.Load() && bytes.Contains(p, []byte("\r\neval")):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.kept, lost = append(w.kept, bytes.Clone(p)), true
	default:
		c.peer.introduced.Store(true)
		c.subscribed.CompareAndSwap(false, bytes.Contains(p, []byte("\r\nsubscribe")))
		lost = w.calls.Load()
	}
	if lost {
		return len(p), nil
	}
	return len(p), c.out.write(p, slow)
}

func (c *socket) Close() error {
	c.in.close()
	if !c.poweredOff.Load() {
		c.out.close()
	}
	return nil
}

func (c *socket) SetReadDeadline(t time.Time) error {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.deadline = t
	c.in.changed.Broadcast()
	return nil
}

func (c *socket) SetWriteDeadline(time.Time) error { return nil } // a write never waits

func (c *socket) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *socket) LocalAddr() net.Addr  { return &net.TCPAddr{} }
func (c *socket) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// scene is one lock in several processes, each behind a link of its own. held is the first process's lease.
type scene struct {
	*testing.T
	m     *miniredis.Miniredis
	links []*link
	ls    []lock.Locker
	held  lock.Lease
}

// newScene is a scene in a bubble, with a process for each of the locks that are named.
func newScene(t *testing.T, o handoff.Options, names ...string) *scene {
	s := &scene{T: t}
	s.m, s.links = network(t, len(names))
	for i, name := range names {
		s.ls = append(s.ls, pick(s.links[i].process(t, o), name))
	}
	s.held = locktest.Obtain(t, s.ls[0], "k{1}")
	return s
}

// scenes runs a test for each of the exclusive locks, with so many processes.
func scenes(t *testing.T, processes int, o handoff.Options, f func(t *testing.T, s *scene)) {
	both(t, func(t *testing.T, name string) {
		f(t, newScene(t, o, slices.Repeat([]string{name}, processes)...))
	})
}

// waits has a process wait for the lock.
func (s *scene) waits(process int) chan lock.Lease {
	got, _ := waits(s.Context(), s.ls[process], "k{1}")
	return got
}

// pass has the holder release, and the one that waits as well when it gets in. It returns how long that took.
func (s *scene) pass(got <-chan lock.Lease) time.Duration {
	start := time.Now()
	_ = s.held.Release(s.Context())
	_ = (<-got).Release(s.Context())
	return time.Since(start)
}
