package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

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
	formHTML:     text.Of("also write the result to FILE, as a page that needs no other file"),
	formMarkdown: text.Of("also write a summary to FILE, as for a pull request; $%s is appended to").With(envStepSummary),
}

// addBesides declares the flags --html FILE and --markdown FILE, or those of the forms given.
func (o *output) addBesides(cmd *cobra.Command, forms ...string) {
	for _, form := range forms {
		b := &beside{form: form}
		o.besides = append(o.besides, b)
		cmd.Flags().StringVar(&b.file, form, "", besideHelp[form].In(o.lang))
		cmd.Flags().Lookup(form).Value = fileValue{cmd.Flags().Lookup(form).Value}
	}
}

// write has the result written to the file.
func (b *beside) write(result func(w io.Writer, form string) error, secret bool) error {
	if b.file != os.Getenv(envStepSummary) {
		return toFile(b.file, secret, func(w io.Writer) error { return result(w, b.form) })
	}
	f, err := os.OpenFile(b.file, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(redacted(f, func(w io.Writer) error { return result(w, b.form) }), f.Close())
}

// gives says whether the result is written in that form anywhere.
func (o *output) gives(form string) bool {
	for _, b := range o.besides {
		if b.form == form && b.file != "" {
			return true
		}
	}
	return o.stdoutForm == form || o.fileForm == form
}
