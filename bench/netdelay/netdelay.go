// Package netdelay adds latency between a client and a server: a TCP proxy that delays every byte.
package netdelay

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// A Proxy delays every byte by the same time, in each direction.
type Proxy struct {
	listener net.Listener
	target   string
	by       time.Duration
	ctx      context.Context
	end      context.CancelFunc
	running  sync.WaitGroup
}

// piece is the data of one read, and the time when it may be written.
type piece struct {
	bytes []byte
	due   time.Time
}

// New returns a proxy to target (host:port) on its own loopback port. It runs until Close or the end of ctx.
func New(ctx context.Context, target string, by time.Duration) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &Proxy{listener: l, target: target, by: by}
	d.ctx, d.end = context.WithCancel(ctx)
	d.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.running.Go(func() { d.serve(c) })
		}
	})
	return d, nil
}

// Addr returns the address for clients, host:port.
func (d *Proxy) Addr() string { return d.listener.Addr().String() }

// Close ends all connections and waits for the goroutines.
func (d *Proxy) Close() {
	d.end()
	_ = d.listener.Close()
	d.running.Wait()
}

func (d *Proxy) serve(client net.Conn) {
	server, err := (&net.Dialer{}).DialContext(d.ctx, "tcp", d.target)
	if err != nil {
		_ = client.Close()
		return
	}
	hang := sync.OnceFunc(func() {
		_ = client.Close()
		_ = server.Close()
	})
	defer hang()
	defer context.AfterFunc(d.ctx, hang)()
	var both sync.WaitGroup
	both.Go(func() { d.carry(server, client); hang() })
	both.Go(func() { d.carry(client, server); hang() })
	both.Wait()
}

// carry reads ahead of its writes, so that the delay does not limit the data in flight.
func (d *Proxy) carry(to io.Writer, from io.Reader) {
	queue := make(chan piece, 1024)
	written := make(chan struct{})
	go func() {
		defer close(written)
		failed := false
		for p := range queue {
			time.Sleep(time.Until(p.due))
			if !failed {
				_, err := to.Write(p.bytes)
				failed = err != nil
			}
		}
	}()
	for {
		b := make([]byte, 16<<10)
		n, err := from.Read(b)
		if n > 0 {
			queue <- piece{b[:n], time.Now().Add(d.by)}
		}
		if err != nil {
			break
		}
	}
	close(queue)
	<-written
}
