package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"lastitem/stack/keeper"
)

// Child describes a process that a test or the fault lab starts beside the parts of a stack, and may stop or kill.
type Child struct {
	Name string // unique in the stack; its log is <name>.log
	// Argv is the command line for an address, host:port on loopback, on which the process shall listen.
	Argv func(addr string) []string
	Env  func(addr string) []string // on top of ours; nil = nothing
	// Ready says whether the process at addr can serve; it is asked until it returns nil.
	Ready func(ctx context.Context, addr string) error
	// Addr is the address to listen on; "" takes a free one.
	Addr string
	// Dir is the working directory; "" = the stack's private directory.
	Dir string
	// Within is in which time it must be ready; 0 = three minutes. Then the error is a [context.DeadlineExceeded].
	Within time.Duration
}

// FreePort returns a port of 127.0.0.1 that nobody listens on and that no part or child of the stack has got.
func (s *Stack) FreePort() (string, error) {
	addr, err := s.procs.ports.free()
	_, port, _ := strings.Cut(addr, ":")
	return port, err
}

// Running is a child that was started. Its end is no end of the stack, and the stack's end is its own.
type Running struct {
	Addr string
	PID  int
	p    *keeper.Process
}

// Spawn starts a child and returns when it is ready.
func (s *Stack) Spawn(ctx context.Context, c Child) (*Running, error) {
	sv := server{
		name:   c.Name,
		url:    bare,
		addr:   c.Addr,
		dir:    c.Dir,
		within: c.Within,
		setup:  func(at site) ([]string, error) { return c.Argv(at.addr), nil },
		env:    c.Env,
		ready:  c.Ready,
	}
	run, _, err := s.procs.spawn(ctx, sv)
	return run, err
}

// spawn launches a process whose end is no end of the stack.
func (l *launcher) spawn(ctx context.Context, sv server) (*Running, Service, error) {
	sv.mortal = true
	started, err := l.launch(ctx, sv)
	if err != nil {
		return nil, started, err
	}
	x, _ := l.named(sv.name)
	return &Running{Addr: started.Addr, PID: started.PID, p: x.p}, started, nil
}

// Kill ends the child by SIGKILL and returns when it is gone. It may be repeated.
func (r *Running) Kill() {
	r.p.Kill()
	<-r.p.Exited()
}

// Terminate sends SIGTERM and returns when the child has ended by it, or an error after within.
func (r *Running) Terminate(within time.Duration) error {
	if err := syscall.Kill(r.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stack: %w", err)
	}
	select {
	case <-r.p.Exited():
		return nil
	case <-time.After(within):
		return fmt.Errorf("stack: process %d has not ended within %v of SIGTERM", r.PID, within)
	}
}

// Exited is closed when the child has ended.
func (r *Running) Exited() <-chan struct{} { return r.p.Exited() }

// LastLines returns the last lines of the child's log, at most n; nil = none can be read.
func (r *Running) LastLines(n int) []string { return r.p.Log.Last(0, n) }

// NginxServer describes an nginx that runs in addition to the parts of a stack, in front of two replicas.
type NginxServer struct {
	Name string // unique in the stack
	// First gets every request. If First fails, Next gets the request again, provided that the
	// configuration lets nginx send it again. Both are host:port.
	First, Next string
	// Resend makes nginx send a POST again that it has already sent (proxy_next_upstream ... non_idempotent). Otherwise it
	// has the rule of 'shop up': a POST goes to the next replica only if nothing was sent to the first.
	Resend bool
	// Read is how long a replica may take to answer.
	Read time.Duration
}

// SpawnNginx starts an nginx and returns when it passes requests on. An error: no nginx was found, or it did not start.
func (s *Stack) SpawnNginx(ctx context.Context, o NginxServer) (*Running, error) {
	path, err := Find(Nginx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Dir, strings.ReplaceAll(o.Name, " ", "-"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("stack: %w", err)
	}
	number, _ := version(path, "-v")
	file := filepath.Join(dir, "nginx.conf")
	e := edge{targets: []string{o.First, o.Next + " backup"}, keepFailing: true,
		read: fmt.Sprintf("%dms", o.Read.Milliseconds())}
	if o.Resend {
		e.again = "error timeout non_idempotent"
	}
	sv := server{
		name: o.Name,
		url:  overHTTP,
		setup: func(at site) ([]string, error) {
			e.listen = at.addr
			conf, err := renderNginx(e)
			if err != nil {
				return nil, err
			}
			return nginxArgv(path, number, dir, file), os.WriteFile(file, conf, 0o600)
		},
		ready: func(ctx context.Context, addr string) error { return answers200(ctx, addr, "/readyz") },
	}
	run, _, err := s.procs.spawn(ctx, sv)
	return run, err
}

// RedisServer describes a Redis that runs besides the parts of a stack.
type RedisServer struct {
	Name     string   // unique in the stack
	Password string   // of the user default
	Conf     []string // lines for the end of its redis.conf
	Args     []string // for the end of its command line, "--sentinel"
}

// SpawnRedis starts a Redis and returns when it answers. An error: no program was found, or it did not start.
func (s *Stack) SpawnRedis(ctx context.Context, o RedisServer) (*Running, error) {
	path, err := Find(Redis)
	if err != nil {
		return nil, err
	}
	run, _, err := s.procs.spawn(ctx, redisServer(path, o.Name, "", &Options{redisPassword: o.Password, RedisConf: o.Conf,
		RedisArgs: o.Args}))
	return run, err
}

// SQLServer describes a database server that runs besides the parts of a stack.
type SQLServer struct {
	Name    string   // unique in the stack
	Schemas []string // schemas to create
	Conf    []string // added to its command line
	Env     []string // on top of ours; see [Clock.Env]
}

// RunningSQL is a database server that was started. It may be killed: committed data survives, and [RunningSQL.Restart]
// starts it again on the same data and address.
type RunningSQL struct {
	*Running
	URL string // user:password@tcp(host:port)/lastitem

	procs *launcher
	sv    server
}

// SpawnSQL creates a data directory in the private directory, starts a server on it, and returns when it is ready. An
// error: no server program was found, or it did not start.
func (s *Stack) SpawnSQL(ctx context.Context, o SQLServer) (*RunningSQL, error) {
	path, err := Find(MySQL)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Dir, strings.ReplaceAll(o.Name, " ", "-"))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("stack: %w", err)
	}
	r := &RunningSQL{procs: &s.procs, sv: newDatabase(path, dir, "", o.Schemas, o.Conf).server(s.procs.keeper)}
	r.sv.name, r.sv.env = o.Name, func(string) []string { return o.Env }
	err = r.Restart(ctx)
	return r, err
}

// Restart starts a killed database again, and returns when it is ready.
func (r *RunningSQL) Restart(ctx context.Context) error {
	run, started, err := r.procs.spawn(ctx, r.sv)
	if err == nil {
		r.Running, r.URL, r.sv.addr = run, started.URL, started.Addr
	}
	return err
}
