package client

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lastitem/target"
)

const (
	// readBuffer holds the longest header line that is accepted.
	readBuffer = 8 << 10
	// maxBody is the longest answer that is read; real answers are far shorter.
	maxBody = 1 << 20
	// restingFor is how long a connection may be idle before the engine checks whether the server has closed it. On a busy
	// connection the check would cost a system call per request and would hardly ever find a closed one.
	restingFor = 2 * time.Millisecond
	// looksAfter is how often a client that pauses on a loop looks whether the run has ended.
	looksAfter = 50 * time.Millisecond
)

// link is the connection of a raw engine.
type link interface {
	io.ReadWriteCloser
	SetDeadline(t time.Time) error
}

// raw is the cheapest engine: one keep-alive connection, the request written in one piece from a reused buffer, and a
// parser only for the answers of a deduction. On Linux its code runs on a [loop], unless it needs TLS.
type raw struct {
	loop    *loop // nil = in goroutines
	task    *task // of the function that Go runs on the loop
	timeout time.Duration
	addr    string
	tls     *tls.Config // nil = plain
	prefix  string      // put before every path
	headers string      // what follows the path of a call without headers of its own
	host    string

	conn    link
	in      *bufio.Reader
	lastUse time.Time
	out     []byte // the request
	answer  parser
}

// newRaw returns an engine that is not connected yet.
func newRaw(t Target) *raw {
	host, port := t.URL.Hostname(), t.URL.Port()
	r := &raw{
		timeout: t.Timeout, host: t.URL.Host,
		headers: " HTTP/1.1\r\nHost: " + t.URL.Host + "\r\nUser-Agent: " + target.Agent + "\r\n",
		in:      bufio.NewReaderSize(nil, readBuffer),
	}
	if path := strings.Trim(t.URL.EscapedPath(), "/"); path != "" {
		r.prefix = "/" + path
	}
	if t.URL.Scheme == "https" {
		r.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		if t.Insecure {
			r.tls = target.AnyCertificate()
		}
		r.tls.ServerName, r.tls.NextProtos = host, []string{"http/1.1"}
		port = cmp.Or(port, "443")
	}
	r.addr = net.JoinHostPort(host, cmp.Or(port, "80"))
	r.answer = parser{body: make([]byte, 0, 1<<10), names: interned{}}
	return r
}

// Connect opens the connection unless there is one.
func (r *raw) Connect() error {
	if r.conn != nil {
		return nil
	}
	return r.connect(time.Now().Add(r.timeout))
}

// Go runs f beside its caller: on the loop, or in a goroutine.
func (r *raw) Go(f func()) {
	if r.loop == nil {
		go f()
		return
	}
	r.loop.post(func() {
		r.task = new(task)
		r.loop.start(r.task, func() {
			f()
			r.task = nil
		})
	})
}

// Rest waits for d; false means that ctx ended first.
func (r *raw) Rest(ctx context.Context, d time.Duration) bool {
	if r.task == nil {
		return Rest(ctx, d)
	}
	for until := time.Now().Add(d); ctx.Err() == nil; {
		left := time.Until(until)
		if left <= 0 {
			return true
		}
		r.task.wait(time.Now().Add(min(left, looksAfter)))
	}
	return false
}

// Close closes the connection, and leaves the loop.
func (r *raw) Close() {
	l := r.loop
	if r.loop = nil; l == nil {
		r.drop()
		return
	}
	l.post(func() {
		r.drop()
		l.users--
	})
}

// drop closes the connection.
func (r *raw) drop() {
	if r.conn != nil {
		_ = r.conn.Close()
		r.conn = nil
	}
}

// Do sends the call over the connection, or over a new one if there is none or the server has closed it.
func (r *raw) Do(call target.Call) Answer {
	now := time.Now()
	deadline := now.Add(r.timeout)
	if r.conn != nil && now.Sub(r.lastUse) > restingFor && r.closedByServer() {
		r.drop()
	}
	// One write sends the whole request, so that no part is in a buffer when the outcome is decided.
	r.out = r.appendRequest(r.out[:0], &call)
	if a, ok := r.write(deadline); !ok {
		return a
	}
	a, reusable, err := r.answer.read(r.in)
	a.Sent = true
	if err != nil {
		a.Err = transportError(err)
	}
	if err != nil || !reusable || r.in.Buffered() > 0 {
		r.drop() // neither the rest of a late answer nor unrequested bytes may be read as the next answer
	}
	r.lastUse = time.Now()
	return a
}

