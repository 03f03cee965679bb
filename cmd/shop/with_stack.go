package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"lastitem/internal/cli"
	"lastitem/say/text"
	"lastitem/stack"
)

// The environment of a command under 'shop with-stack'. Tests read it by way of package testenv.
const (
	envTestRedis   = "SHOP_TEST_REDIS"
	envTestSQL     = "SHOP_TEST_SQL"
	envTestProgram = "SHOP_TEST_PROGRAM"
	envTestRequire = "SHOP_TEST_REQUIRE"
)

// newWithStack is the hidden command that 'make test' runs the tests under: one Redis and one MySQL for all packages.
func newWithStack() *cobra.Command {
	var require []string
	cmd := &cobra.Command{
		Use:    "with-stack [flags] -- COMMAND...",
		Short:  "Run a command with a private real Redis and MySQL, where they are installed",
		Hidden: true,
		Args:   cli.Arguments(1, math.MaxInt),
		RunE: cli.Run(func(cmd *cobra.Command, args []string) error {
			return withStack(cmd, require, args)
		}),
	}
	cmd.Flags().SetInterspersed(false) // what follows COMMAND is COMMAND's
	cmd.Flags().StringSliceVar(&require, "require", splitList(os.Getenv(envTestRequire)),
		"backends that must be there: redis,mysql,postgres,nginx,etcd,zookeeper,consul,kafka,galera,promtool,chromium,"+
			"terminal; others are left out where they are not installed")
	return cmd
}

// withStack brings the backends up, runs the command, and takes its exit code. A command that went well on a backend
// that died has failed.
func withStack(cmd *cobra.Command, require, argv []string) error {
	say := func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), "with-stack: "+format+"\n", args...)
	}
	o := stack.Options{Backend: stack.Local, Log: say}
	o.Redis, o.SQL = os.Getenv(envTestRedis), os.Getenv(envTestSQL)
	var err error
	if o.Only, err = installed(require, o, say); err != nil {
		return err
	}
	running, err := stack.Start(cmd.Context(), o)
	if err != nil {
		if cmd.Context().Err() != nil {
			return cli.Ended(cli.ExitInterrupted, text.Of("interrupted before the backends were up"))
		}
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return errors.Join(err, running.Close())
	}
	child := exec.Command(argv[0], argv[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Env = append(os.Environ(), envTestRedis+"="+running.Redis.URL, envTestSQL+"="+running.SQL.URL,
		envTestProgram+"="+self, envTestRequire+"="+strings.Join(require, ","))
	code, err := runForwarding(child)
	if died := running.Err(); died != nil {
		err = errors.Join(err, died)
		code = max(code, cli.ExitFailed)
	}
	err = errors.Join(err, running.Close())
	if code == cli.ExitOK && err == nil {
		return nil
	}
	return &cli.Error{Code: max(code, cli.ExitFailed), Err: err}
}

// installed lists the backends to start: the ones given or found. A required one that is neither is an error.
func installed(require []string, o stack.Options, say func(string, ...any)) ([]string, error) {
	known := []string{stack.Redis, stack.MySQL, stack.Nginx, stack.Etcd, stack.ZooKeeper,
		stack.Consul, stack.Kafka}
	looked := []string{"postgres", "galera", "promtool", "chromium", "terminal"} // tests look for these by themselves
	for _, name := range require {
		if all := slices.Concat(known, looked); !slices.Contains(all, name) {
			return nil, cli.Usage(text.Of("--require %s: want some of %s"), name, strings.Join(all, ","))
		}
	}
	given := map[string]bool{stack.Redis: o.Redis != "", stack.MySQL: o.SQL != ""}
	start := []string{}
	for _, name := range known {
		_, err := stack.Find(name)
		switch {
		case err != nil && !given[name] && slices.Contains(require, name):
			return nil, text.Of("%s is required: %w").Errorf(name, err)
		case err != nil && !given[name]:
			say("no %s: %v", name, err)
		case name == stack.Redis || name == stack.MySQL: // few tests need the others, and start their own
			start = append(start, name)
		}
	}
	return start, nil
}

// runForwarding runs a command, passes the signals that reach us on to it, and returns its exit code: 128 + the signal
// that killed it, and 127 when it could not be started.
func runForwarding(child *exec.Cmd) (int, error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if err := child.Start(); err != nil {
		return 127, err
	}
	ctx, ended := context.WithCancel(context.Background())
	defer ended()
	go func() {
		for {
			select {
			case s := <-signals:
				_ = child.Process.Signal(s)
			case <-ctx.Done():
				return
			}
		}
	}()
	err := child.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return cli.ExitOK, nil
	case !errors.As(err, &exit):
		return cli.ExitFailed, err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}

// splitList splits a comma list; nothing for "".
func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
