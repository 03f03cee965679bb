package backend

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// lastLook is how long a read whose deadline has passed still looks for data that has arrived.
const lastLook = time.Millisecond

// lastLookConn reads an answer that has arrived although the deadline has passed. A process that was stopped for longer
// than a time-out wakes up with the answer in its socket, but the timer fires first: without this the answer to a write
// would be lost, and its outcome unknown.
type lastLookConn struct {
	net.Conn
	slots *reloader // hears of a read that ended without an answer
}

// Read reads data that is there, or arrives in time.
func (c lastLookConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || c.SetReadDeadline(time.Now().Add(lastLook)) != nil {
		return n, err
	}
	if n, err = c.Conn.Read(p); err != nil {
		c.slots.failed()
	}
	return n, err
}

// Close closes the connection.
func (c lastLookConn) Close() error {
	c.slots.conns.Delete(c.Conn)
	return c.Conn.Close()
}

// rawConn is one whose client can see whether the server has closed it.
type rawConn struct {
	lastLookConn
	syscall.Conn
}

// withLastLook makes a dialer return such connections. slots hears of them, and if none can be made.
func withLastLook(o *redis.UniversalOptions, slots *reloader) func(context.Context, string, string) (net.Conn, error) {
	dial := redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig})
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			slots.failed()
			return nil, err
		}
		slots.conns.Store(c, address)
		if raw, ok := c.(syscall.Conn); ok {
			return rawConn{lastLookConn{c, slots}, raw}, nil
		}
		return lastLookConn{c, slots}, nil
	}
}
