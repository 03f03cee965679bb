// Package command is what the benchmark programs have in common: how they end, how they complain, what they are asked for by
// name, and where they write what they measured.
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

// Name of a program; its complaints and its progress begin with it.
type Name string

// Main runs a program until it ends or is interrupted, and returns its exit code: 0; 1 where run failed; 2 where parse did,
// which has said why; 130 on a signal. A second signal ends the process; children notice by the end of their input.
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

// Exit says what went wrong, if anything, and returns the exit code.
func (n Name) Exit(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", n, err)
	return 1
}

// Complain says what is wrong with the command line, and returns it.
func (n Name) Complain(errOut io.Writer, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	fmt.Fprintf(errOut, "%s: %v\n", n, err)
	return err
}

// Pick takes the named ones (by commas or spaces) in the order of all, or without names those that are on by default.
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
