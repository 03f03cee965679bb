// The HTTP edge of a replica: it shuts down without losing a request ([Drainer], with its [Listener]), and turns
// the errors that net/http answers on its own into problems ([Problems]).

package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A shutdown loses no request. It has four steps. While SHOP_DRAIN lasts the replica accepts and answers as always, but
// says that it is not ready and ends each connection with "Connection: close", so that a balancer is left without
// connections to reuse. Then it stops listening: it lets no new connection begin, serves those that it has, and refuses
// the rest, so that the balancer knows that nothing was sent. Then, for drainGrace, requests in flight go on. Then
// waits for locks end, with lock_busy; a deduction that has begun to write goes on, within the ten seconds that package
// stock allows it.
const (
	drainGrace = 5 * time.Second
	drainLimit = drainGrace + 15*time.Second
)

// Drainer shuts one server down.
type Drainer struct {
	Server      *http.Server
	Listener    *Listener
	Cut         context.CancelFunc // ends the context that all requests descend from
	Interrupted chan os.Signal     // from Interrupts; nil = Ctrl-C does not shorten the drain
	Log         *slog.Logger
}

// Interrupts returns a channel that receives Ctrl-C (SIGINT), for [Drainer.Interrupted]. Call it before the server
// starts, so that the channel also gets the Ctrl-C that ends the server.
func Interrupts() chan os.Signal {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	return interrupted
}

// Drain goes on for as long as wait says, or until Ctrl-C, which may already have arrived: a replica that was started
// at a terminal has no balancer to inform, and neither has one whose balancer ends too. From then on the next Ctrl-C
// ends the process.
func (d Drainer) Drain(wait time.Duration) error {
	d.Log.Info("draining", "for", wait)
	select {
	case <-time.After(wait):
	case <-d.Interrupted:
		d.Log.Info("interrupted: the drain ends now")
	}
	signal.Stop(d.Interrupted)
	if err := d.Listener.last(); err != nil {
		d.Log.Warn("stop listening", "err", err)
	}
	defer time.AfterFunc(drainGrace, d.Cut).Stop()
	end, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	d.Listener.finish(end)
	if err := d.Server.Shutdown(end); err != nil {
		return fmt.Errorf("requests were still running after %s: %w", drainLimit, err)
	}
	d.Log.Info("drained")
	return nil
}

// finish waits until no connection has a request that is not answered, or end. [http.Server.Shutdown] alone would not
// do: it drops requests that it reads after it was called.
func (l *Listener) finish(end context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for l.busy.Load() > 0 {
		select {
		case <-tick.C:
		case <-end.Done():
			return
		}
	}
}

// watchedConn is a connection whose listener counts it while it is busy.
type watchedConn struct {
	*net.TCPConn
	busy bool
}

// State follows a connection; it is the server's ConnState. One that has not yet sent anything counts as busy: it may
// have.
func (l *Listener) State(c net.Conn, s http.ConnState) {
	if p, ok := c.(*problemConn); ok {
		c = p.Conn
	}
	w, ok := c.(*watchedConn)
	if !ok {
		return
	}
	switch busy := s == http.StateNew || s == http.StateActive; {
	case busy == w.busy:
		return
	case busy:
		l.busy.Add(1)
	default:
		l.busy.Add(-1)
	}
	w.busy = !w.busy
}

// Listener is a TCP listener that can be closed without resetting the connections that the kernel has accepted and the
// server has not: their clients may have sent a request already. First turnAway lets no further one begin; then last
// takes those that are waiting and closes with the next system call. (Close would wait until the accepting goroutine
// has let go.)
type Listener struct {
	*net.TCPListener
	busy     atomic.Int64 // connections with a request in flight, or about to send one
	stopping atomic.Bool
	rest     chan *net.TCPConn // connections taken by last
	closed   chan struct{}
	once     sync.Once
}

// Listen listens on a TCP address, for a [Drainer].
func Listen(addr string) (*Listener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // such a listener takes no filter, see turnAway
	l, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok { // "tcp" always makes one
		return nil, errors.Join(fmt.Errorf("listener %T", l), l.Close())
	}
	return &Listener{TCPListener: tcp, rest: make(chan *net.TCPConn), closed: make(chan struct{})}, nil
}

// Accept implements net.Listener. After last it returns the remaining connections, and then waits for Close, since the
// first error ends the server's loop.
func (l *Listener) Accept() (net.Conn, error) {
	conn, err := l.AcceptTCP()
	if err != nil && !l.stopping.Load() {
		return nil, err
	}
	for conn == nil {
		select {
		case conn = <-l.rest:
		case <-l.closed:
			return nil, err
		}
	}
	return &watchedConn{TCPConn: conn}, nil
}

// Close implements net.Listener. It may be repeated.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	if err := l.TCPListener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// last stops listening and hands the connections that were waiting to Accept.
func (l *Listener) last() error {
	early := turnAway(l.TCPListener)
	l.stopping.Store(true)
	raw, err := l.SyscallConn()
	if err != nil {
		return errors.Join(early, err)
	}
	var waiting []int
	err = raw.Control(func(fd uintptr) {
		for {
			conn, _, err := syscall.Accept(int(fd))
			if errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.ECONNABORTED) {
				continue
			}
			if err != nil { // EAGAIN: nobody is waiting
				_ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) // where the system has this for listeners; Close follows
				return
			}
			waiting = append(waiting, conn)
		}
	})
	err = errors.Join(early, err, l.TCPListener.Close())
	rest := make([]*net.TCPConn, 0, len(waiting)+1)
	for _, fd := range waiting {
		conn, fdErr := connOf(fd)
		if fdErr != nil {
			err = errors.Join(err, fdErr)
			continue
		}
		rest = append(rest, conn)
	}
	for _, conn := range append(rest, nil) { // nil: when it is taken, the server has counted the one before
		select {
		case l.rest <- conn:
		case <-l.closed:
			return err
		}
	}
	return err
}

// connOf makes a connection of a file descriptor, which it takes over.
func connOf(fd int) (*net.TCPConn, error) {
	syscall.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "accepted")
	conn, err := net.FileConn(file) // a copy
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok { // a TCP listener accepts nothing else
		return nil, errors.Join(fmt.Errorf("connection %T", conn), conn.Close())
	}
	return tcp, nil
}
