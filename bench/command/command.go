// Package command has the common parts of the benchmark programs: exit codes, error messages, the selection by name,
// and the files that they write.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// Name is the name of a program; its messages begin with it.
type Name string

// Main runs a program until it ends or is interrupted, and returns its exit code: 0; 1 if run failed; 2 if parse
// failed, which has printed why; 130 on a signal. A second signal ends the process; children notice the end of their
// input.
func Main[O any](n Name, args []string, parse func(args []string, errOut io.Writer) (O, error),
	run func(ctx context.Context, o O, out, errOut io.Writer) error,
) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	o, err := parse(args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	code := n.Exit(run(ctx, o, os.Stdout, os.Stderr))
	if ctx.Err() != nil {
		fmt.Fprintf(os.Stderr, "%s: interrupted\n", n)
		return 130
	}
	return code
}

// Exit prints the error, if any, and returns the exit code.
func (n Name) Exit(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", n, err)
	return 1
}

// Complain prints a mistake in the command line, and returns it as an error.
func (n Name) Complain(errOut io.Writer, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	fmt.Fprintf(errOut, "%s: %v\n", n, err)
	return err
}

// Pick returns the named elements (separated by commas or spaces) in the order of all; without names, the default ones.
func Pick[T any](all []T, names string, of func(T) (name string, byDefault bool)) (picked []T, unknown []string) {
	wanted := strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' })
	unknown = slices.Clone(wanted)
	for _, one := range all {
		name, byDefault := of(one)
		if len(wanted) == 0 && byDefault || slices.Contains(wanted, name) {
			picked = append(picked, one)
		}
		unknown = slices.DeleteFunc(unknown, func(u string) bool { return u == name })
	}
	return picked, unknown
}