// write sends the request. If the connection did not take a single byte, it is replaced, once; after the first byte
// nothing is sent again.
func (r *raw) write(deadline time.Time) (Answer, bool) {
	for {
		fresh := r.conn == nil
		if fresh {
			if err := r.connect(deadline); err != nil {
				return Answer{Err: transportError(err)}, false
			}
		}
		_ = r.conn.SetDeadline(deadline) // fails only on a closed connection, where the write below fails too
		n, err := r.conn.Write(r.out)
		if err == nil {
			return Answer{}, true
		}
		// With TLS n does not show how much was sent.
		sent := n > 0 || r.tls != nil
		r.drop()
		if sent || fresh {
			return Answer{Err: transportError(err), Sent: sent}, false
		}
	}
}

// connect dials, with the TLS handshake where there is one.
func (r *raw) connect(deadline time.Time) error {
	conn, err := r.dial(&net.Dialer{Deadline: deadline})
	if err != nil {
		return err
	}
	r.conn = conn
	r.in.Reset(conn)
	r.lastUse = time.Now()
	return nil
}

// dial returns a connection of the place where the engine runs.
func (r *raw) dial(dialer *net.Dialer) (link, error) {
	if r.task != nil {
		return r.loop.dial(r, dialer)
	}
	conn, err := dialer.Dial("tcp", r.addr)
	if err != nil || r.tls == nil {
		return conn, err
	}
	secure := tls.Client(conn, r.tls)
	ctx, cancel := context.WithDeadline(context.Background(), dialer.Deadline)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// closedByServer checks, without waiting, whether an idle connection has an end of file or unrequested bytes (a 408
// before the close). A request sent there would be lost, with a needless unknown outcome.
func (r *raw) closedByServer() bool {
	if r.in.Buffered() > 0 {
		return true
	}
	quiet := false
	err := withDescriptor(r.conn, func(fd uintptr) error {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return nil
	})
	// Readable: an end of file, or unrequested bytes. TLS may send session tickets at any time, so with TLS bytes do not
	// mean the end.
	return err != nil || (!quiet && r.tls == nil)
}

// withDescriptor calls f with the descriptor of a connection.
func withDescriptor(conn any, f func(fd uintptr) error) error {
	if own, ok := conn.(interface{ descriptor() uintptr }); ok {
		return f(own.descriptor())
	}
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = f(fd) }); err != nil {
		return err
	}
	return result
}

// appendRequest formats the call as HTTP/1.1.
func (r *raw) appendRequest(b []byte, call *target.Call) []byte {
	b = append(b, call.Method...)
	b = append(b, ' ')
	b = append(b, r.prefix...)
	b = append(b, call.Path...)
	if len(call.Headers) > 0 {
		b = r.appendHeaders(b, call)
		return appendBody(b, call)
	}
	b = append(b, r.headers...)
	if call.ContentType != "" {
		b = append(b, "Content-Type: "...)
		b = append(b, call.ContentType...)
		b = append(b, "\r\n"...)
	}
	if call.Key != "" {
		b = append(b, "Idempotency-Key: "...)
		b = append(b, call.Key...)
		b = append(b, "\r\n"...)
	}
	return appendBody(b, call)
}

// appendHeaders formats what follows the path, as [target.Call.Header] has it.
func (r *raw) appendHeaders(b []byte, call *target.Call) []byte {
	all, host := call.Header()
	b = fmt.Appendf(b, " HTTP/1.1\r\nHost: %s\r\n", cmp.Or(host, r.host))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, value := range all[name] {
			b = fmt.Appendf(b, "%s: %s\r\n", name, value)
		}
	}
	return b
}

// appendBody formats the body and its length, which net/http leaves out where there is none and none is expected.
func appendBody(b []byte, call *target.Call) []byte {
	if len(call.Body) > 0 || call.Method == http.MethodPost || call.Method == http.MethodPut ||
		call.Method == http.MethodPatch {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(call.Body)), 10)
		b = append(b, "\r\n"...)
	}
	b = append(b, "\r\n"...)
	return append(b, call.Body...)
}
