package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// counter counts the commands that a contender's clients write to their connections: the commands on the network, for
// every client, without those that a script executes inside Redis. Commands that set up a connection or keep it alive
// do not count.
type counter struct{ n atomic.Int64 }

func (c *counter) dial(ctx context.Context, d *net.Dialer, network, addr string) (net.Conn, error) {
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn, counter: c}, nil
}

// rueidis returns the options of a rueidis client on the same server.
func (e *environment) rueidis() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{e.redis.Addr}, Username: e.redis.Username, Password: e.redis.Password, SelectDB: e.redis.DB,
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return e.sent.dial(ctx, d, "tcp", addr)
		},
	}
}

// countedConn parses the written bytes. Its state needs no mutex, because a client writes from one goroutine at a time.
type countedConn struct {
	net.Conn
	counter *counter
	stream  commandStream
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.counter.n.Add(c.stream.read(b))
	return c.Conn.Write(b)
}

// commandStream parses requests in the protocol of Redis: arrays of bulk strings, in pieces of any size.
type commandStream struct {
	line   []byte // the beginning of a line whose end has not come
	skip   int    // bytes of a bulk string, and of its line end, that are still to come
	args   int    // arguments of this command that are still to come
	name   []byte // of this command, so far
	naming bool   // the bulk string under way is the name
	first  bool   // the next one is
}

// overhead lists the commands that belong to a connection and not to a lock.
var overhead = [][]byte{[]byte("hello"), []byte("auth"), []byte("select"), []byte("client"), []byte("ping")}

func ofTheLock(name []byte) bool {
	name = bytes.TrimSpace(name)
	return !slices.ContainsFunc(overhead, func(o []byte) bool { return bytes.EqualFold(o, name) })
}

// read returns how many commands of a lock end in b.
func (s *commandStream) read(b []byte) (commands int64) {
	for len(b) > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(b))
			if s.naming {
				s.name = append(s.name, b[:n]...)
			}
			s.skip -= n
			b = b[n:]
			if s.skip == 0 {
				s.naming = false
				if s.args--; s.args == 0 && ofTheLock(s.name) {
					commands++
				}
			}
			continue
		}
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			s.line = append(s.line, b...)
			return commands
		}
		s.header(append(s.line, b[:end]...))
		s.line = s.line[:0]
		b = b[end+1:]
	}
	return commands
}

// header parses "*3" or "$11", with its carriage return.
func (s *commandStream) header(line []byte) {
	n := 0
	for _, c := range line {
		if c >= '0' && c <= '9' {
			n = 10*n + int(c-'0')
		}
	}
	switch {
	case bytes.HasPrefix(line, []byte("*")):
		s.args, s.first, s.name = n, true, s.name[:0]
	case bytes.HasPrefix(line, []byte("$")):
		s.skip, s.naming, s.first = n+len("\r\n"), s.first, false
	}
}
