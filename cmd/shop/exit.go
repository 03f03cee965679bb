package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/internal/api"
	"lastitem/internal/redact"
	"lastitem/internal/replica"
	"lastitem/loadtest"
)

// Exit codes of every subcommand; exitCodes says what each means. 'with-stack' ends with the code of its COMMAND.
const (
	exitOK           = loadtest.ExitConfirmed
	exitFailed       = loadtest.ExitContradicted
	exitUsage        = 2
	exitInconclusive = loadtest.ExitUndecided
	exitThreshold    = loadtest.ExitThreshold
	exitInterrupted  = loadtest.ExitInterrupted
)

// exitCodes is the table of exit codes, which every help text ends with.
var exitCodes = []struct {
	code  int
	means api.Text
}{
	{exitOK, both("all is as it must be", "一切符合要求")},
	{exitFailed, both("an error; or a claim, a product or a service is not as it must be", "发生错误；或有声明、商品、服务不符合要求")},
	{exitUsage, both("the command line or a setting is wrong", "命令行或配置项有误")},
	{exitInconclusive, both("nothing can be said: data is missing, or nothing could have failed (vacuous)", "无法判定：缺数据，或这一轮本来就测不出问题（无效）")},
	{exitThreshold, both("a --threshold was crossed", "超出某个 --threshold")},
	{exitInterrupted, both("interrupted; the result so far has been printed", "被中断；已有的结果已经输出")},
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

// finish prints the error of a command in the language lang and returns the exit code: that of an exitError, else exitUsage, since
// cobra's own errors are about the command line and every RunE wraps its errors by way of run.
func finish(cmd *cobra.Command, err error, lang string) int {
	if err == nil {
		return exitOK
	}
	var e *exitError
	if !errors.As(err, &e) {
		fmt.Fprintf(redact.Writer(cmd.ErrOrStderr()), both("shop: %s\nTry '%s --help'.\n", "shop: %s\n用法见 '%s --help'。\n").In(lang), api.ErrorIn(lang, legible(err)), cmd.CommandPath())
		return exitUsage
	}
	if e.err != nil {
		text := api.ErrorIn(lang, e.err)
		if cmd.Name() != "loadtest" { // a user of 'shop modes' would take the package's name for that of another command
			text = strings.ReplaceAll(text, "loadtest: ", "")
		}
		fmt.Fprintf(redact.Writer(cmd.ErrOrStderr()), "shop: %s\n", text)
	}
	return e.code
}

// The errors of cobra that are no types.
var (
	noCommand = regexp.MustCompile(`^unknown command "(.*)" for ".*"(?s:\n\nDid you mean this\?\n\t([^\n]*))?`)
	together  = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)
)

// legible is an error of cobra or pflag in our words, in both languages. Of a value that cannot be read it says what it should be, which
// the parsers of Go leave out.
func legible(err error) error {
	var value *pflag.InvalidValueError
	var none *pflag.NotExistError
	var lacks *pflag.ValueRequiredError
	var bad *pflag.InvalidSyntaxError
	switch {
	case errors.As(err, &value):
		return both("--%s %q: want %s", "--%s %q：应为%s").Errorf(value.GetFlag().Name, value.GetValue(), replica.Wanted(value.GetFlag().Value.Type(), err))
	case errors.As(err, &none) && none.GetSpecifiedShortnames() != "":
		letter, _ := utf8.DecodeRuneInString(none.GetSpecifiedShortnames()) // the group begins with it; the name is its first byte
		return both("unknown flag: -%c", "没有这个选项：-%c").Errorf(letter)
	case errors.As(err, &none):
		return both("unknown flag: --%s", "没有这个选项：--%s").Errorf(none.GetSpecifiedName())
	case errors.As(err, &lacks):
		return both("--%s needs a value", "--%s 需要一个值").Errorf(lacks.GetFlag().Name)
	case errors.As(err, &bad):
		return both("%s is no flag", "%s 不是选项").Errorf(bad.GetSpecifiedFlag())
	}
	if m := noCommand.FindStringSubmatch(err.Error()); m != nil {
		if m[2] != "" {
			return both("unknown command %q (did you mean %q?)", "没有命令 %q（是不是 %q？）").Errorf(m[1], m[2])
		}
		return both("unknown command %q", "没有命令 %q").Errorf(m[1])
	}
	if m := together.FindStringSubmatch(err.Error()); m != nil {
		flags := "--" + strings.ReplaceAll(m[1], " ", " --")
		return both("these flags exclude each other: %s", "这些选项不能同时使用：%s").Errorf(flags)
	}
	return err
}

// run adapts a command body to cobra: what it prints passes package redact, and an error that carries no exit code becomes exitUsage if it is about the settings of a replica, else
// exitFailed or, after Ctrl-C, exitInterrupted.
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
			return &exitError{code: exitInterrupted, err: both("interrupted: %w", "已中断：%w").Errorf(err)}
		}
		return &exitError{code: exitFailed, err: err}
	}
}

// usage is an error of the command line.
func usage(text api.Text, args ...any) error { return misuse(text.Errorf(args...)) }

// misuse marks an error as one of the command line.
func misuse(err error) error { return &exitError{code: exitUsage, err: err} }

// ended is an error that ends the program with a code.
func ended(code int, text api.Text, args ...any) error {
	return &exitError{code: code, err: text.Errorf(args...)}
}

// arguments checks the number of arguments. Its errors name the argument or the Use line; cobra's own give only a count.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return both("an argument is missing: want shop %s", "缺少参数：应为 shop %s").Errorf(cmd.Use)
		case len(args) <= most:
			return nil
		case most == 0 && cmd.Flags().Lookup("mode") != nil:
			return both("unexpected argument %q: modes are chosen with --mode", "多余的参数 %q：模式用 --mode 指定").Errorf(args[0])
		case most == 0:
			return both("unexpected argument %q: shop %s takes flags only", "多余的参数 %q：shop %s 只接受选项").Errorf(args[0], cmd.Name())
		}
		return both("unexpected argument %q: want shop %s", "多余的参数 %q：应为 shop %s").Errorf(args[most], cmd.Use)
	}
}
