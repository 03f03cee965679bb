package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/contract/api"
	"lastitem/internal/replica"
	"lastitem/loadtest/compare"
	"lastitem/say/redact"
	"lastitem/say/text"
)

// Exit codes of every subcommand; exitCodes says what each means. 'with-stack' ends with the code of its COMMAND.
const (
	exitOK           = compare.ExitConfirmed
	exitFailed       = compare.ExitContradicted
	exitUsage        = 2
	exitInconclusive = compare.ExitUndecided
	exitThreshold    = compare.ExitThreshold
	exitInterrupted  = compare.ExitInterrupted
)

// exitCodes is the table of exit codes, which every help text ends with.
var exitCodes = []struct {
	code  int
	means text.Text
}{
	{exitOK, text.Of("all is as it must be")},
	{exitFailed, text.Of("an error; or a claim, a product or a service is not as it must be")},
	{exitUsage, text.Of("the command line or a setting is wrong")},
	{exitInconclusive, text.Of("nothing can be said: data is missing, or nothing could have failed (vacuous)")},
	{exitThreshold, text.Of("a --threshold was crossed")},
	{exitInterrupted, text.Of("interrupted; the result so far has been printed")},
}

// exitHelp renders the table of exit codes.
func exitHelp(lang string) string {
	var b strings.Builder
	for _, x := range exitCodes {
		fmt.Fprintf(&b, "  %3d  %s\n", x.code, x.means.In(lang))
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

// finish prints the error of a command in the language lang and returns the exit code: that of an exitError, else
// exitUsage, since cobra's own errors are about the command line and every RunE wraps its errors by way of run.
func finish(cmd *cobra.Command, err error, lang string) int {
	if err == nil {
		return exitOK
	}
	var e *exitError
	if !errors.As(err, &e) {
		fmt.Fprintf(redact.Writer(cmd.ErrOrStderr()), text.Of("shop: %s\nTry '%s --help'.\n").In(lang),
			text.ErrorIn(lang, legible(cmd, err)), cmd.CommandPath())
		return exitUsage
	}
	if e.err != nil {
		said := text.ErrorIn(lang, e.err)
		if cmd.Name() != "loadtest" { // a user of 'shop modes' would take the package's name for that of another command
			said = strings.ReplaceAll(said, "loadtest: ", "")
		}
		fmt.Fprintf(redact.Writer(cmd.ErrOrStderr()), "shop: %s\n", said)
	}
	return e.code
}

// The errors of cobra that are no types.
var (
	noCommand = regexp.MustCompile(`^unknown command "(.*)" for ".*"(?s:\n\nDid you mean this\?\n\t([^\n]*))?`)
	together  = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were ` +
		`all set$`)
)

// legible is an error of cobra or pflag in our words, in both languages. Of a value that cannot be read it says what it
// should be, which the parsers of Go leave out.
func legible(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var none *pflag.NotExistError
	var lacks *pflag.ValueRequiredError
	var bad *pflag.InvalidSyntaxError
	switch {
	case errors.As(err, &value):
		return text.Of("--%s %q: want %s").Errorf(value.GetFlag().Name, value.GetValue(),
			replica.Wanted(value.GetFlag().Value.Type(), err))
	case errors.As(err, &none) && none.GetSpecifiedShortnames() != "":
		// the group begins with it; the name is its first byte
		letter, _ := utf8.DecodeRuneInString(none.GetSpecifiedShortnames())
		return text.Of("unknown flag: -%c").Errorf(letter)
	case errors.As(err, &none):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := api.Nearest(none.GetSpecifiedName(), names); near != "" {
			return text.Of("unknown flag: --%s (did you mean --%s?)").Errorf(none.GetSpecifiedName(), near)
		}
		return text.Of("unknown flag: --%s").Errorf(none.GetSpecifiedName())
	case errors.As(err, &lacks):
		return text.Of("--%s needs a value").Errorf(lacks.GetFlag().Name)
	case errors.As(err, &bad):
		return text.Of("%s is no flag").Errorf(bad.GetSpecifiedFlag())
	}
	if m := noCommand.FindStringSubmatch(err.Error()); m != nil {
		if m[2] != "" {
			return text.Of("unknown command %q (did you mean %q?)").Errorf(m[1], m[2])
		}
		return text.Of("unknown command %q").Errorf(m[1])
	}
	if m := together.FindStringSubmatch(err.Error()); m != nil {
		flags := "--" + strings.ReplaceAll(m[1], " ", " --")
		return text.Of("these flags exclude each other: %s").Errorf(flags)
	}
	return err
}

// run adapts a command body to cobra: what it prints passes package redact, and an error that carries no exit code
// becomes exitUsage if it is about the settings of a replica, else exitFailed or, after Ctrl-C, exitInterrupted.
func run(body func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cmd.SetOut(redact.Writer(cmd.OutOrStdout()))
		cmd.SetErr(redact.Writer(cmd.ErrOrStderr()))
		if err := checkLang(cmd.Flags()); err != nil {
			return err
		}
		err := body(cmd, args)
		var e *exitError
		if err == nil || errors.As(err, &e) {
			return err
		}
		var settings *replica.SettingsError
		if errors.As(err, &settings) {
			return misuse(settings.Err)
		}
		if cmd.Context().Err() != nil {
			return ended(exitInterrupted, text.Of("interrupted: %w"), err)
		}
		return &exitError{code: exitFailed, err: err}
	}
}

// usage is an error of the command line.
func usage(said text.Text, args ...any) error { return misuse(said.Errorf(args...)) }

// misuse marks an error as one of the command line.
func misuse(err error) error { return &exitError{code: exitUsage, err: err} }

// ended is an error that ends the program with a code.
func ended(code int, said text.Text, args ...any) error {
	return &exitError{code: code, err: said.Errorf(args...)}
}

// endWith ends the program with a code, without an error to tell.
func endWith(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}

// arguments checks the number of arguments. Its errors name the argument or the Use line; cobra's own give only a
// count.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return text.Of("an argument is missing: want shop %s").Errorf(cmd.Use)
		case len(args) <= most:
			return nil
		case most == 0 && cmd.Flags().Lookup("mode") != nil:
			return text.Of("unexpected argument %q: modes are chosen with --mode").Errorf(args[0])
		case most == 0:
			return text.Of("unexpected argument %q: shop %s takes flags only").Errorf(args[0], cmd.Name())
		}
		return text.Of("unexpected argument %q: want shop %s").Errorf(args[most], cmd.Use)
	}
}
