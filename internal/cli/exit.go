package cli

import (
	"fmt"
	"strings"

	"lastitem/say/text"
)

// Exit codes that every program has; it may have more.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitInterrupted = 130
)

// Exits says what each exit code means.
type Exits []struct {
	Code  int
	Means text.Text
}

// Help renders the table of exit codes, which every help text ends with.
func (all Exits) Help(lang string) string {
	var b strings.Builder
	for _, x := range all {
		fmt.Fprintf(&b, "  %3d  %s\n", x.Code, x.Means.In(lang))
	}
	return b.String()
}

// Error ends the program with a code; its message, if any, goes to stderr.
type Error struct {
	Code int
	Err  error // nil = there is nothing to say
}

func (e *Error) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Usage is an error of the command line.
func Usage(said text.Text, args ...any) error { return Misuse(said.Errorf(args...)) }

// Misuse marks an error as one of the command line.
func Misuse(err error) error { return &Error{Code: ExitUsage, Err: err} }

// Ended is an error that ends the program with a code.
func Ended(code int, said text.Text, args ...any) error {
	return &Error{Code: code, Err: said.Errorf(args...)}
}

// EndWith ends the program with a code, without an error to tell.
func EndWith(code int) error {
	if code == ExitOK {
		return nil
	}
	return &Error{Code: code}
}
