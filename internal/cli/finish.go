package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/say/redact"
	"lastitem/say/text"
)

// Finish prints the error of a command in the language lang and returns the exit code: that of an [Error], else
// ExitUsage, since cobra's own errors are about the command line and every RunE wraps its errors by way of [Run]. An
// error may begin with the name of its package; where that is the name of one of others, which are commands, users of
// another command would misread it, and it is left out.
func Finish(cmd *cobra.Command, err error, lang string, others ...string) int {
	if err == nil {
		return ExitOK
	}
	program := cmd.Root().Name()
	var e *Error
	if !errors.As(err, &e) {
		fmt.Fprintf(redact.Writer(cmd.ErrOrStderr()), text.Of("%s: %s\nTry '%s --help'.\n").In(lang), program,
			text.ErrorIn(lang, legible(cmd, err)), cmd.CommandPath())
		return ExitUsage
	}
	if e.Err != nil {
		said := text.ErrorIn(lang, e.Err)
		for _, other := range others {
			if cmd.Name() != other {
				said = strings.ReplaceAll(said, other+": ", "")
			}
		}
		fmt.Fprintf(redact.Writer(cmd.ErrOrStderr()), "%s: %s\n", program, said)
	}
	return e.Code
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
	case errors.As(err, &value) && errors.Is(err, errTwice):
		return text.Of("--%s is given twice").Errorf(value.GetFlag().Name)
	case errors.As(err, &value):
		return text.Of("--%s %q: want %s").Errorf(value.GetFlag().Name, value.GetValue(),
			wanted(value.GetFlag().Value.Type(), err))
	case errors.As(err, &none) && none.GetSpecifiedShortnames() != "":
		// the group begins with it; the name is its first byte
		letter, _ := utf8.DecodeRuneInString(none.GetSpecifiedShortnames())
		return text.Of("unknown flag: -%c").Errorf(letter)
	case errors.As(err, &none):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := text.Nearest(none.GetSpecifiedName(), names); near != "" {
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

// wanted describes a valid value of a flag, by the name of its type; err is the error of parsing, which tells a number
// that is too large.
func wanted(kind string, err error) text.Text {
	if errors.Is(err, strconv.ErrRange) {
		return text.Of("a number that fits into 64 bits")
	}
	return valid[kind]
}

// valid are the values of a type of flags that can be given wrongly.
var valid = map[string]text.Text{
	"duration":    text.Of("a duration with its unit, such as 10s or 500ms"),
	"int":         text.Of("a whole number"),
	"int64":       text.Of("a whole number"),
	"uint64":      text.Of("a whole number, not negative"),
	"float64":     text.Of("a number"),
	"bool":        text.Of("true or false"),
	"intSlice":    text.Of("whole numbers, separated by commas"),
	"stringSlice": text.Of("a list separated by commas, with its quotes closed"),
}
