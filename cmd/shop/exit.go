package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes of every subcommand; exitCodes says what each means. 'with-stack' ends with the code of its COMMAND.
const (
	exitOK           = 0
	exitFailed       = 1
	exitUsage        = 2
	exitInconclusive = 3
	exitThreshold    = 99
	exitInterrupted  = 130
)

// exitCodes is the table of exit codes, which every help text ends with.
var exitCodes = []struct {
	code  int
	means string
}{
	{exitOK, "all is as it must be"},
	{exitFailed, "an error; or a claim, a product or a service is not as it must be"},
	{exitUsage, "the command line or a setting is wrong"},
	{exitInconclusive, "nothing can be said: data is missing, or nothing could have failed (vacuous)"},
	{exitThreshold, "a --threshold was crossed"},
	{exitInterrupted, "interrupted; the result so far has been printed"},
}

// exitHelp renders the table of exit codes.
func exitHelp() string {
	var b strings.Builder
	for _, x := range exitCodes {
		fmt.Fprintf(&b, "  %3d  %s\n", x.code, x.means)
	}
	return b.String()
}

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

// finish prints the error of a command and returns the exit code: that of an exitError, else exitUsage, since cobra's own errors
// are about the command line and every RunE wraps its errors by way of run.
func finish(cmd *cobra.Command, err error) int {
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
		if cmd.Name() != "loadtest" { // a user of 'shop modes' would take the package's name for that of another command
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

// arguments wants as many arguments as the Use line of the command says; cobra's own words for it count them, and name none.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return fmt.Errorf("an argument is missing: want shop %s", cmd.Use)
		case len(args) <= most:
			return nil
		case most == 0 && cmd.Flags().Lookup("mode") != nil:
			return fmt.Errorf("unexpected argument %q: modes are chosen with --mode", args[0])
		case most == 0:
			return fmt.Errorf("unexpected argument %q: shop %s takes flags only", args[0], cmd.Name())
		}
		return fmt.Errorf("unexpected argument %q: want shop %s", args[most], cmd.Use)
	}
}
