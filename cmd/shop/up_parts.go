package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"lastitem/internal/localstack"
)

// upConsole is the console of 'shop up', in the same process. The balancer has to know its address, so that it listens before the
// stack is started, and serves once the stack is there. nil = there is none.
type upConsole struct {
	listener net.Listener
	said     *stackLog
	stop     func() // ends what serve began
}

// listen reserves a port, and tells the options of the stack.
func (f *upFlags) listen(o *localstack.Options, said *stackLog) (*upConsole, error) {
	if f.noConsole {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o.Console = l.Addr().String()
	o.Env = append(o.Env, "SHOP_EVENTS=true")
	return &upConsole{listener: l, said: said, stop: func() {}}, nil
}

// serve begins to serve the console of a stack.
func (u *upConsole) serve(ctx context.Context, s *localstack.Stack, f *upFlags, say func(format string, args ...any)) error {
	if u == nil {
		return nil
	}
	c, err := newConsole(driverOf(s, f.rtt, u.said.lines()), say, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := serveConsole(ctx, u.listener, c); err != nil {
			say("console: %v", err)
		}
	}()
	u.stop = func() { cancel(); <-ended; c.Close() }
	return nil
}

// close ends it. Its runs end before the stack does.
func (u *upConsole) close() {
	if u != nil {
		u.stop()
		_ = u.listener.Close()
	}
}

// writeEnv writes the line of [exports] to a file, for other shells to source while the stack is up. Only the user may read it, since
// it holds the token. remove deletes it, because a later stack has another token; with file "" both do nothing.
func writeEnv(file string, s *localstack.Stack) (remove func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // a directory such as out/, which others may read
		return nil, fmt.Errorf("--env: %w", err)
	}
	// A file that is there already keeps its mode when it is written, so it goes first.
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("--env: %w", err)
	}
	if err := os.WriteFile(file, []byte(exports(s)+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("--env: %w", err)
	}
	return func() error { return os.Remove(file) }, nil
}
