package localstack

import (
	"context"
	"fmt"
	"syscall"
	"time"
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
}

// Running is a child that was started. Its end is no end of the stack, and the stack's end is its own.
type Running struct {
	Addr string
	PID  int
	p    *process
}

// Spawn starts a child and returns when it is ready.
func (s *Stack) Spawn(ctx context.Context, c Child) (*Running, error) {
	sv := server{
		name:   c.Name,
		url:    func(string) string { return "" },
		addr:   c.Addr,
		dir:    c.Dir,
		setup:  func(addr string) ([]string, error) { return c.Argv(addr), nil },
		env:    c.Env,
		ready:  c.Ready,
		mortal: true,
	}
	started, err := s.launch(ctx, sv)
	if err != nil {
		return nil, err
	}
	x, _ := s.partNamed(c.Name)
	return &Running{Addr: started.Addr, PID: started.PID, p: x.p}, nil
}

// Kill ends the child by SIGKILL and returns when it is gone. It may be repeated.
func (r *Running) Kill() {
	select {
	case <-r.p.exited:
		return
	default:
	}
	killGroup(r.PID)
	<-r.p.exited
}

// Terminate sends SIGTERM and returns when the child has ended by it, or an error after within.
func (r *Running) Terminate(within time.Duration) error {
	if err := syscall.Kill(r.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("localstack: %w", err)
	}
	select {
	case <-r.p.exited:
		return nil
	case <-time.After(within):
		return fmt.Errorf("localstack: process %d has not ended within %v of SIGTERM", r.PID, within)
	}
}

// Exited is closed when the child has ended.
func (r *Running) Exited() <-chan struct{} { return r.p.exited }
