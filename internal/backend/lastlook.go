package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/store"
)

// lastLook is how long a read whose deadline has passed still looks for data that has arrived.
const lastLook = time.Millisecond

// lastLookConn reads an answer that has arrived although the deadline has passed. A process that was stopped for longer
// than a time-out wakes up with the answer in its socket, but the timer fires first: without this the answer to a write
// would be lost, and its outcome unknown.
//
// Until the first command of a request is written, an error is one of making the connection: a server that has its most
// clients accepts a connection, says so, and closes it while the client still introduces itself.
type lastLookConn struct {
	net.Conn
	slots *reloader // hears of a read that ended without an answer
	door  *door     // hears how the server greeted
	used  atomic.Bool
}

// Write sends commands.
func (c *lastLookConn) Write(p []byte) (int, error) {
	if !c.used.Load() && !introduces(p) {
		c.used.Store(true)
		c.door.heard(nil)
	}
	n, err := c.Conn.Write(p)
	return n, c.making(err)
}

// introduces says that commands are those by which the client begins a connection.
func introduces(p []byte) bool {
	part := bytes.SplitN(p, []byte("\r\n"), 4) // *3 $5 hello ...
	return len(part) == 4 && slices.Contains([]string{"hello", "auth", "select", "client", "readonly"},
		strings.ToLower(string(part[2])))
}

// making makes an error before the first command one of the dialer, which says that nothing was sent.
func (c *lastLookConn) making(err error) error {
	if err == nil || c.used.Load() {
		return err
	}
	return &net.OpError{Op: "dial", Net: "tcp", Addr: c.RemoteAddr(), Err: err}
}

// Read reads data that is there, or arrives in time.
func (c *lastLookConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || c.SetReadDeadline(time.Now().Add(lastLook)) != nil {
		if !c.used.Load() && bytes.HasPrefix(p[:n], []byte("-ERR max number of clients")) {
			c.door.heard(errors.New(strings.TrimSpace(string(p[1:n]))))
		}
		return n, c.making(err)
	}
	if n, err = c.Conn.Read(p); err != nil {
		c.slots.failed()
	}
	return n, c.making(err)
}

// Close closes the connection.
func (c *lastLookConn) Close() error {
	c.slots.conns.Delete(c.Conn)
	return c.Conn.Close()
}

// rawConn is one whose client can see whether the server has closed it.
type rawConn struct {
	*lastLookConn
	syscall.Conn
}

// withLastLook makes a dialer return such connections. slots hears of them, and if none can be made.
func withLastLook(o *redis.UniversalOptions, slots *reloader,
	d *door) func(context.Context, string, string) (net.Conn, error) {
	dial := redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig})
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			slots.failed()
			return nil, err
		}
		slots.conns.Store(c, address)
		looking := &lastLookConn{Conn: c, slots: slots, door: d}
		if raw, ok := c.(syscall.Conn); ok {
			return rawConn{looking, raw}, nil
		}
		return looking, nil
	}
}

// door notes whether a server takes new connections, as requests find out. The probe cannot tell, since its connection
// stays open, and must not end the requests whose connections stand.
type door struct{ shut atomic.Pointer[shut] }

// shut is a refusal of a connection.
type shut struct {
	err error
	at  time.Time
}

// shutFor is how long a refusal counts while no connection is asked for again.
const shutFor = 10 * time.Second

// heard takes what came of making a connection.
func (d *door) heard(refused error) {
	switch {
	case d == nil:
	case refused != nil:
		d.shut.Store(&shut{refused, time.Now()})
	case d.shut.Load() != nil:
		d.shut.Store(nil)
	}
}

// refuses says why the server takes no new connection; nil = it does, or nobody has asked lately.
func (d *door) refuses() error {
	if d == nil {
		return nil
	}
	if s := d.shut.Load(); s != nil && time.Since(s.at) < shutFor {
		return fmt.Errorf("%w: no new connections: %w", store.ErrRefused, s.err)
	}
	return nil
}
