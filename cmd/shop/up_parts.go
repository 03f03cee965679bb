package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"regexp"

	"lastitem/internal/cli"
	"lastitem/say/text"
	"lastitem/stack"
)

// upConsole is the console of 'shop up', in the same process. The balancer has to know its address, so that it listens
// before the stack is started, and serves once the stack is there. nil = there is none.
type upConsole struct {
	listener net.Listener
	said     *stackLog
	stop     func() // ends what serve began
}

// listen reserves a port, and tells the options of the stack.
func (f *upFlags) listen(o *stack.Options, said *stackLog) (*upConsole, error) {
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
func (u *upConsole) serve(ctx context.Context, s *stack.Stack, f *upFlags,
	say func(format string, args ...any)) error {
	if u == nil {
		return nil
	}
	c, err := newConsole(driverOf(s, f.rtt, u.said.lines()), say, nil)
	if err != nil {
		return err
	}
	end := inBackground(ctx, func(ctx context.Context) {
		if err := serveConsole(ctx, u.listener, c); err != nil {
			say("console: %v", err)
		}
	})
	u.stop = func() { end(); c.Close() }
	return nil
}

// close ends it. Its runs end before the stack does.
func (u *upConsole) close() {
	if u != nil {
		u.stop()
		_ = u.listener.Close()
	}
}

// envBegins is how the line of [exports] begins.
const envBegins = "export SHOP_ADMIN_TOKEN="

// envMark is the first line of every file of --env. ownEnv matches the whole of such a file, by which a later 'shop up'
// knows that it may replace it: a file that the user has written for the shop, or added a line to, is not ours.
const envMark = "# written by 'shop up', which deletes it at its end\n"

var ownEnv = regexp.MustCompile(`^` + envMark + envBegins + word + `( REDIS=` + word + `)?( SQL=` + word + `)?\n$`)

// word matches what cli.Quote writes.
const word = `'([^']|'\\'')*'`

// checkEnv refuses a file of --env that cannot be written, or that 'shop up' did not write and must not replace, since
// it deletes the file at the end: a device such as /dev/null, a link, a directory, a file with other contents. "" is
// none, and an empty file may be replaced.
func checkEnv(file string) error {
	if file == "" {
		return nil
	}
	info, err := os.Lstat(file)
	if err == nil && !info.Mode().IsRegular() {
		return cli.Usage(foreignEnv, file)
	}
	if err == nil && info.Size() > 0 {
		said, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("--env: %w", err)
		}
		if !ownEnv.Match(said) {
			return cli.Usage(foreignEnv, file)
		}
	}
	if err := cli.Writable(file); err != nil {
		return fmt.Errorf("--env: %w", err)
	}
	return nil
}

// foreignEnv is the error of a file that is not one of ours.
var foreignEnv = text.Of("--env %s: 'shop up' did not write it, and would delete it at the end; name a new file")

// writeEnv writes [envMark] and the line of [exports] to a file, for other shells to source while the stack is up. Only
// the user may read it, since it holds the token. remove deletes it, because a later stack has another token, unless
// another stack has replaced it by now; with file "" both do nothing.
func writeEnv(file string, s *stack.Stack) (remove func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	if err := checkEnv(file); err != nil { // again: the stack took a while to start
		return nil, err
	}
	// A file that is there already keeps its mode when it is written, so it goes first.
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("--env: %w", err)
	}
	said := envMark + exports(s) + "\n"
	if err := os.WriteFile(file, []byte(said), 0o600); err != nil {
		return nil, fmt.Errorf("--env: %w", err)
	}
	return func() error {
		now, err := os.ReadFile(file)
		if os.IsNotExist(err) || err == nil && string(now) != said {
			return nil
		}
		return os.Remove(file)
	}, nil
}
