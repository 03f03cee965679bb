// Command shop is lastitem in one binary: the service, the stack that it runs in, the load generator and the judge.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes of every subcommand.
const (
	exitOK           = 0
	exitFailed       = 1   // an error, or a claim was contradicted
	exitUsage        = 2   // the command line is wrong
	exitInconclusive = 3   // nothing can be said: no data, or the run could not have shown a failure
	exitThreshold    = 99  // a --threshold was crossed
	exitInterrupted  = 130 // Ctrl-C; what was measured until then has been printed
)

// exitError ends the program with a code; its message, if any, goes to stderr.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func main() { os.Exit(shop()) }

// shop runs the command line and returns the exit code. The first signal ends the command's context; after it, a second
// one ends the process, for a command that does not come to its end.
func shop() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	redis.SetLogger(redisLog{slog.New(slog.DiscardHandler)}) // what matters of it comes back as an error; serve logs the rest
	cobra.EnableCommandSorting = false                       // a variable of cobra's; ours are in the order of commands
	return report(newRoot().ExecuteContextC(ctx))
}

// report prints the error of a command and returns the exit code: that of an exitError, else exitUsage, since cobra's own errors
// are about the command line and every RunE wraps its errors by way of run.
func report(cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	var e *exitError
	if !errors.As(err, &e) {
		fmt.Fprintf(cmd.ErrOrStderr(), "shop: %v\nTry '%s --help'.\n", legible(err), cmd.CommandPath())
		return exitUsage
	}
	if e.err != nil {
		text := e.err.Error()
		if cmd.Name() != "loadtest" { // to whoever typed 'shop modes' the name of the package is that of another command
			text = strings.TrimPrefix(text, "loadtest: ")
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "shop: %s\n", text)
	}
	return e.code
}

// legible says of a flag's value that cannot be read what it should be, which the parsers of Go leave out.
func legible(err error) error {
	var e *pflag.InvalidValueError
	if !errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("--%s %q: want %s", e.GetFlag().Name, e.GetValue(), wanted(e.GetFlag().Value.Type(), err))
}

// run adapts a command body to cobra: an error that carries no exit code becomes exitFailed or, after Ctrl-C, exitInterrupted.
func run(body func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := body(cmd, args)
		var e *exitError
		if err == nil || errors.As(err, &e) {
			return err
		}
		if cmd.Context().Err() != nil {
			return &exitError{code: exitInterrupted, err: fmt.Errorf("interrupted: %w", err)}
		}
		return &exitError{code: exitFailed, err: err}
	}
}

// usage marks an error as one of the command line.
func usage(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "shop",
		Short: "Sell the last item exactly once, and see which ways of doing it do not",
		Long: `lastitem: a shop whose one endpoint, /deduct_stock, exists in many modes, from the one that oversells at the second
concurrent request to the ones that hold. Start with 'shop demo'.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.Version = version()
	for _, g := range groups() {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
			complete(cmd)
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(hidden()...)
	return root
}
