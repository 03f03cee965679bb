package cli

import (
	"errors"
	"io"
	"os"

	"lastitem/say/text"
)

// envStepSummary names the file that GitHub Actions shows as the summary of a step. Every program of the step appends
// to it.
const envStepSummary = "GITHUB_STEP_SUMMARY"

// beside is a further file that the result is written to, in a form that the flag is named after.
type beside struct {
	form string
	file string // "" = none
}

// besideHelp is the help of the flags.
var besideHelp = map[string]text.Text{
	HTML:     text.Of("also write the result to FILE, as a page that needs no other file"),
	Markdown: text.Of("also write a summary to FILE, as for a pull request; $%s is appended to").With(envStepSummary),
}

// write has the result written to the file.
func (b *beside) write(result func(w io.Writer, form string) error, secret bool) error {
	if b.file != os.Getenv(envStepSummary) {
		return ToFile(b.file, secret, func(w io.Writer) error { return result(w, b.form) })
	}
	f, err := os.OpenFile(b.file, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(redacted(f, func(w io.Writer) error { return result(w, b.form) }), f.Close())
}
