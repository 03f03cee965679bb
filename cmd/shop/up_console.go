package main

import (
	"context"
	"net"

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
