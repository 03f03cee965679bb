// Package cli is the kit of our command lines, over cobra: what every program and command of ours has alike, and
// nothing about what they do. [Flags] declares flags, [Output] says in which form a result goes where, [SetHelp] prints
// the help, [Run] and [Finish] turn errors into messages and exit codes. Texts are English or Chinese, as [Language]
// finds.
package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/say/redact"
	"lastitem/say/text"
)

// Interruptible returns the context of a program, which the first signal ends; after it, a second one ends the process,
// for a command that does not come to its end. A second SIGHUP does not: when a terminal is closed, the shell and the
// kernel both send one.
func Interruptible() (ctx context.Context, stop func()) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP)
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	ctx, stop = signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Run adapts a command body to cobra: what it prints passes package redact, and an error that carries no exit code gets
// ExitUsage if its method Misuse says what the user gave wrongly, else ExitFailed or, after Ctrl-C, ExitInterrupted.
func Run(body func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cmd.SetOut(redact.Writer(cmd.OutOrStdout()))
		cmd.SetErr(redact.Writer(cmd.ErrOrStderr()))
		if err := checkLang(cmd.Flags()); err != nil {
			return err
		}
		err := body(cmd, args)
		var e *Error
		if err == nil || errors.As(err, &e) {
			return err
		}
		var given interface{ Misuse() error }
		if errors.As(err, &given) {
			return Misuse(given.Misuse())
		}
		if cmd.Context().Err() != nil {
			return Ended(ExitInterrupted, text.Of("interrupted: %w"), err)
		}
		return &Error{Code: ExitFailed, Err: err}
	}
}

// checkLang refuses a language that no text is written in.
func checkLang(set *pflag.FlagSet) error {
	f := set.Lookup("lang")
	if f == nil || slices.Contains(text.Languages, f.Value.String()) {
		return nil
	}
	return Usage(text.Of("--lang %q: want %s"), f.Value.String(), OrList(text.Languages))
}

// Arguments checks the number of arguments. Its errors name the argument or the Use line; cobra's own give only a
// count.
func Arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return text.Of("an argument is missing: want %s").Errorf(useOf(cmd))
		case len(args) <= most:
			return nil
		case most == 0:
			return text.Of("unexpected argument %q: %s takes flags only").Errorf(args[0], cmd.CommandPath())
		}
		return text.Of("unexpected argument %q: want %s").Errorf(args[most], useOf(cmd))
	}
}

// useOf is the Use line of a command, after those that it belongs to.
func useOf(cmd *cobra.Command) string {
	if cmd.HasParent() {
		return cmd.Parent().CommandPath() + " " + cmd.Use
	}
	return cmd.Use
}
