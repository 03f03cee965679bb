package text

import (
	"fmt"
	"strings"
)

// Languages lists the languages that texts are written in.
var Languages = []string{"en", "zh"}

// Text is one text in both languages of the project.
type Text struct {
	En string `json:"en"`
	Zh string `json:"zh"`
}

// In returns the text in the language lang ("zh", else English).
func (t Text) In(lang string) string {
	if lang == "zh" && t.Zh != "" {
		return t.Zh
	}
	return t.En
}

// String returns the English text.
func (t Text) String() string { return t.En }

// Errorf returns an error that users read in their language: [ErrorIn] tells it. Its method Error tells it in English,
// as logs are. The texts are formats as of [fmt.Errorf], with plurals as of [Sprintf], both with the same arguments; an
// argument that is a Text, or an error of this kind, follows the language.
func (t Text) Errorf(args ...any) error {
	return &textError{error: fmt.Errorf(numbered(t.En, args), args...), text: t, args: args}
}

// textError is an error with a text in both languages; the one in it is the English one.
type textError struct {
	error
	text Text
	args []any
}

// Unwrap returns the errors that the text wraps with %w.
func (e *textError) Unwrap() []error { return wrapped(e.error) }

// in tells the error in the language lang.
func (e *textError) in(lang string) string {
	args := inLanguage(lang, e.args)
	return fmt.Errorf(numbered(e.text.In(lang), args), args...).Error()
}

// ErrorIn tells an error in the language lang, as far as it was made by [Text.Errorf]; the errors of libraries and
// servers stay as they are.
func ErrorIn(lang string, err error) string {
	if err == nil {
		return ""
	}
	if e, ok := err.(*textError); ok { //nolint:errorlint // what it wraps is told by it, or below
		return e.in(lang)
	}
	text := err.Error()
	for _, inner := range wrapped(err) {
		if said := inner.Error(); said != "" {
			text = strings.Replace(text, said, ErrorIn(lang, inner), 1)
		}
	}
	return text
}

// wrapped returns the errors that err wraps.
func wrapped(err error) []error {
	switch x := err.(type) { //nolint:errorlint // one step at a time
	case interface{ Unwrap() []error }:
		return x.Unwrap()
	case interface{ Unwrap() error }:
		if inner := x.Unwrap(); inner != nil {
			return []error{inner}
		}
	}
	return nil
}
