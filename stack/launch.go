package stack

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"lastitem/say/text"
	"lastitem/stack/keeper"
)

// server describes one process to bring up on a port. The functions get the address ("127.0.0.1:20123") because it may
// change between attempts.
type server struct {
	name    string
	kind    string
	url     func(addr string) string
	addr    string                          // fixed; "" = a free loopback port, and another one should that be taken
	dir     string                          // working directory; "" = the private one
	prepare func(ctx context.Context) error // runs before the first attempt; nil = nothing does
	setup   func(at site) ([]string, error) // writes what the process reads and returns its command line
	env     func(addr string) []string      // nil = none
	ready   func(ctx context.Context, addr string) error
	grace   time.Duration // see keeper.Command
	as      *keeper.Account
	within  time.Duration // in which it must be ready; 0 = readyWithin
	// loses says what is gone when the process dies, as a sentence. A part that loses nothing ("") may be started again:
	// it keeps no data, or keeps them in files, which outlive a process also where they are not synced.
	loses text.Text
	// mortal says that its end is no end of the stack.
	mortal bool
}

// site is where a process is set up.
type site struct {
	addr string                 // host:port on loopback
	dir  string                 // the private directory
	more func() (string, error) // another free address
}

func (s site) port() string { return s.addr[strings.LastIndex(s.addr, ":")+1:] }

func (s site) file(name string) string { return filepath.Join(s.dir, name) }

// overHTTP and bare are what a client wants: http://host:port, or host:port.
func overHTTP(addr string) string { return "http://" + addr }
func bare(addr string) string     { return addr }

// grace is how long a replica or balancer may take to end; see keeper.Command. A replica may send its last traces for 3
// s.
const grace = 4 * time.Second

// launcher starts processes on ports, and knows what runs, to start it again.
type launcher struct {
	keeper *keeper.Keeper
	opts   *Options
	ports  ports

	mu    sync.Mutex
	parts map[string]part // what runs, by name
}

const (
	portTries    = 5
	readyWithin  = 3 * time.Minute // generous: a fresh database, or a Java server, on a busy machine
	readyPolling = 20 * time.Millisecond
	killedWithin = 5 * time.Second
)

// errEarlyExit: the process ended early, for example because its port was taken.
var errEarlyExit = text.Of("ended before it was ready").Errorf()

// part is a running server, as launch started it.
type part struct {
	sv   server
	addr string
	p    *keeper.Process
}

// keep notes what was launched, to start it again.
func (l *launcher) keep(sv server, addr string, p *keeper.Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parts == nil {
		l.parts = map[string]part{}
	}
	l.parts[sv.name] = part{sv, addr, p}
}

func (l *launcher) named(name string) (part, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, ok := l.parts[name]
	return x, ok
}

// launch starts the process and waits until it is ready. Another process may take a port between our choice and its
// use; then the next port is tried.
func (l *launcher) launch(ctx context.Context, sv server) (Service, error) {
	if sv.prepare != nil {
		if err := sv.prepare(ctx); err != nil {
			return Service{}, err
		}
	}
	for try := 1; ; try++ {
		addr := sv.addr
		if addr == "" {
			var err error
			if addr, err = l.ports.free(); err != nil {
				return Service{}, err
			}
		}
		p, err := l.attempt(ctx, sv, addr)
		if err == nil {
			l.keep(sv, addr, p)
			return Service{Name: sv.name, Kind: sv.kind, Addr: addr, URL: sv.url(addr), PID: p.PID}, nil
		}
		// "in use" in the text shows a rival that has left the port by now. A server that fails for another reason
		// would fail again: show its error.
		collided := errors.Is(err, errEarlyExit) && (listenable(addr) != nil || strings.Contains(err.Error(), "in use"))
		if sv.addr != "" || !collided || try == portTries {
			return Service{}, err
		}
		l.opts.Log("%s: %s was taken meanwhile, trying another port", sv.name, addr)
	}
}

// attempt starts the process once.
func (l *launcher) attempt(ctx context.Context, sv server, addr string) (*keeper.Process, error) {
	argv, err := sv.setup(site{addr: addr, dir: l.keeper.Dir, more: l.ports.free})
	if err != nil {
		return nil, text.Of("stack: set %s up: %w").Errorf(sv.name, err)
	}
	var env []string
	if sv.env != nil {
		env = sv.env(addr)
	}
	p, err := l.keeper.Start(ctx, sv.name, keeper.Command{Argv: argv, Env: env, Dir: sv.dir, As: sv.as,
		Grace: sv.grace})
	if err != nil {
		return nil, err
	}
	if err := l.await(ctx, sv, addr, p); err != nil {
		p.Kill()
		select {
		case <-p.Exited(): // now its port is free again
		case <-time.After(killedWithin):
		}
		return nil, fmt.Errorf("stack: %s: %w%s%s", sv.name, err, p.Log.Cause(), p.Log.Tail())
	}
	return p, nil
}

// await polls until the process is ready, has ended, or the time is over. A probe under way is abandoned when the
// process ends: whatever has the port now is no longer of interest.
func (l *launcher) await(ctx context.Context, sv server, addr string, p *keeper.Process) error {
	within := cmp.Or(sv.within, readyWithin)
	ctx, stop := context.WithTimeout(ctx, within)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.Exited():
			said := text.Of("%w: %s")
			if p.How() == keeper.ExitedWell {
				said = text.Of("%w: %s (it must stay in the foreground)")
			}
			cancel(said.Errorf(errEarlyExit, p.How()))
		case <-ctx.Done():
		}
	}()
	for {
		err := sv.ready(ctx, addr)
		// guard: an answer from a child that has already ended came from another server, which has the port.
		if err == nil && l.keeper.Guard(p, !sv.mortal) {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(readyPolling):
			continue
		}
		cause := context.Cause(ctx)
		if errors.Is(cause, context.DeadlineExceeded) {
			return text.Of("not ready within %v: %w").Errorf(within, errors.Join(cause, err))
		}
		return cause
	}
}

// answers dials addr, sends ask, if any, and looks at the beginning of what comes back. It needs no client library, and
// a server that takes connections before it can answer is not taken for ready.
func answers(ctx context.Context, addr, ask string, matches func(line []byte) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Write([]byte(ask)); err != nil {
		return err
	}
	line := make([]byte, 128)
	n, err := bufio.NewReader(conn).Read(line)
	if err != nil {
		return err
	}
	if !matches(line[:n]) {
		return fmt.Errorf("unexpected answer %q", line[:n])
	}
	return nil
}

// probes is the client of the readiness checks; no connection outlives its request.
var probes = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// answers200 asks for a path over HTTP.
func answers200(ctx context.Context, addr, path string) error {
	_, err := get(ctx, addr, path)
	return err
}

// get returns the body of a path over HTTP. Any status but 200 is an error.
func get(ctx context.Context, addr, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := probes.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", path, res.Status)
	}
	return io.ReadAll(io.LimitReader(res.Body, 1<<20))
}
